// Every kernel of kernels.def as a kernel step: the bytes that it writes are those of a direct call with the same
// constants, so they arrive in their order and number.
#include <algorithm>
#include <map>
#include <random>
#include <sstream>

#include "backends/kernels/thens.h"
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

// Values for constants by name: the first of each, and the others one at a time. Spaces are shared, divisions the
// row's.
const std::map<std::string, std::vector<int64_t>> kValues = {
    {"dim", {64, 96}},
    {"heads", {2, 1}},
    {"q_heads", {4}},
    {"kv_heads", {2, 4}},
    {"v_dim", {64}},
    {"v_row", {64, 96}},
    {"x_dim", {32}},
    {"tail_heads", {1, 2}},
    {"rotary", {16}},
    {"k", {64}},
    {"n0", {32}},
    {"n1", {0}},
    {"n2", {0}},
    {"slots", {64}},
    {"count", {1}},
    {"taps", {3, 2}},
    {"v_heads", {4}},
    {"v_dim", {32, 20}},
    {"tiled", {0, 1}},
    {"correct", {1, 0}},
    {"window", {0, 3}},
    {"all", {0, 1}},
    {"has_sinks", {0, 1}},
    {"cap", {0, 0x3fc00000}},
    {"k_split", {1, 2}},
    {"grain", {2}},
    {"interleave", {0}},
    {"claimed", {0}},
    {"offset", {0, 3}},
    {"is_position_embed", {0, 1}},
    {"is_layer_norm", {0, 1}},
    {"has_delta", {0, 1}},
    {"has_gain", {1, 0}},
    {"has_bias", {0, 1}},
    {"gain_heads", {1, 2}},
    {"pair", {0}},
    {"act", {1, 9}},
    {"alpha", {0x3fd9db23}},
    {"limit", {0x40e00000}},
    {"alpha_p", {0x3f4ccccd}},
    {"alpha_n", {0x3f000000}},
    {"beta", {0x3f000000}},
    {"then0", {0, kThenAdd}},
    {"then1", {0}},
    {"then2", {0}},
    {"other_row", {0, 1}},
    {"pairs", {0, 1}},
    {"by_row", {0, 1}},
    {"eps", {0x3727c5ac}},
    {"scale", {0x3e38aa3b}},
    {"record", {64}},
    {"used", {2}},
    {"parts", {2}},
    {"experts", {8}},
    {"columns", {12}},
    {"each", {0, 1}},
    {"score", {0, 1, 2}},
    {"groups", {1, 3}},
    {"keep", {1}},
    {"by", {0, 1}},
    {"norm", {0, 1, 2}},
    {"norm_by", {0x3c23d70a}},
    {"table_type", {kQ8_0, kQ4_0, kF32, kF16}},
    {"weight_type", {kQ4_1, kQ5_1, kF16, kBF16, kF32}},
    {"k_type", {kF32, kF16}},
    {"state_type", {kF16, kF32}},
    {"out_type", {kF32, kA8}},
    {"table_layout", {kLayoutRows, kTiles16}},
    {"state_layout", {kKeys16, kLayoutHeads}},
    {"k_layout", {kKeys16, kLayoutRows}},
    {"v_layout", {kLayoutHeads, kLayoutRows}},
};
// What only goes together; of kernels that have all of its constants.
const std::vector<std::map<std::string, int64_t>> kTogether = {
    {{"n1", 32}},
    {{"each", 0}, {"interleave", 1}},
    {{"each", 1}, {"interleave", 1}, {"pair", 1}, {"out_type", kA8}},
    {{"dim", 96}, {"record", 96}},
    {{"v_dim", 64}, {"record", 256}, {"out_type", kA8}},
    {{"n1", 32}, {"n2", 16}},
    {{"n1", 32}, {"interleave", 1}},
    {{"n1", 32}, {"interleave", 1}, {"pair", 1}, {"out_type", kA8}},
};
const std::map<std::string, int64_t> kOvers = {
    {"rows", kRows}, {"tiles", kTiles}, {"heads", kHeads}, {"keys", kKeys}, {"queries", kQueries}};

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}
// Its operand `ids` are experts, for which the tokens do.
bool TakesIds(const KernelEntry& entry) {
  const std::vector<std::string> names = Words(entry.constants);
  return std::find(names.begin(), names.end(), "each") != names.end();
}
std::vector<int64_t> ValuesOf(const KernelEntry& entry, const std::string& constant) {
  std::vector<int64_t> values;
  if (constant == "over") {
    for (const std::string& name : Words(entry.divisions)) values.push_back(kOvers.at(name));
  } else if (constant == "tokens_space" || (constant == "ids_space" && TakesIds(entry))) {
    values = {kTokens};
  } else if (EndsWith(constant, "_space")) {
    values = {kShared};
  } else if (const auto found = kValues.find(constant); found != kValues.end()) {
    values = found->second;
  }
  return values;
}

constexpr size_t kPiece = 64 << 10, kBytes = 16 * kPiece;

struct Memory {
  Space weights, shared, states;
  std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 2};
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

void ExpectAsCalledDirectly(const KernelEntry& entry, KernelStep step, const std::string& what) {
  for (const bool one_row : {false, true}) {
    step.one_row = one_row;
    const uint32_t rows = one_row ? 1 : 3;
    Memory direct(3);
    const std::vector<uint8_t> before = direct.All();
    ASSERT_TRUE(CallDirectly(entry, direct.c, rows, step.words, step.constants, std::make_index_sequence<33>()));
    ASSERT_FALSE(direct.All() == before) << what << " writes nothing";
    for (const uint32_t threads : {1u, 3u}) {
      Memory memory(3);
      TestProgram program;
      program.Add(step);
      ASSERT_EQ(program.Create(), "") << what;
      ASSERT_NO_FATAL_FAILURE(program.Run(0, memory.c, threads));
      ASSERT_TRUE(memory.All() == direct.All()) << what << ", threads " << threads;
      EXPECT_EQ(program.Descriptions().size(), 0u);
    }
  }
}

TEST(KernelStep, EveryKernelAsCalledDirectly) {
  for (const KernelEntry* entry = NativeKernels(); entry->name != nullptr; ++entry) {
    const std::vector<std::string> names = Words(entry->constants);
    KernelStep step{entry->name, false, {}, {}};
    for (const std::string& name : names) {
      ASSERT_FALSE(ValuesOf(*entry, name).empty()) << entry->name << ": no value for " << name;
      step.constants.push_back(ValuesOf(*entry, name)[0]);
    }
    for (const std::string& word : Words(entry->record))
      step.words.push_back(word == "tokens" || (word == "ids" && TakesIds(*entry)) ? 0 : kPiece * step.words.size());
    ASSERT_NO_FATAL_FAILURE(ExpectAsCalledDirectly(*entry, step, entry->name));
    for (const std::map<std::string, int64_t>& values : kTogether) {
      KernelStep changed = step;
      size_t named = 0;
      for (size_t i = 0; i < names.size(); ++i) {
        const auto value = values.find(names[i]);
        if (value == values.end()) continue;
        changed.constants[i] = value->second;
        ++named;
      }
      if (named < values.size()) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectAsCalledDirectly(*entry, changed, entry->name));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<int64_t> values = ValuesOf(*entry, names[i]);
      for (size_t v = 1; v < values.size(); ++v) {
        KernelStep changed = step;
        changed.constants[i] = values[v];
        const std::string what = std::string(entry->name) + ", " + names[i] + " " + std::to_string(values[v]);
        TestProgram program;
        program.Add(changed);
        // A float weight isn't one for a8.
        if (const std::string refusal = program.Create(); names[i] == "weight_type" && !refusal.empty()) {
          EXPECT_NE(refusal.find("_a8: weight_type"), std::string::npos) << refusal;
          continue;
        }
        ASSERT_NO_FATAL_FAILURE(ExpectAsCalledDirectly(*entry, changed, what));
      }
    }
  }
}

}  // namespace
}  // namespace llmc::onednn_test
