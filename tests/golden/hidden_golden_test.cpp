// Hidden rows (tests/data/golden-hidden): transformers' last_hidden_state in float64, of encoders and of a model of each
// decoder family, on the interpreter and on every backend that is built in, with one thread and with two.
#include <memory>
#include <set>

#include "ir/interpreter.h"
#include "ir/verify.h"
#include "passes/check.h"
#include "tests/golden/golden_files.h"
#include "tests/support/from_memory.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

const std::string kHidden = kData + "golden-hidden/";

struct HiddenGolden {
  std::vector<int32_t> ids, types;
  std::vector<float> rows;
};

// "encoder/NAME" or "decoder/NAME".
HiddenGolden ReadHidden(const std::string& name) {
  const std::string base = name.substr(name.find('/') + 1);
  HiddenGolden g;
  if (name.starts_with("decoder/")) {
    g.ids = ReadGolden(base).prompt;
    g.rows = ReadNpy(kHidden + "decoders/" + base + ".npy");
    return g;
  }
  const std::string path = kHidden + base + "/golden.json";
  const Json root = ParseJson(test::ReadBytes(path), path);
  g.ids = Numbers<int32_t>(root.Find("prompt"));
  g.types = Numbers<int32_t>(root.Find("types"));
  g.rows = ReadNpy(kHidden + base + "/hidden.npy");
  return g;
}

ModelOptions HiddenOptions(const std::string& name) {
  const std::string base = name.substr(name.find('/') + 1);
  const bool decoder = name.starts_with("decoder/");
  ModelOptions options = OptionsFor(ModelIn((decoder ? "golden/" : "golden-hidden/") + base), "f32");
  options.hidden = decoder;
  return options;
}

std::vector<std::string> Encoders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kHidden)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name != "decoders") names.push_back("encoder/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> All() {
  std::vector<std::string> names = Encoders();
  for (const auto& entry : std::filesystem::directory_iterator(kHidden + "decoders"))
    names.push_back("decoder/" + entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The largest error of a row.
double WorstRow(const HiddenGolden& g, const std::vector<float>& rows) {
  EXPECT_EQ(rows.size(), g.rows.size());
  const size_t width = g.rows.size() / g.ids.size();
  double worst = rows.size() == g.rows.size() ? 0 : 1;
  for (size_t at = 0; at < g.rows.size() && at < rows.size(); at += width)
    worst = std::max(worst, Nmse(rows.data() + at, g.rows.data() + at, width));
  return worst;
}

std::vector<float> Interpreted(const Module& module, const WeightSource& weights, const HiddenGolden& g,
                               const char* func) {
  Interpreter interpreter(module, weights);
  const int32_t first = 0;
  std::vector<int32_t> types = g.types;
  types.resize(g.ids.size(), 0);
  return interpreter.Run(
      func, {.tokens = g.ids, .positions = {&first, 1}, .total = static_cast<int64_t>(g.ids.size()), .types = types});
}

Executable CompileFor(Model& model, const std::string& backend, const std::vector<std::string>& without = {}) {
  PipelineOptions pipeline;
  pipeline.disabled = {without.begin(), without.end()};
  RunPipeline(model.module, ContextFor(backend), pipeline);
  PlanRequest request;
  request.module = &model.module;
  request.weights = model.weights.get();
  request.backend = backend;
  request.targets = "native";
  return FromMemory(std::make_shared<MemoryPlan>(request));
}

std::vector<float> RowsFrom(Session& session, const HiddenGolden& g) {
  std::vector<float> rows;
  session.Hidden(g.ids, g.types, [&](std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); });
  return rows;
}

class HiddenTest : public testing::TestWithParam<std::string> {};

TEST_P(HiddenTest, Interpreter) {
  const HiddenGolden g = ReadHidden(GetParam());
  Model model = LoadModel(HiddenOptions(GetParam()));
  const bool encoder = GetParam().starts_with("encoder/");
  Verify(model.module, "import");
  std::vector<float> first;
  if (encoder) {
    first = Interpreted(model.module, *model.weights, g, "forward");
    EXPECT_LE(WorstRow(g, first), kNmseF32);
  }
  RunPipeline(model.module, ContextFor("llvm"));
  const std::vector<float> planned = Interpreted(model.module, *model.weights, g, "hidden");
  EXPECT_LE(WorstRow(g, planned), kNmseF32);
  if (encoder) {
    EXPECT_TRUE(SameBits(first, planned)) << "the passes";
  }
}

class HiddenBackendsTest : public testing::TestWithParam<std::string> {};

TEST_P(HiddenBackendsTest, MatchTransformers) {
  const HiddenGolden g = ReadHidden(GetParam());
  const bool encoder = GetParam().starts_with("encoder/");
  for (const std::string& backend : CompiledBackends()) {
    // Logits of every decoder are held on every backend elsewhere; one family shows that its rows are too.
    if (!encoder && backend != "llvm" && !GetParam().starts_with("decoder/llama")) continue;
    Model model = LoadModel(HiddenOptions(GetParam()));
    const Executable executable = CompileFor(model, backend);
    ExpectNoReference(executable);
    std::vector<float> first;
    for (const uint32_t threads : {1U, 2U}) {
      SessionOptions options;
      options.threads = threads;
      Session session(executable, options);
      const std::vector<float> rows = RowsFrom(session, g);
      EXPECT_LE(WorstRow(g, rows), kNmseF32) << backend << ", " << threads << " threads";
      if (first.empty()) first = rows;
      EXPECT_TRUE(SameBits(first, rows)) << backend << ", " << threads << " threads";
    }
    if (backend == "llvm") {
      EXPECT_TRUE(SameBits(first, Interpreted(model.module, *model.weights, g, "hidden"))) << "the interpreter";
    }
  }
}

// All encoders; of the decoders, whose code is compiled with logits elsewhere, each fourth, and all of them in tools/check.
std::vector<std::string> Quick() {
  std::vector<std::string> names;
  size_t number = 0;
  for (std::string& name : All())
    if (!name.starts_with("decoder/") || number++ % 4 == 0 || name.starts_with("decoder/llama"))
      names.push_back(std::move(name));
  return names;
}

INSTANTIATE_TEST_SUITE_P(, HiddenTest, testing::ValuesIn(All()), TestName);
INSTANTIATE_TEST_SUITE_P(, HiddenBackendsTest, testing::ValuesIn(Quick()), TestName);
INSTANTIATE_TEST_SUITE_P(Every, HiddenBackendsTest, testing::ValuesIn(All()), TestName);

TEST(Hidden, EveryDecoderFamilyHasRows) {
  std::set<std::string> families, have;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "golden")) {
    const std::string name = entry.path().filename().string();
    if (std::filesystem::exists(entry.path() / "config.json")) families.insert(name.substr(0, name.find('-')));
  }
  for (const std::string& name : All())
    if (name.starts_with("decoder/")) have.insert(name.substr(8, name.find('-') - 8));
  EXPECT_EQ(families, have);
}

// A decoder's rows don't depend on how the prompt is cut, and its logits are what they are without the phase.
TEST(Hidden, OfADecoderInPartsAndBesideLogits) {
  const std::string name = "decoder/llama-bias";
  const HiddenGolden g = ReadHidden(name);
  Model with = LoadModel(HiddenOptions(name));
  const Executable executable = CompileFor(with, "llvm");
  SessionOptions options;
  options.threads = 2;
  Session whole(executable, options);
  const std::vector<float> rows = RowsFrom(whole, g);
  options.chunk = 5;
  Session parts(executable, options);
  EXPECT_TRUE(SameBits(rows, RowsFrom(parts, g)));
  EXPECT_EQ(parts.position(), g.ids.size());

  ModelOptions plain = HiddenOptions(name);
  plain.hidden = false;
  Model without = LoadModel(plain);
  const Executable logits_alone = CompileFor(without, "llvm");
  Session a(executable, options), b(logits_alone, options);
  const std::span<const float> one = a.Prefill(g.ids), other = b.Prefill(g.ids);
  EXPECT_TRUE(SameBits({one.begin(), one.end()}, {other.begin(), other.end()}));
  EXPECT_EQ(b.hidden_width(), 0U);
  EXPECT_THROW(b.Hidden(g.ids, {}, [](std::span<const float>) {}), PlanError);
  EXPECT_EQ(executable.weights_size, logits_alone.weights_size);
  EXPECT_EQ(executable.manifest->state_bytes, logits_alone.manifest->state_bytes);
}

// An encoder keeps nothing from one call to the next, and gives no logits.
TEST(Hidden, OfAnEncoderOneCallIsOneSequence) {
  const HiddenGolden g = ReadHidden("encoder/bert-types");
  Model model = LoadModel(HiddenOptions("encoder/bert-types"));
  const Executable executable = CompileFor(model, "llvm");
  Session session(executable, {});
  const std::vector<float> first = RowsFrom(session, g);
  HiddenGolden other = g;
  std::reverse(other.ids.begin(), other.ids.end());
  EXPECT_FALSE(SameBits(first, RowsFrom(session, other)));
  EXPECT_TRUE(SameBits(first, RowsFrom(session, g)));
  other = g;
  other.types.assign(g.ids.size(), 0);
  EXPECT_FALSE(SameBits(first, RowsFrom(session, other))) << "types count";
  EXPECT_EQ(session.position(), 0U);
  EXPECT_THROW(session.Prefill(g.ids), PlanError);
  EXPECT_THROW(session.Score(g.ids, [](std::span<const float>) {}), PlanError);
  const std::vector<int32_t> long_one(session.context() + 1, 7);
  EXPECT_THROW(session.Hidden(long_one, {}, [](std::span<const float>) {}), PlanError);
  const std::vector<int32_t> wrong(g.ids.size(), 2);
  EXPECT_THROW(session.Hidden(g.ids, wrong, [](std::span<const float>) {}), PlanError);
}

// --check sees the rows: the passes keep them, and a pass that doesn't is named.
TEST(Hidden, CheckHoldsThem) {
  for (const char* name : {"encoder/bert-types", "decoder/llama-bias"}) {
    Model model = LoadModel(HiddenOptions(name));
    PassCheck check(model.module, *model.weights);
    PipelineOptions pipeline;
    pipeline.after = [&](const PassInfo& pass, const Module& now, bool, double) { check.After(pass, now); };
    RunPipeline(model.module, ContextFor("llvm"), pipeline);
    Module broken = model.module;
    Func* hidden = broken.FindFunc("hidden");
    for (Op& op : hidden->ops) {
      if (op.kind == OpKind::Attention) op.attrs.Set("scale", 0.01F);
    }
    EXPECT_THROW(check.After(*FindPass("plan-memory"), broken), InputError) << name;
  }
}

}  // namespace
}  // namespace llmc
