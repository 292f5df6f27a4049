// The text form: a dump assembles to the same bytes, and faults are named by line.
#include "runtime/plan.h"
#include "runtime/plan_steps.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

const char* const kText = R"(plan 1.0
model "tiny"
backend "llvm"
numerics "exact"
build "by hand"
options "a = 1\nb = \"2\""
passes "x"
abi 1
vocab 4
context 8
chunk 2
shared 64
private 64
states 128
phase prefill 1 2
  step code "main"
phase decode 1 1
  step code "main"     # the same code
  step 9 "later \x00kind"
target "x86-64-v1"
  feature "sse4_1"
  entry "main" 1
  symbol "f" 0 2
stop_ids 3
bos 1
add_bos
do_sample
temperature 0.7
top_k 3
top_p 0.95
min_p 0.05
input "config" 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
self_test 1,2 0000000000000001 0000000000000002 00000000000000ff
section weights zero 4096
section code hex
  90            # nop
  31 c0 c3
end
section chat_template text
  "{{ x }}\n"
  "last"
end
section import_ir hex
  0001
end
)";

TEST(PlanText, DumpAssemblesToTheSameBytes) {
  const TempFolder folder;
  Assemble(kText, folder / "a.plan");
  const PlanFile plan(folder / "a.plan");
  EXPECT_EQ(plan.Read(SectionKind::Code), "\x90\x31\xc0\xc3");
  EXPECT_EQ(plan.Read(SectionKind::ChatTemplate), "{{ x }}\nlast");
  EXPECT_EQ(plan.manifest().options, "a = 1\nb = \"2\"");
  EXPECT_EQ(plan.manifest().phases[1].steps[1].payload, std::string("later \0kind", 11));
  const std::string dump = DumpPlan(plan);
  Assemble(dump, folder / "b.plan");
  EXPECT_EQ(ReadFile(folder / "a.plan"), ReadFile(folder / "b.plan"));
  EXPECT_EQ(DumpPlan(PlanFile(folder / "b.plan")), dump);
  EXPECT_NE(DumpPlan(plan, 16).find("section weights omitted 4096"), std::string::npos);
}

// kText with steps of every kind, and a self-test of numbers.
std::string StepsText() {
  std::string text = kText;
  const auto swap = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("no " + from);
    text.replace(at, from.size(), to);
  };
  swap("plan 1.0", "plan 1.1");
  swap("numerics \"exact\"", "numerics \"products by oneDNN\"");
  swap("shared 64", "shared 4096");
  swap("private 64", "private 32768");
  swap(
      "  step 9 \"later \\x00kind\"\n",
      "  step barrier\n"
      "  step kernel \"rms_norm\" one_row constants -1,0,9 words 0,18446744073709551615\n"
      "  step kernel \"bare\"\n"
      "  step dnnl blocks one_row rows 1 k 32 x a8 shared+0 w q4_1 weights+64 interleave silu bias weights+4 out 16 "
      "shared+64 tiles 2 scratch private+0\n"
      "  step dnnl bf16 rows 1 k 8 x f32 shared+0 w bf16 weights+0 residual shared+64 out 4 logits+0 tiles 1 scratch "
      "private+64\n"
      "  step dnnl f32 rows 1 k 8 x f32 private+4 w f16 weights+0 out 4 shared+0 out 3 shared+16 out 1 shared+28 tiles "
      "1 scratch private+64\n");
  const size_t test = text.find("self_test");
  text.replace(test, text.find('\n', test) - test,
               "self_test 1,2 0000000000000000 0000000000000000 0000000000000000\n"
               "self_test_logits 1e-09 0,3 1.5,-2 0,1e+20 0.25,3");
  return text;
}

TEST(PlanText, StepsAssembleToTheSameBytes) {
  const TempFolder folder;
  Assemble(StepsText(), folder / "a.plan");
  const PlanFile plan(folder / "a.plan");
  const std::vector<PlanStep>& steps = plan.manifest().phases[1].steps;
  ASSERT_EQ(steps.size(), 7u);
  EXPECT_EQ(DecodeKernelStep(steps[2].payload, "x"), (KernelStep{"rms_norm", true, {-1, 0, 9}, {0, ~uint64_t{0}}}));
  const DnnlStep gated = DecodeDnnlStep(steps[4].payload, "x");
  EXPECT_EQ(gated.gate, DnnlGate::Silu);
  EXPECT_EQ(gated.bias, 4u);
  EXPECT_EQ(gated.parts[0].n, 16u);
  EXPECT_EQ(plan.manifest().self_test.approximate->decode, (std::vector<float>{0, 1e20f}));
  const std::string dump = DumpPlan(plan);
  Assemble(dump, folder / "b.plan");
  EXPECT_EQ(ReadFile(folder / "a.plan"), ReadFile(folder / "b.plan"));
  EXPECT_EQ(DumpPlan(PlanFile(folder / "b.plan")), dump);
  // A line is what StepText gives, and what was read.
  const std::string text = StepsText();
  for (const PlanStep& step : steps) {
    EXPECT_NE(text.find("  step " + StepText(step) + "\n"), std::string::npos) << StepText(step);
    EXPECT_NE(dump.find("  step " + StepText(step) + "\n"), std::string::npos);
  }
}

TEST(PlanText, TheVersionIsTheLowestThatDoes) {
  const TempFolder folder;
  Assemble(kText, folder / "a.plan");
  EXPECT_EQ(ReadFile(folder / "a.plan").substr(8, 4), std::string("\1\0\0\0", 4));
  Assemble(StepsText(), folder / "a.plan");
  EXPECT_EQ(ReadFile(folder / "a.plan").substr(8, 4), std::string("\1\0\1\0", 4));
  std::string wrong = StepsText();
  wrong.replace(wrong.find("1.1"), 3, "1.0");
  EXPECT_NE(ErrorOf([&] { Assemble(wrong, folder / "b.plan"); }).find("says plan 1.0, and what it has is of 1.1"),
            std::string::npos);
  wrong = kText;
  wrong.replace(wrong.find("1.0"), 3, "1.1");
  EXPECT_NE(ErrorOf([&] { Assemble(wrong, folder / "b.plan"); }).find("says plan 1.1, and what it has is of 1.0"),
            std::string::npos);
}

TEST(PlanText, FilesAreRelativeToTheFolder) {
  const TempFolder folder;
  std::string text = kText;
  text.replace(text.find("zero 4096"), 9, "file \"w.bin\"");
  WriteFile(folder / "w.bin", "weights");
  PlanWriter::Options options;
  options.path = folder / "a.plan";
  options.sha256 = MakeFakeSha256;
  AssemblePlan(text, folder / ".", options);
  EXPECT_EQ(PlanFile(folder / "a.plan").Read(SectionKind::Weights), "weights");
}

TEST(PlanText, FaultsAreNamedByLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"plan 2.0", ":1: format 2.0"},
      {"model x", ":1: a quoted string is missing"},
      {"model \"x", ":1: a string has no end"},
      {"model \"\\q\"", "\\q isn't known"},
      {"\n\nvocab many", ":3: \"many\" isn't a number"},
      {"vocab 4 5", "\"5\" is too much"},
      {"colour 4", "\"colour\" isn't known"},
      {"entry \"x\" 0", "before any target"},
      {"step code \"x\"", "before any phase"},
      {"phase warmup 1 1", "phase \"warmup\""},
      {"stop_ids 1,x", "isn't a list of numbers"},
      {"section code hex\n 9\nend", "an odd number of hex digits"},
      {"section code hex\n zz\nend", "'z' isn't a hex digit"},
      {"section code hex\n 90", "a section has no end"},
      {"section manifest zero 8", "section \"manifest\" isn't known"},
      {"section weights omitted 8 0", "not hex, text, zero or file"},
      {"section code file \"none\"", "can't read ./none"},
      {"input \"a\" 00", "64 hex digits"},
      {"phase decode 1 1\nstep kernel name", ":2: a quoted string is missing"},
      {"phase decode 1 1\nstep kernel \"k\" words 1,", "isn't a list of numbers"},
      {"phase decode 1 1\nstep kernel \"k\" two_rows", "\"two_rows\" is too much"},
      {"phase decode 1 1\nstep dnnl f16", "\"f32\" is missing"},
      {"phase decode 1 1\nstep dnnl f32 k 8", "\"rows\" is missing"},
      {"phase decode 1 1\nstep dnnl f32 rows 1 k 8 x f64 shared+0", "type \"f64\" isn't known"},
      {"phase decode 1 1\nstep dnnl f32 rows 1 k 8 x f32 heap+0", "\"heap+0\" isn't a place like shared+64"},
      {"phase decode 1 1\nstep dnnl f32 rows 1 k 8 x f32 shared+", "isn't a place"},
      {"phase decode 1 1\nstep dnnl f32 rows 1 k 8 x f32 shared-8", "isn't a place"},
      {"phase decode 1 1\nstep dnnl f32 rows 1 k 8 x f32 shared+0 w f32 shared+0", "w isn't in weights"},
      {"phase decode 1 1\nstep warp", "\"warp\" isn't a number"},
  };
  const TempFolder folder;
  for (const auto& c : cases) {
    const std::string error = ErrorOf([&] { Assemble(c.text, folder / "a.plan"); });
    EXPECT_NE(error.find(c.message), std::string::npos) << c.text << " -> " << error;
  }
  EXPECT_EQ(folder.Count(), 0u);
}

}  // namespace
}  // namespace llmc
