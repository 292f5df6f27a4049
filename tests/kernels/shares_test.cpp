// Claimed tiles: in every step each tile is computed by one thread, whatever the threads' speed.
#include "backends/kernels/shares.h"

#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace llmc::kernels_test {
namespace {

using namespace llmc::kernels;

struct Step {
  int64_t count, grain, chunk;
};

std::vector<Step> Steps() {
  std::vector<Step> steps;
  for (const int64_t count : {1, 2, 3, 16, 17, 96, 257}) {
    for (const int64_t grain : {1, 2, 4}) {
      for (const int64_t units : {1, 3, 40}) steps.push_back({count, grain, units * grain});
    }
  }
  return steps;
}

void CheckSteps(uint32_t threads, int slow) {
  const std::vector<Step> steps = Steps();
  std::vector<LlmcClaims> claims(threads);
  LlmcContext c{};
  c.claims = claims.data();
  std::vector<std::vector<std::atomic<int>>> times(steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    times[i] = std::vector<std::atomic<int>>(static_cast<size_t>(steps[i].count));
  std::barrier meet(static_cast<std::ptrdiff_t>(threads));
  std::atomic<bool> whole = true;
  const auto run = [&](uint32_t thread) {
    std::mt19937 random(thread);
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& s = steps[i];
      Shares shares(&c, s.count, s.grain, kTiles, 1, s.chunk, thread, threads);
      for (Range range; shares.Next(range);) {
        if (range.begin % s.grain != 0 || (range.end % s.grain != 0 && range.end != s.count)) whole = false;
        for (int64_t tile = range.begin; tile < range.end; ++tile) ++times[i][static_cast<size_t>(tile)];
        const int pauses = static_cast<int>(thread) == slow ? 200 : static_cast<int>(random() % 4);
        for (int p = 0; p < pauses; ++p) std::this_thread::yield();
      }
      meet.arrive_and_wait();
    }
  };
  std::vector<std::thread> pool;
  for (uint32_t t = 0; t < threads; ++t) pool.emplace_back(run, t);
  for (std::thread& t : pool) t.join();
  EXPECT_TRUE(whole) << "a grain was cut";
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t tile = 0; tile < times[i].size(); ++tile)
      ASSERT_EQ(times[i][tile].load(), 1) << "threads " << threads << ", step " << i << ", tile " << tile;
  }
}

TEST(Shares, EachTileIsComputedOnce) {
  for (uint32_t threads = 2; threads <= 5; ++threads) {
    for (int slow = -1; slow < static_cast<int>(threads); slow += 2) CheckSteps(threads, slow);
  }
}

TEST(Shares, AThreadThatIsAloneComputesAll) {
  LlmcClaims claims[3] = {};
  LlmcContext c{};
  c.claims = claims;
  for (int step = 0; step < 4; ++step) {
    for (const uint32_t thread : {1u, 0u, 2u}) {
      Shares shares(&c, 100, 2, kTiles, 1, 6, thread, 3);
      int64_t tiles = 0;
      for (Range range; shares.Next(range);) tiles += range.end - range.begin;
      EXPECT_EQ(tiles, thread == 1 ? 100 : 0);
    }
  }
}

TEST(Shares, AreFixedWithoutClaims) {
  LlmcClaims claims[2] = {};
  LlmcContext with{}, without{};
  with.claims = claims;
  for (const uint32_t thread : {0u, 1u}) {
    for (const bool claimed : {false, true}) {
      Shares shares(claimed ? &without : &with, 9, 1, kTiles, claimed, 1, thread, 2);
      const Range share = Share(9, 1, kTiles, kTiles, thread, 2);
      Range range;
      ASSERT_TRUE(shares.Next(range));
      EXPECT_EQ(range.begin, share.begin);
      EXPECT_EQ(range.end, share.end);
      EXPECT_FALSE(shares.Next(range));
    }
  }
}

}  // namespace
}  // namespace llmc::kernels_test
