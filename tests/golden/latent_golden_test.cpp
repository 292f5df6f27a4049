// Latent attention in its two forms: what a plan of each keeps, and that the plain one is the model too.
#include <set>

#include "ir/interpreter.h"
#include "tests/golden/compiled_golden.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

// Values that a model's states hold for one position, and the bytes that the memory plan gives them.
struct Kept {
  int64_t values = 0, bytes = 0, planned = 0;
};
Kept KeptBy(const Module& module) {
  Kept kept;
  for (const Global& global : module.globals) {
    if (global.kind != GlobalKind::State) continue;
    kept.values += global.type.dims[1].value * global.type.dims[2].value;
    kept.bytes += ByteSize(global.type);
  }
  kept.planned = module.options.IntOr("state_bytes", 0);
  return kept;
}

// A published model's shape, through all passes.
Module Planned(const std::string& config, const std::set<std::string>& disabled) {
  ModelOptions options;
  options.model = kData + "configs/" + config + ".json";
  options.no_weights = true;
  options.context = 4096;
  Model model = LoadModel(options);
  PipelineOptions pipeline;
  pipeline.disabled = disabled;
  RunPipeline(model.module, ContextFor("llvm"), pipeline);
  return std::move(model.module);
}

TEST(Latents, TheMemoryPlanHoldsALatentAndAKey) {
  // DeepSeek-V2-Lite: 27 layers of 512 + 64, or of 16 heads of 192 and 128.
  const Kept absorbed = KeptBy(Planned("DeepSeek-V2-Lite", {}));
  EXPECT_EQ(absorbed.values, 27 * 576);
  EXPECT_EQ(absorbed.bytes, int64_t{27} * 576 * 4096 * 2);
  EXPECT_EQ(absorbed.planned, absorbed.bytes);
  const Kept plain = KeptBy(Planned("DeepSeek-V2-Lite", {"absorb-mla"}));
  EXPECT_EQ(plain.values, 27 * 16 * (192 + 128));
  EXPECT_EQ(plain.planned, plain.bytes);
  EXPECT_EQ(KeptBy(Planned("GLM-4.7-Flash", {})).values, 47 * 576);
}

TEST(SharedCaches, AreNotAllocated) {
  // Gemma 4 E2B: of 35 layers the first 15 have caches; 12 of those have windows of 512, which are rings.
  const Module module = Planned("gemma-4-E2B-it", {});
  int rings = 0, full = 0;
  for (const Global& global : module.globals) {
    if (global.kind != GlobalKind::State) continue;
    EXPECT_LT(global.name.layer, 15);
    const bool windowed = global.name.layer % 5 != 4;
    EXPECT_EQ(global.type.dims[2].value, windowed ? 256 : 512);
    EXPECT_EQ(global.type.dims[0].value, windowed ? 768 : 4096);  // 512 + 256 - 1 in groups of 64
    (windowed ? rings : full) += 1;
  }
  EXPECT_EQ(rings, 24);
  EXPECT_EQ(full, 6);
  const Kept kept = KeptBy(module);
  EXPECT_EQ(kept.planned, kept.bytes);
  // Gemma 3 270M: windows of 512 in all but every sixth layer.
  for (const Global& global : Planned("gemma-3-270m", {}).globals) {
    if (global.kind != GlobalKind::State) continue;
    EXPECT_EQ(global.type.dims[0].value, global.name.layer % 6 == 5 ? 4096 : 768) << global.name.layer;
  }
}

Executable CompiledPlain(const ModelOptions& options, Module* imported) {
  Model model = LoadModel(options);
  *imported = model.module;
  PipelineOptions pipeline;
  pipeline.disabled = {"absorb-mla"};
  RunPipeline(model.module, ContextFor("llvm"), pipeline);
  PlanRequest request;
  request.module = &model.module;
  request.weights = model.weights.get();
  request.backend = "llvm";
  request.targets = "native";
  return FromMemory(std::make_shared<MemoryPlan>(request));
}

TEST(Latents, ThePlainFormIsTheModelToo) {
  for (const char* folder : {"golden/deepseek2-latent", "golden/glm4lite-flash", "golden-gguf/deepseek3-groups"}) {
    SCOPED_TRACE(folder);
    const Golden golden = ReadGoldenAt(folder);
    ModelOptions options = OptionsFor(ModelIn(folder), "f32");
    options.absorb = false;
    Module imported;
    const Executable executable = CompiledPlain(options, &imported);
    Session session(executable, {.threads = 2, .context = 0, .chunk = 0, .adapt = false});
    std::vector<float> logits;
    session.Score(golden.prompt,
                  [&](std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
    EXPECT_LE(WorstNmse(golden, logits), kNmseF32);
    const Model again = LoadModel(options);
    Interpreter interpreter(imported, *again.weights);
    EXPECT_TRUE(
        SameBits(logits, interpreter.Run("forward", golden.prompt, 0, static_cast<int64_t>(golden.prompt.size()))));
  }
}

TEST(Latents, BlocksHaveNoPlainForm) {
  ModelOptions options = OptionsFor(ModelIn("golden-gguf/deepseek2-blocks"), "f32");
  EXPECT_NO_THROW(LoadModel(options));
  options.absorb = false;
  const std::string message = test::ErrorOf(DiagKind::Unsupported, [&] { LoadModel(options); });
  EXPECT_NE(message.find("blk.0.attn_k_b.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("absorb-mla"), std::string::npos) << message;
}

// The scale has the square of yarn's second correction (CASES A04): without it the first position, whose softmax has
// one key, is the same, and no other.
TEST(Latents, TheScaleHasYarnsSecondCorrection) {
  const Golden golden = ReadGoldenAt("golden/deepseek2-lite");
  Model model = LoadModel(OptionsFor(ModelIn("golden/deepseek2-lite"), "f32"));
  const auto run = [&](float factor) {
    Module module = model.module;
    for (Op& op : module.funcs[0].ops) {
      if (op.kind == OpKind::Attention) op.attrs.Set("scale", op.attrs.F32("scale") * factor);
    }
    Interpreter interpreter(module, *model.weights);
    const std::span<const int32_t> six(golden.prompt.data(), 6);
    return interpreter.Run("forward", six, 0, 6);
  };
  const std::vector<float> right = run(1), wrong = run(1 / 1.589626F);
  EXPECT_LE(Nmse(wrong.data(), golden.logits.data(), golden.vocab), kNmseF32);
  for (const size_t row : {size_t{1}, size_t{5}}) {
    const float* want = golden.logits.data() + row * golden.vocab;
    EXPECT_LE(Nmse(right.data() + row * golden.vocab, want, golden.vocab), kNmseF32);
    EXPECT_GT(Nmse(wrong.data() + row * golden.vocab, want, golden.vocab), 1e-5);
  }
}

}  // namespace
}  // namespace llmc
