// The text form: a dump assembles to the same bytes, and faults are named by line.
#include "runtime/plan.h"
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
      {"stop_ids 1,x", "isn't a list of ids"},
      {"section code hex\n 9\nend", "an odd number of hex digits"},
      {"section code hex\n zz\nend", "'z' isn't a hex digit"},
      {"section code hex\n 90", "a section has no end"},
      {"section manifest zero 8", "section \"manifest\" isn't known"},
      {"section weights omitted 8 0", "not hex, text, zero or file"},
      {"section code file \"none\"", "can't read ./none"},
      {"input \"a\" 00", "64 hex digits"},
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
