// Every kernel of kernels.def as a kernel step: the bytes that it writes are those of a direct call with the same
// constants, so they arrive in their order and number.
#include <map>
#include <random>
#include <sstream>

#include "backends/kernels/kernel.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/table.h"
#include "tests/onednn/steps.h"

namespace llmc::onednn_test {
namespace {

using namespace llmc::kernels;

std::vector<std::string> Words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// Constants by name, whose zeroes are left out; every space is shared.
const std::map<std::string, std::map<std::string, int64_t>> kCalls = {
    {"embed", {{"dim", 64}, {"type", kQ8_0}, {"layout", kLayoutRows}, {"over", kRows}}},
    {"rms_norm", {{"heads", 2}, {"dim", 48}, {"eps", 0x3727c5ac}, {"over", kHeads}}},
    {"rms_norm_quantize", {{"dim", 64}, {"eps", 0x3727c5ac}, {"over", kRows}}},
    {"add_rms_norm", {{"dim", 50}, {"eps", 0x3727c5ac}, {"over", kRows}}},
    {"add_rms_norm_quantize", {{"dim", 64}, {"eps", 0x3727c5ac}, {"over", kRows}}},
    {"round_bf16", {{"dim", 50}, {"over", kTiles}}},
    {"quantize", {{"dim", 96}, {"over", kTiles}, {"grain", 2}}},
    {"linear_a8",
     {{"k", 64},
      {"n0", 40},
      {"n1", 20},
      {"n2", 16},
      {"type", kQ5_1},
      {"k_split", 2},
      {"has_bias", 1},
      {"over", kTiles}}},
    {"linear_f32",
     {{"k", 33}, {"n0", 40}, {"n1", 40}, {"type", kF16}, {"k_split", 1}, {"interleave", 1}, {"over", kTiles}}},
    {"linear_gated_a8",
     {{"k", 64}, {"n", 64}, {"type", kQ4_1}, {"k_split", 1}, {"out_type", kA8}, {"over", kTiles}, {"grain", 2}}},
    {"linear_gated_f32", {{"k", 32}, {"n", 23}, {"type", kBF16}, {"k_split", 1}, {"has_bias", 1}, {"over", kTiles}}},
    {"rope", {{"heads", 3}, {"dim", 32}, {"rotary", 16}, {"pairs", 1}, {"over", kHeads}}},
    {"kv_append", {{"heads", 2}, {"dim", 32}, {"slots", 64}, {"type", kF16}, {"layout", kKeys16}, {"over", kHeads}}},
    {"attention",
     {{"q_heads", 4},
      {"kv_heads", 2},
      {"dim", 32},
      {"slots", 64},
      {"scale", 0x3e38aa3b},
      {"type", kF32},
      {"k_layout", kKeys16},
      {"v_layout", kLayoutHeads},
      {"over", kHeads},
      {"grain", 2}}},
    {"attention_groups",
     {{"q_heads", 4},
      {"kv_heads", 2},
      {"dim", 32},
      {"slots", 64},
      {"scale", 0x3e38aa3b},
      {"type", kF32},
      {"over", kKeys}}},
    {"attention_merge", {{"q_heads", 4}, {"dim", 32}, {"slots", 64}, {"over", kHeads}}},
    {"add", {{"dim", 77}, {"over", kRows}}},
    {"gated", {{"dim", 77}, {"over", kTiles}}},
    {"last_rows", {{"dim", 19}, {"count", 1}, {"over", kRows}}},
};

constexpr size_t kPiece = 64 << 10, kBytes = 16 * kPiece;

struct Memory {
  Space weights, shared, states;
  std::vector<int32_t> tokens = {3, 1, 4};
  LlmcContext c{};

  // Small numbers: as f32, and as halves with the low bits of f32 for codes.
  explicit Memory(uint32_t rows) {
    std::mt19937 random(7);
    const std::vector<float> f32 = kernels_test::RandomFloats(kBytes / 4, random);
    std::vector<uint16_t> halves;
    for (size_t i = 0; i < kBytes / 2; ++i) halves.push_back(static_cast<uint16_t>(0x1c00 + random() % 997));
    weights.Put(halves);
    shared.Put(f32);
    states.Put(f32);
    for (Space* space : {&weights, &shared, &states}) space->Reset();
    c.weights = weights.data() + 64;
    c.shared = shared.data() + 64;
    c.states = states.data() + 64;
    c.tokens = tokens.data();
    c.rows = rows;
    c.pos = 5;
    c.total = 5 + rows;
  }
  std::vector<uint8_t> All() {
    std::vector<uint8_t> out = shared.Read<uint8_t>(0, shared.stride());
    const std::vector<uint8_t> more = states.Read<uint8_t>(0, states.stride());
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};

template <size_t>
using Int64 = int64_t;
template <size_t... I>
bool CallWith(const KernelEntry& entry, const LlmcContext& c, uint32_t rows, const std::vector<uint64_t>& words,
              const std::vector<int64_t>& k, std::index_sequence<I...>) {
  if (k.size() != sizeof...(I)) return false;
  using Function = void (*)(const LlmcContext*, uint32_t, uint32_t, uint32_t, const uint64_t*, Int64<I>...);
  reinterpret_cast<Function>(entry.function)(&c, 0, 1, rows, words.data(), k[I]...);
  return true;
}
template <size_t... N>
bool CallDirectly(const KernelEntry& entry, const LlmcContext& c, uint32_t rows, const std::vector<uint64_t>& words,
                  const std::vector<int64_t>& k, std::integer_sequence<size_t, N...>) {
  return (CallWith(entry, c, rows, words, k, std::make_index_sequence<N>()) || ...);
}

TEST(KernelStep, EveryKernelAsCalledDirectly) {
  size_t seen = 0;
  for (const KernelEntry* entry = NativeKernels(); entry->name != nullptr; ++entry, ++seen) {
    ASSERT_EQ(kCalls.count(entry->name), 1u) << entry->name;
    const auto& values = kCalls.at(entry->name);
    KernelStep step{entry->name, false, {}, {}};
    size_t named = 0;
    for (const std::string& name : Words(entry->constants)) {
      const auto value = values.find(name);
      named += value != values.end();
      const bool space = name.size() > 6 && name.substr(name.size() - 6) == "_space";
      step.constants.push_back(value != values.end() ? value->second
                               : space               ? int64_t{kShared}
                               : name == "grain"     ? 1
                                                     : 0);
    }
    ASSERT_EQ(named, values.size()) << entry->name;
    for (const std::string& word : Words(entry->record))
      step.words.push_back(word == "tokens" ? 0 : kPiece * step.words.size());
    for (const bool one_row : {false, true}) {
      step.one_row = one_row;
      const uint32_t rows = one_row ? 1 : 3;
      Memory direct(3);
      const std::vector<uint8_t> before = direct.All();
      ASSERT_TRUE(CallDirectly(*entry, direct.c, rows, step.words, step.constants, std::make_index_sequence<20>()));
      ASSERT_FALSE(direct.All() == before) << entry->name << " writes nothing";
      for (const uint32_t threads : {1u, 3u}) {
        Memory memory(3);
        TestProgram program;
        program.Add(step);
        ASSERT_EQ(program.Create(), "");
        ASSERT_NO_FATAL_FAILURE(program.Run(0, memory.c, threads));
        ASSERT_TRUE(memory.All() == direct.All()) << entry->name << ", threads " << threads;
        EXPECT_EQ(program.Descriptions().size(), 0u);
      }
    }
  }
  EXPECT_EQ(seen, kCalls.size());
}

}  // namespace
}  // namespace llmc::onednn_test
