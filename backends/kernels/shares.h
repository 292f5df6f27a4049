// Tiles that threads take over from one another.
#pragma once
#include "backends/kernels/kernel.h"

namespace KERNELS_NAMESPACE {

// What a thread computes of `count` tiles, range by range: its share; or, where they are claimed, chunks of `chunk` tiles
// (whole grains) from the front of its share until that is done, then from the back of the others', so that nobody waits
// long for a thread whose core or memory is slow at the moment. Which thread computes a tile changes no bit.
//
// A share's word counts the chunks that were taken from its front and from its back, also those that were asked for in
// vain: a chunk is had by whoever counts it while both together are below the number of chunks, so none is had twice.
// The other word is that of the claimed step before and of the one behind this, and no thread is in those.
class Shares {
 public:
  __attribute__((always_inline)) Shares(const LlmcContext* c, int64_t count, int64_t grain, int64_t over,
                                        int64_t claimed, int64_t chunk, uint32_t thread, uint32_t threads)
      : count_(count), grain_(grain), over_(over), chunk_(chunk), thread_(thread), threads_(threads), owner_(thread) {
    share_ = Share(count, grain, over, kTiles, thread, threads);
    if (claimed == 0 || c->claims == nullptr || threads == 1) return;
    LlmcClaims& own = c->claims[thread];
    claims_ = c->claims;
    turn_ = own.turn++ & 1;
    __atomic_store_n(&own.taken[turn_ ^ 1], 0, __ATOMIC_RELAXED);
  }
  // False: there is nothing left.
  __attribute__((always_inline)) bool Next(Range& range) {
    if (claims_ == nullptr) {
      range = share_;
      share_.begin = share_.end;
      return range.begin < range.end;
    }
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
    for (;;) {
      const uint64_t step = owner_ == thread_ ? 1 : uint64_t{1} << 32;
      const uint64_t before = __atomic_fetch_add(&claims_[owner_].taken[turn_], step, __ATOMIC_RELAXED);
      const int64_t front = static_cast<int64_t>(before & 0xffffffffu), back = static_cast<int64_t>(before >> 32);
      const int64_t chunks = (share_.end - share_.begin + chunk_ - 1) / chunk_;
      if (front + back < chunks) {
        range.begin = share_.begin + chunk_ * (owner_ == thread_ ? front : chunks - 1 - back);
        range.end = range.begin + chunk_ < share_.end ? range.begin + chunk_ : share_.end;
        return true;
      }
      owner_ = owner_ + 1 < threads_ ? owner_ + 1 : 0;
      if (owner_ == thread_) return false;
      share_ = Share(count_, grain_, over_, kTiles, owner_, threads_);
    }
  }

 private:
  const int64_t count_, grain_, over_, chunk_;
  const uint32_t thread_, threads_;
  uint32_t owner_, turn_ = 0;
  Range share_;
  LlmcClaims* claims_ = nullptr;
};

}  // namespace KERNELS_NAMESPACE
