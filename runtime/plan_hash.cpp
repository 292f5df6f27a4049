// XXH3-64, seed 0, from xxhash's header (inlined, no library).
#include "runtime/plan_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmc {

struct alignas(64) Xxh3::State {
  XXH3_state_t xxh;
};

uint64_t Xxh3Of(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }

Xxh3::Xxh3() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Xxh3::~Xxh3() = default;
void Xxh3::Update(const void* bytes, size_t size) { XXH3_64bits_update(&state_->xxh, bytes, size); }
uint64_t Xxh3::Digest() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace llmc
