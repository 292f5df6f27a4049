// Guards declared contracts: their text, what the verifier lets a function take, and rows that stand anywhere in any of
// several sequences, with the bits of each sequence by itself.
#include <cstring>

#include <gtest/gtest.h>

#include "ir/diag.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/expect_error.h"
#include "tests/support/tiny_model.h"

namespace llmc {
namespace {

using test::BuildTiny;
using test::ErrorOf;
using test::TinyModel;

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

constexpr char kEncode[] = R"(module @m
dim S = 1..8
weight $embed : f32[16, 8]

func @encode(%tokens: i32[S], %lengths: i32[S]) hidden whole where S = 1..4 {
  %x = embed $embed, %tokens : f32[S, 8]
  return %x
}

func @draft(%pos: i32[S], %total: i32[], %hidden: f32[S, 8]) {
  %y = add %hidden, %hidden : f32[S, 8]
  return %y
}
)";

TEST(Contracts, PrintAsTheyAreRead) {
  const Module module = Parse(kEncode, "t");
  Verify(module, "t");
  EXPECT_EQ(Print(module), kEncode);
  EXPECT_EQ(module.funcs[0].output, EntryOutput::Hidden);
  EXPECT_EQ(module.funcs[0].kind, EntryKind::Whole);
  EXPECT_EQ(module.funcs[1].output, EntryOutput::Logits);
  EXPECT_FALSE(IsDecoderCall(module.funcs[0]));
  EXPECT_FALSE(IsDecoderCall(module.funcs[1]));
  EXPECT_TRUE(IsDecoderCall(BuildTiny({}).funcs[0]));
  ErrorOf(DiagKind::SyntaxError, [&] { Parse(Replace(kEncode, "hidden whole", "hidden often"), "t"); });
}

TEST(Contracts, TheVerifierNamesWhatAFunctionCantTake) {
  const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"%lengths: i32[S]", "%pictures: i32[S]", "%pictures is no input of a function"},
      {"%lengths: i32[S]", "%lengths: i32[]", "%lengths is i32[], must be i32[S]"},
      {"%hidden: f32[S, 8]", "%hidden: f32[8]", "%hidden is f32[8], must be f32[S, D]"},
      {"%total: i32[], %hidden", "%total: i32[], %tokens: i32[S], %hidden", "must take either %tokens or %hidden"},
      {"%pos: i32[S], %total: i32[], ", "%pos: i32[S], ", "is chunkable and must take %pos and %total"},
      {"%pos: i32[S]", "%pos: i32[8]", "%pos is i32[8], must be i32[] or i32[S]"},
  };
  for (const auto& c : cases) {
    const std::string error =
        ErrorOf(DiagKind::InvalidModule, [&] { Verify(Parse(Replace(kEncode, c.from, c.to), "t"), "t"); });
    EXPECT_NE(error.find(c.says), std::string::npos) << error;
  }
}

TEST(Contracts, StatesAreOfAKnownKindAndItsRank) {
  const std::string module =
      Replace(kEncode, "func @encode", "state $s : f32[4, 2, 8] {kind = kv, window = none}\nfunc @encode");
  EXPECT_NO_THROW(Verify(Parse(module, "t"), "t"));
  EXPECT_NO_THROW(
      Verify(Parse(Replace(module, "[4, 2, 8] {kind = kv, window = none}", "[16, 128] {kind = recurrent}"), "t"), "t"));
  const struct {
    DiagKind kind;
    const char *to, *says;
  } cases[] = {
      {DiagKind::InvalidModule, "[4, 8] {kind = kv, window = none}", "a kv state has 3 dims"},
      {DiagKind::InvalidModule, "[4, 2, 8] {kind = recurrent, window = none}", "has the attribute kind alone"},
      {DiagKind::InvalidModule, "[4, 2, 8] heads {kind = recurrent}", "is in rows layout"},
      {DiagKind::InvalidModule, "[4, 2, 8] {kind = history}", "a history state has 2 dims"},
      {DiagKind::BadAttribute, "[4, 2, 8] {kind = other, window = none}", "must be one of kv, recurrent, history"},
      {DiagKind::BadAttribute, "[4, 2, 8] {kind = kv}", "window must be none or at least 1"},
  };
  for (const auto& c : cases) {
    const std::string error = ErrorOf(
        c.kind, [&] { Verify(Parse(Replace(module, "[4, 2, 8] {kind = kv, window = none}", c.to), "t"), "t"); });
    EXPECT_NE(error.find(c.says), std::string::npos) << error;
  }
}

TEST(Contracts, TheInterpreterTakesHiddenRowsAndLengths) {
  const Module module = Parse(kEncode, "t");
  const auto source = RandomWeights(1);
  Interpreter interpreter(module, *source);
  const std::vector<int32_t> tokens = {3, 1}, lengths = {2, 2}, positions = {0, 5};
  const std::vector<float> hidden = interpreter.Run("encode", {.tokens = tokens, .positions = {}, .lengths = lengths});
  ASSERT_EQ(hidden.size(), 16u);
  const std::vector<float> twice =
      interpreter.Run("draft", {.tokens = {}, .positions = positions, .total = 6, .hidden = hidden});
  for (size_t i = 0; i < hidden.size(); ++i) EXPECT_EQ(twice[i], hidden[i] + hidden[i]);
  const auto refused = [&](const char* func, const EntryCall& call, const char* says) {
    const std::string error = ErrorOf(DiagKind::ConstraintViolated, [&] { interpreter.Run(func, call); });
    EXPECT_NE(error.find(says), std::string::npos) << error;
  };
  refused("encode", {.tokens = tokens, .positions = {}}, "0 lengths, takes 2");
  refused("draft", {.tokens = {}, .positions = positions, .total = 5, .hidden = hidden},
          "must be at least pos + tokens, 6");
  refused("draft", {.tokens = {}, .positions = {}, .total = 6, .hidden = hidden}, "0 positions, takes 2");
  const std::vector<int32_t> sequences = {0, 1};
  refused("encode", {.tokens = tokens, .positions = {}, .lengths = lengths, .sequences = sequences}, "sequence 1 of 1");
}

// Three sequences, some rows of each in every call, in any order of sequences: each row's logits are those of its
// sequence alone.
TEST(Contracts, RowsOfSeveralSequencesHaveTheBitsOfEachAlone) {
  const auto source = RandomWeights(2);
  std::vector<TinyModel> models(3);
  models[1].window = 5;
  models[2].n_kv_heads = 1;
  models[2].kv = DType::F32;
  for (const TinyModel& tiny : models) {
    const Module plain = BuildTiny(tiny);
    const Module by_row = Parse(Replace(Print(plain), "%pos: i32[]", "%pos: i32[S]"), "t");
    Verify(by_row, "t");
    const auto token = [&](int32_t sequence, int32_t pos) {
      return (sequence * 31 + pos * 7 + 3) % static_cast<int32_t>(tiny.vocab);
    };
    constexpr int32_t kLengths[] = {19, 8, 13};
    std::vector<std::vector<float>> alone;
    for (int32_t s = 0; s < 3; ++s) {
      std::vector<int32_t> tokens;
      for (int32_t p = 0; p < kLengths[s]; ++p) tokens.push_back(token(s, p));
      Interpreter interpreter(plain, *source);
      std::vector<float>& rows = alone.emplace_back();
      for (int32_t p = 0; p < kLengths[s]; ++p) {
        const std::vector<float> row = interpreter.Run("forward", {&tokens[static_cast<size_t>(p)], 1}, p, kLengths[s]);
        rows.insert(rows.end(), row.begin(), row.end());
      }
    }
    Interpreter together(by_row, *source, 1, 3);
    const auto vocab = static_cast<size_t>(tiny.vocab);
    int32_t next[3] = {0, 0, 0};
    for (int32_t call = 0; call < 40; ++call) {
      std::vector<int32_t> tokens, positions, sequences;
      for (int32_t i = 0; i < 3; ++i) {
        const int32_t s = (i + call) % 3;
        for (int32_t n = (call + s) % 3; n > 0 && next[s] < kLengths[s]; --n) {
          tokens.push_back(token(s, next[s]));
          positions.push_back(next[s]++);
          sequences.push_back(s);
        }
      }
      if (tokens.empty()) continue;
      const std::vector<float> logits =
          together.Run("forward", {.tokens = tokens, .positions = positions, .total = 32, .sequences = sequences});
      for (size_t r = 0; r < tokens.size(); ++r) {
        const float* want = &alone[static_cast<size_t>(sequences[r])][static_cast<size_t>(positions[r]) * vocab];
        EXPECT_EQ(std::memcmp(&logits[r * vocab], want, vocab * sizeof(float)), 0)
            << "sequence " << sequences[r] << ", position " << positions[r];
      }
    }
    EXPECT_EQ(next[0], kLengths[0]);
  }
}

}  // namespace
}  // namespace llmc
