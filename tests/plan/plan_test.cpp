// Plans as bytes: what is written is read back, what is damaged is refused, what doesn't hold is named.
#include "runtime/plan.h"

#include <random>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/context.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

Manifest SmallManifest() {
  Manifest m;
  m.model = "tiny";
  m.backend = "llvm";
  m.numerics = "exact";
  m.build_id = "test";
  m.options = "context = 32\nchunk = 4";
  m.passes = "a,b";
  m.abi = LLMC_ABI_VERSION;
  m.vocab = 16;
  m.context = 32;
  m.chunk = 4;
  m.shared_bytes = 256;
  m.private_bytes = 64;
  m.state_bytes = 1024;
  m.phases = {{PhaseKind::Prefill, 2, 4, {{1, "prefill"}}},
              {PhaseKind::Decode, 1, 1, {{1, "decode"}}},
              {PhaseKind::Score, 1, 16, {{1, "score"}}}};
  m.targets = {{"x86-64-v1", {"sse4_1"}, {{"decode", 0}, {"prefill", 0}, {"score", 1}}, {{"k_linear", {0, 2}}}}};
  m.generation.stop_ids = {1, 2};
  m.generation.bos_id = 3;
  m.generation.add_bos = true;
  m.generation.temperature = 0.7f;
  m.generation.top_k = 5;
  m.inputs = {{"config", Sha256Digest{1, 2, 3}}, {"weights", Sha256Digest{9}}};
  m.self_test = {{1, 2, 3}, 11, 12, 12, {}};
  return m;
}

PlanWriter::Options WriterOptions(const std::string& path, uint64_t weights_size) {
  PlanWriter::Options options;
  options.path = path;
  options.weights_size = weights_size;
  options.sha256 = MakeFakeSha256;
  return options;
}

std::string Code() { return std::string(kPage, '\xc3'); }

void WriteSmall(const std::string& path, const Manifest& manifest = SmallManifest()) {
  const std::vector<uint8_t> weights(300, 7);
  PlanWriter writer(WriterOptions(path, weights.size()));
  writer.AppendWeights({weights.data(), 100});
  writer.AppendWeights({weights.data() + 100, 200});
  writer.AddSection(SectionKind::Code, Code());
  writer.AddSection(SectionKind::Tokenizer, "tables");
  writer.AddSection(SectionKind::ChatTemplate, "");
  writer.AddSection(SectionKind::ImportIr, "module @tiny {\n}\n");
  writer.Finish(manifest);
}

TEST(Plan, IsReadBack) {
  const TempFolder folder;
  WriteSmall(folder / "a.plan");
  const PlanFile plan(folder / "a.plan");
  const ManifestBytes written = EncodeManifest(SmallManifest()), read = EncodeManifest(plan.manifest());
  EXPECT_EQ(written.manifest, read.manifest);
  EXPECT_EQ(written.steps, read.steps);
  EXPECT_EQ(plan.manifest().targets[0].entries.at("score"), 1u);
  EXPECT_EQ(*plan.manifest().generation.temperature, 0.7f);
  EXPECT_FALSE(plan.manifest().generation.top_p);
  EXPECT_EQ(plan.Read(SectionKind::Tokenizer), "tables");
  EXPECT_EQ(plan.Read(SectionKind::ChatTemplate), "");
  EXPECT_EQ(plan.Read(SectionKind::Code), Code());
  EXPECT_EQ(plan.Read(SectionKind::Weights), std::string(300, 7));
  EXPECT_EQ(plan.Find(SectionKind::Weights)->offset, kPage);
  EXPECT_EQ(plan.Find(SectionKind::Code)->offset % kPage, 0u);
  plan.VerifyAll(MakeFakeSha256);
}

TEST(Plan, SameCallsGiveSameBytesAndNoOtherFile) {
  const TempFolder one, two;
  WriteSmall(one / "a.plan");
  WriteSmall(two / "another name.plan");
  EXPECT_EQ(ReadFile(one / "a.plan"), ReadFile(two / "another name.plan"));
  EXPECT_EQ(one.Count(), 1u);
}

TEST(Plan, LargeWeightsStartOnAHugePage) {
  const TempFolder folder;
  std::vector<uint8_t> weights(kHugeWeights);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<uint8_t>(i * 31 >> 8);
  PlanWriter writer(WriterOptions(folder / "a.plan", weights.size()));
  for (size_t at = 0; at < weights.size(); at += 1000)
    writer.AppendWeights({weights.data() + at, std::min<size_t>(1000, weights.size() - at)});
  const uint8_t* map = writer.MapWeights();
  EXPECT_EQ(std::memcmp(map, weights.data(), weights.size()), 0);
  writer.AddSection(SectionKind::Code, Code());
  writer.Finish(SmallManifest());
  const PlanFile plan(folder / "a.plan");
  EXPECT_EQ(plan.Find(SectionKind::Weights)->offset, kHugePage);
  EXPECT_EQ(plan.Read(SectionKind::Weights), std::string(weights.begin(), weights.end()));
  plan.VerifyAll(MakeFakeSha256);
}

TEST(Plan, AnyFlippedByteIsRefusedOrMakesNoDifference) {
  const TempFolder folder;
  WriteSmall(folder / "a.plan");
  std::string bytes = ReadFile(folder / "a.plan");
  const PlanFile good(folder / "a.plan");
  const PlanSection weights = *good.Find(SectionKind::Weights);
  const ManifestBytes manifest = EncodeManifest(good.manifest());
  for (size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    bool loads = false;
    const std::string error = ErrorOf([&] {
      const PlanFile plan(std::make_unique<MemoryBytes>(bytes), "flipped");
      loads = true;
      EXPECT_EQ(EncodeManifest(plan.manifest()).manifest, manifest.manifest);
      plan.VerifyAll(MakeFakeSha256);
    });
    ASSERT_NE(error, "") << "byte " << at;
    // Weights and the zeros between sections aren't looked at by the loader.
    const PlanSection* inside = nullptr;
    for (const PlanSection& section : good.sections()) {
      if (at >= section.offset && at < section.offset + section.size) inside = &section;
    }
    const bool unchecked = at >= kPage && (inside == nullptr || inside->kind == SectionKind::Weights);
    EXPECT_EQ(loads, unchecked) << "byte " << at << ": " << error;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
  }
  EXPECT_GE(weights.size, 1u);
}

TEST(Plan, CutAnywhereItIsRefused) {
  const TempFolder folder;
  WriteSmall(folder / "a.plan");
  const std::string bytes = ReadFile(folder / "a.plan");
  for (size_t i = 0; i < 100; ++i) {
    const std::string_view cut = std::string_view(bytes).substr(0, bytes.size() * i / 100);
    EXPECT_NE(ErrorOf([&] { PlanFile(std::make_unique<MemoryBytes>(cut), "cut"); }), "") << cut.size();
  }
  EXPECT_NE(ErrorOf([&] { PlanFile(std::make_unique<MemoryBytes>(bytes + '\0'), "longer"); }), "");
}

TEST(Plan, DamagedManifestsWithRightHashesAreRefusedOrSane) {
  const ManifestBytes good = EncodeManifest(SmallManifest());
  std::mt19937 random(1);
  const std::vector<uint64_t> sizes = {kPage};
  for (int i = 0; i < 20000; ++i) {
    ManifestBytes bad = good;
    std::string& part = i % 4 == 0 ? bad.steps : bad.manifest;
    for (unsigned n = 0; n <= random() % 2; ++n) part[random() % part.size()] = static_cast<char>(random());
    if (i % 7 == 0) part.resize(random() % part.size());
    ErrorOf([&] { CheckManifest(DecodeManifest(bad.manifest, bad.steps, "x"), sizes, 1 << 20, "x"); });
  }
}

struct Rule {
  const char* message;
  void (*damage)(Manifest&);
};

TEST(Plan, RulesAreNamed) {
  const Rule rules[] = {
      {"ABI 7", [](Manifest& m) { m.abi = 7; }},
      {"model isn't", [](Manifest& m) { m.model = "\x1b[2J"; }},
      {"vocab 0", [](Manifest& m) { m.vocab = 0; }},
      {"chunk 33 isn't in 1..32", [](Manifest& m) { m.chunk = 33; }},
      {"private arena bytes 65", [](Manifest& m) { m.private_bytes = 65; }},
      {"phases 0", [](Manifest& m) { m.phases.clear(); }},
      {"no phase decode", [](Manifest& m) { m.phases[1].kind = PhaseKind::Prefill; }},
      {"no phase computes 4 rows", [](Manifest& m) { m.phases[0].max_rows = 3; }},
      {"no phase scores 1 rows", [](Manifest& m) { m.phases[2].min_rows = 2; }},
      {"prefill: most rows 5", [](Manifest& m) { m.phases[0].max_rows = 5; }},
      {"no entry decode", [](Manifest& m) { m.targets[0].entries.erase("decode"); }},
      {"entry score at 4096 of 4096", [](Manifest& m) { m.targets[0].entries["score"] = 4096; }},
      {"symbol k_linear at 4000 + 97 of 4096", [](Manifest& m) { m.targets[0].symbols["k_linear"] = {4000, 97}; }},
      {"2 targets, 1 code sections", [](Manifest& m) { m.targets.push_back(m.targets[0]); }},
      {"stop id 16 isn't in 0..15", [](Manifest& m) { m.generation.stop_ids = {16}; }},
      {"there is no BOS id", [](Manifest& m) { m.generation.bos_id.reset(); }},
      {"temperature", [](Manifest& m) { m.generation.temperature = -1.0f; }},
      {"self-test id -1", [](Manifest& m) { m.self_test.ids = {-1}; }},
      {"phase decode has no steps", [](Manifest& m) { m.phases[1].steps.clear(); }},
  };
  const TempFolder folder;
  for (const Rule& rule : rules) {
    Manifest m = SmallManifest();
    rule.damage(m);
    const std::string error = ErrorOf([&] { WriteSmall(folder / "a.plan", m); });
    EXPECT_NE(error.find(rule.message), std::string::npos) << rule.message << ": " << error;
  }
  EXPECT_EQ(folder.Count(), 0u);
}

TEST(Plan, NewerFormatsAreRefusedByNumber) {
  const TempFolder folder;
  WriteSmall(folder / "a.plan");
  std::string bytes = ReadFile(folder / "a.plan");
  bytes[10] = 9;
  EXPECT_NE(ErrorOf([&] { PlanFile(std::make_unique<MemoryBytes>(bytes), "x"); }).find("plan format 1.9"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { PlanFile(folder / "none.plan"); }).find("can't open"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { PlanFile("/dev/null"); }).find("not a regular file"), std::string::npos);
}

TEST(PlanWriter, RefusesBeforeItWrites) {
  const TempFolder folder;
  WriteFile(folder / "weights", "w");
  std::filesystem::create_symlink(folder / "weights", folder / "link");
  PlanWriter::Options options = WriterOptions(folder / "link", 0);
  options.inputs = {folder / "none", folder / "weights"};
  EXPECT_NE(ErrorOf([&] { PlanWriter w(options); }).find("the output is the input"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { PlanWriter w(WriterOptions("/dev/full", 0)); }).find("isn't a regular file"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { PlanWriter w(WriterOptions(folder / "no/a.plan", 0)); }).find("can't write into"),
            std::string::npos);
  const std::string full = ErrorOf([&] { PlanWriter w(WriterOptions(folder / "a.plan", uint64_t{1} << 60)); });
  EXPECT_NE(full.find("needs 1152921504607895552 bytes"), std::string::npos) << full;
  EXPECT_EQ(ReadFile(folder / "weights"), "w");
  EXPECT_EQ(folder.Count(), 2u);
}

TEST(PlanWriter, UnfinishedItLeavesTheOldPlan) {
  const TempFolder folder;
  WriteFile(folder / "a.plan", "old");
  {
    PlanWriter writer(WriterOptions(folder / "a.plan", 10));
    writer.AppendWeights(std::vector<uint8_t>(10));
  }
  EXPECT_EQ(ReadFile(folder / "a.plan"), "old");
  EXPECT_EQ(folder.Count(), 1u);
  WriteSmall(folder / "a.plan");
  EXPECT_EQ(PlanFile(folder / "a.plan").manifest().model, "tiny");
  EXPECT_EQ(folder.Count(), 1u);
}

// Runs `work` in a child process; its exit status, or -signal.
template <typename Work>
int InChild(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(PlanWriter, AFullDiskIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  WriteFile(folder / "a.plan", "old");
  // A limit on file sizes stands for the full disk: the check before writing can't see it.
  for (rlim_t limit : {0u, 5000u, 9000u}) {
    const int status = InChild([&] {
      const rlimit size{limit, limit};
      setrlimit(RLIMIT_FSIZE, &size);
      const std::string error = ErrorOf([&] { WriteSmall(folder / "a.plan"); });
      return error.find("can't write") != std::string::npos && error.find("File too large") != std::string::npos ? 0
                                                                                                                 : 1;
    });
    EXPECT_EQ(status, 0) << limit;
    EXPECT_EQ(ReadFile(folder / "a.plan"), "old");
    EXPECT_EQ(folder.Count(), 1u);
  }
}

TEST(PlanWriter, KilledAtAnyTimeItLeavesAWholePlan) {
  const TempFolder folder;
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) WriteSmall(folder / "a.plan");
    }
    usleep(static_cast<useconds_t>(1000 + random() % 30000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (std::filesystem::exists(folder / "a.plan")) PlanFile(folder / "a.plan").VerifyAll(MakeFakeSha256);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "a.plan"));
  // A kill between link and rename leaves the name of a whole plan; nothing else is ever visible.
  for (const auto& entry : std::filesystem::directory_iterator(folder / ""))
    PlanFile(entry.path().string()).VerifyAll(MakeFakeSha256);
}

TEST(PlanWriter, ManyWritersAndReadersSeeWholePlans) {
  const TempFolder folder;
  WriteSmall(folder / "a.plan");
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 25; ++i) WriteSmall(folder / "a.plan");
      _exit(0);
    }
    children.push_back(child);
  }
  for (int i = 0; i < 300; ++i) PlanFile(folder / "a.plan").VerifyAll(MakeFakeSha256);
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(folder.Count(), 1u);
}

TEST(PlanCpu, NamesWhatIsMissing) {
  const std::vector<std::string> features = {"sse4_1", "no-such-feature"};
#if defined(__x86_64__)
  EXPECT_EQ(MissingCpuFeatures(features), std::vector<std::string>{"no-such-feature"});
#endif
}

}  // namespace
}  // namespace llmc
