// Guards what plans declare: contracts of phases, states, the version of kernels; their records, text and rules.
#include <gtest/gtest.h>

#include "tests/plan/support.h"

namespace llmc {
namespace {

constexpr char kText[] = R"(plan 1.2
model "m"
backend "reference"
numerics "exact"
build ""
options ""
passes ""
kernels "1.00c0ffee"
abi 65537
vocab 16
context 64
chunk 4
shared 0
private 0
states 8320
phase prefill 1 4
phase decode 1 1
  contract chunkable logits by_row tokens pos total
phase score 1 2
  contract whole hidden tokens lengths
state kv 0 2 2048 64 16 512 8
state kv 4096 1 4096 64 1 64 0
state recurrent 8192 1 100
stop_ids none
self_test none 0000000000000000 0000000000000000 0000000000000000
)";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text = kText;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Contracts, AreRecordsOfThePlanAndLinesOfItsText) {
  const TempFolder folder;
  Assemble(kText, folder / "a.plan");
  const PlanFile plan(folder / "a.plan");
  const Manifest& m = plan.manifest();
  EXPECT_EQ(m.kernels, "1.00c0ffee");
  EXPECT_EQ(m.phases[0].contract, PlanContract{});
  EXPECT_TRUE(m.phases[1].contract.by_row);
  EXPECT_EQ(m.phases[2].contract.kind, EntryKind::Whole);
  EXPECT_EQ(m.phases[2].contract.output, EntryOutput::Hidden);
  EXPECT_EQ(m.phases[2].contract.inputs, (std::vector<EntryInput>{EntryInput::Tokens, EntryInput::Lengths}));
  ASSERT_EQ(m.states.size(), 3u);
  EXPECT_EQ(m.states[0].kind, StateKind::Kv);
  EXPECT_EQ(m.states[0].bytes(), 4096u);
  EXPECT_EQ(m.states[0].window, 8u);
  EXPECT_EQ(m.states[2].kind, StateKind::Recurrent);
  EXPECT_EQ(DumpPlan(plan), kText);
}

// What uses none of it is of the lowest format, for readers of that time.
TEST(Contracts, ADecodersPlanWithoutThemIsOfFormat0) {
  std::string text = Replaced("kernels \"1.00c0ffee\"\n", "");
  for (const char* line :
       {"  contract chunkable logits by_row tokens pos total\n", "  contract whole hidden tokens lengths\n",
        "state kv 0 2 2048 64 16 512 8\n", "state kv 4096 1 4096 64 1 64 0\n", "state recurrent 8192 1 100\n"})
    text.erase(text.find(line), std::string_view(line).size());
  text.replace(text.find("1.2"), 3, "1.0");
  text.replace(text.find("abi 65537"), 9, "abi 1");
  const TempFolder folder;
  Assemble(text, folder / "a.plan");
  EXPECT_EQ(ReadFile(folder / "a.plan").substr(8, 8), std::string("\1\0\0\0\1\0\0\0", 8));
  EXPECT_EQ(PlanFile(folder / "a.plan").manifest().phases[1].contract, PlanContract{});
}

constexpr char kEncoder[] = R"(plan 1.5
model "m"
backend "reference"
numerics "exact"
build ""
options ""
passes ""
abi 65537
vocab 16
context 64
chunk 64
shared 0
private 0
states 0
phase hidden 1 64
  contract whole hidden tokens pos types
  width 24 0 2
phase project 1 1
  contract whole hidden hidden
  width 12 24 0
stop_ids none
pooling mean normalize 32 "query"
prompt "query" "query: "
prompt "passage" ""
self_test none 0000000000000000 0000000000000000 0000000000000000
)";

TEST(Contracts, OfAnEncoder) {
  const TempFolder folder;
  Assemble(kEncoder, folder / "a.plan");
  const PlanFile plan(folder / "a.plan");
  const Manifest& m = plan.manifest();
  EXPECT_TRUE(IsEncoder(m));
  EXPECT_EQ(OutputBytes(m, m.phases[0]), 64u * 24 * 4);
  EXPECT_EQ(InputBytes(m, m.phases[1], EntryInput::Hidden), 24u * 4);
  EXPECT_EQ(m.pooling.kind, PoolingKind::Mean);
  EXPECT_TRUE(m.pooling.normalize);
  EXPECT_EQ(m.pooling.prompts.size(), 2u);
  EXPECT_EQ(DumpPlan(plan), kEncoder);
}

TEST(Contracts, RulesOfAnEncoderAreNamed) {
  const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"width 24 0 2", "width 0 0 2", "hidden: width 0 isn't in 1.."},
      {"width 24 0 2", "width 24 3 2", "hidden: a width of rows that it doesn't take"},
      {"width 12 24 0", "width 12 0 0", "project: width that it takes 0 isn't in 1.."},
      {"contract whole hidden hidden", "contract whole hidden tokens", "project doesn't take hidden rows"},
      {"contract whole hidden tokens pos types", "contract whole logits tokens pos types",
       "hidden doesn't give hidden rows"},
      {"contract whole hidden tokens pos types", "contract whole hidden pos hidden", "hidden takes hidden rows"},
      {"width 24 0 2", "width 24 0 0", "hidden: 0 types, and its inputs say otherwise"},
      {"phase hidden 1 64", "phase hidden 2 64", "no phase gives hidden rows of 1 rows"},
      {"phase hidden 1 64", "phase hidden 1 65", "most rows 65 isn't in 1..64"},
      {"phase hidden 1 64", "phase score 1 64", "score: a width of logits"},
      {"abi 65537", "abi 1", "types, in code of ABI 1.0"},
      {"mean normalize 32 \"query\"", "mean normalize 32 \"other\"", "there is no prompt \"other\""},
      {"pooling mean", "pooling max", "pooling \"max\" isn't known"},
  };
  const TempFolder folder;
  for (const auto& c : cases) {
    std::string text = kEncoder;
    text.replace(text.find(c.from), std::string_view(c.from).size(), c.to);
    const std::string error = ErrorOf([&] { Assemble(text, folder / "x.plan"); });
    EXPECT_NE(error.find(c.says), std::string::npos) << c.to << ": " << error;
  }
}

TEST(Contracts, RulesAreNamed) {
  const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"by_row tokens pos total", "by_row tokens total pos", "inputs are out of order"},
      {"by_row tokens pos total", "tokens pos", "chunkable, without pos and total"},
      {"hidden tokens lengths", "hidden lengths", "takes neither tokens nor hidden"},
      {"hidden tokens lengths", "hidden tokens hidden", "takes both tokens and hidden"},
      {"hidden tokens lengths", "hidden by_row tokens lengths", "positions of each row, without pos"},
      {"hidden tokens lengths", "hidden pictures", "input \"pictures\" isn't known"},
      {"contract whole", "contract partly", "kind of contract \"partly\" isn't known"},
      {"whole hidden", "whole colours", "output \"colours\" isn't known"},
      {"abi 65537", "abi 1", "positions of each row, in code of ABI 1.0"},
      {"abi 65537", "abi 196609", "ABI 1.3, this program has 1.2"},
      {"abi 65537", "abi 65538", "ABI 2.1, this program has 1.2"},
      {"state kv 4096", "state kv 4032", "isn't behind the one before it"},
      {"state kv 4096", "state kv 4100", "isn't behind the one before it"},
      {"8192 1 100", "8192 1 200", "of 8320 bytes of states"},
      {"8192 1 100", "8192 1 64 16 1 4 0", "has positions, its kind none"},
      {"2048 64 16 512", "2048 64 16 256", "4 units of 256 bytes in a block of 2048"},
      {"2048 64 16 512", "2048 64 0 512", "positions of a unit 0"},
      {"state recurrent", "state gaseous", "kind of state \"gaseous\" isn't known"},
  };
  const TempFolder folder;
  for (const auto& c : cases) {
    const std::string error = ErrorOf([&] { Assemble(Replaced(c.from, c.to), folder / "x.plan"); });
    EXPECT_NE(error.find(c.says), std::string::npos) << c.to << ": " << error;
  }
}

}  // namespace
}  // namespace llmc
