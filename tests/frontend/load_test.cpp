// From a model on disk to a module and its weights: heads tied or not (CASES A11), biases (A13), head_dim (A08), GGUF
// and HF alike, options, and what is refused.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "frontend/json.h"
#include "frontend/quantize_mix.h"
#include "ir/blocks.h"
#include "ir/interpreter.h"
#include "ir/options.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/frontend/loader.h"
#include "tests/frontend/support.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using test::Describe;
using test::ErrorFor;
using test::ErrorOf;
using test::FindTensor;
using test::kTokens;
using test::Loader;
using test::StTensor;
using test::TempDir;
using test::TensorsFor;
using test::TinyConfig;
using test::WriteModel;

// Heads (CASES A11).

TEST(Load, TiedWithoutHead) {
  TempDir tied;
  TempDir untied;
  std::string tie = "\"tie_word_embeddings\": true, ";
  std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama", tie)));
  WriteModel(tied, TinyConfig("llama", tie), tensors);
  StTensor head = *FindTensor(tensors, "model.embed_tokens.weight");
  head.name = "lm_head.weight";
  tensors.push_back(head);
  WriteModel(untied, TinyConfig("llama"), tensors);
  EXPECT_EQ(Loader(tied.path()).Logits(), Loader(untied.path()).Logits());

  // The same head once more in the file of a tied model: still tied, stored once, no warning.
  WriteModel(tied, TinyConfig("llama", tie), tensors);
  Loader again(tied.path());
  EXPECT_EQ(again.Load().module.FindGlobal(Name("head")), -1);
  EXPECT_TRUE(again.warnings.empty());
}

TEST(Load, TiedWithAnotherHeadInTheFile) {
  TempDir tied;
  TempDir untied;
  std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama")));
  WriteModel(untied, TinyConfig("llama"), tensors);
  WriteModel(tied, TinyConfig("llama", "\"tie_word_embeddings\": true, "), tensors);
  Loader loader(tied.path());
  EXPECT_EQ(loader.Logits(), Loader(untied.path()).Logits());
  ASSERT_EQ(loader.warnings.size(), 1U);
  EXPECT_EQ(loader.warnings[0].place.at, "tensor lm_head.weight");
}

TEST(Load, UntiedWithoutHead) {
  TempDir dir;
  WriteModel(dir, TinyConfig("llama"), TensorsFor(Describe(TinyConfig("llama", "\"tie_word_embeddings\": true, "))));
  EXPECT_NE(ErrorFor(DiagKind::MissingTensor, dir.path()).find("lm_head.weight"), std::string::npos);
}

// Tensors against the description.

// CASES A13: a bias in the file that the graph does not use.
TEST(Load, UnusedTensors) {
  TempDir dir;
  WriteModel(dir, TinyConfig("llama"),
             TensorsFor(Describe(TinyConfig("llama", "\"attention_bias\": true, \"mlp_bias\": true, "))));
  std::string message = ErrorFor(DiagKind::UnusedTensor, dir.path());
  EXPECT_NE(message.find("14 of 35 tensors"), std::string::npos) << message;
}

TEST(Load, MissingBias) {
  TempDir dir;
  WriteModel(dir, TinyConfig("llama", "\"attention_bias\": true, "), TensorsFor(Describe(TinyConfig("llama"))));
  EXPECT_NE(ErrorFor(DiagKind::MissingTensor, dir.path()).find("q_proj.bias"), std::string::npos);
}

TEST(Load, KnownBuffersAreIgnored) {
  TempDir dir;
  std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama")));
  tensors.push_back(test::F32Tensor("model.layers.1.self_attn.rotary_emb.inv_freq", {2}, {1, 2}));
  WriteModel(dir, TinyConfig("llama"), tensors);
  Loader(dir.path()).Load();
}

// CASES A08: head_dim from the config rules; rows that follow from hidden/heads are refused.
TEST(Load, HeadDim) {
  TempDir dir;
  std::string config = TinyConfig("llama", "\"head_dim\": 10, ");
  WriteModel(dir, config, TensorsFor(Describe(config)));
  EXPECT_EQ(Loader(dir.path()).Logits().size(), kTokens.size() * 40);
  WriteModel(dir, config, TensorsFor(Describe(TinyConfig("llama"))));
  std::string message = ErrorFor(DiagKind::ShapeMismatch, dir.path());
  EXPECT_NE(message.find("tensor model.layers.0.self_attn.q_proj.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("[attention.n_heads * attention.d_head, d_model] = [40, 16], is [16, 16]"), std::string::npos)
      << message;
}

TEST(Load, VectorsAreWidenedAndMatricesStay) {
  TempDir dir;
  std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("qwen2")));
  for (StTensor& t : tensors) {
    std::string narrow;
    for (size_t i = 0; i < t.data.size(); i += sizeof(float)) {
      float v = 0;
      std::memcpy(&v, t.data.data() + i, sizeof(v));
      narrow += test::Bytes(F32ToBf16(v));
    }
    t.data = narrow;
    t.dtype = "BF16";
  }
  WriteModel(dir, TinyConfig("qwen2"), tensors);
  Loader loader(dir.path());
  std::string text = Print(loader.Load().module);
  EXPECT_NE(text.find("bq_f32 : f32[16] = cast $b{i}.bq"), std::string::npos) << text;
  EXPECT_NE(text.find("weight $b{i}.wq : bf16[16, 16]"), std::string::npos) << text;
  EXPECT_NE(text.find("activations = f32"), std::string::npos) << text;
  for (float v : loader.Logits()) ASSERT_TRUE(std::isfinite(v));
}

TEST(Load, AddedGain) {
  TempDir plain;
  TempDir shifted;
  Description d = Describe(TinyConfig("llama"));
  std::vector<StTensor> tensors = TensorsFor(d);
  d.tensors["final_norm"].add = 0.25;
  shifted.Write("m.json", PrintDescription(d));
  shifted.Write("model.safetensors", test::SafetensorsFile(tensors));
  StTensor& gain = *FindTensor(tensors, "model.norm.weight");
  for (size_t i = 0; i < gain.data.size(); i += sizeof(float)) {
    float v = 0;
    std::memcpy(&v, gain.data.data() + i, sizeof(v));
    v += 0.25F;
    std::memcpy(gain.data.data() + i, &v, sizeof(v));
  }
  WriteModel(plain, TinyConfig("llama"), tensors);
  EXPECT_EQ(Loader(shifted / "m.json").Logits(), Loader(plain.path()).Logits());
}

// One tensor for q, k and v, and one for gate and up: the same model as with tensors of their own, the heads' rows one
// below another or grouped by kv head.
TEST(Load, FusedTensors) {
  TempDir dir;
  const std::string config = TinyConfig("llama", "\"attention_bias\": true, ");
  const std::vector<StTensor> tensors = TensorsFor(Describe(config));
  WriteModel(dir, config, tensors);
  const std::vector<float> expected = Loader(dir.path()).Logits();
  constexpr size_t kGroups = 2;
  for (const bool grouped : {false, true}) {
    Description d = Describe(config);
    std::vector<StTensor> fused;
    for (const StTensor& t : tensors) {
      if (t.name.find("self_attn.o_proj") != std::string::npos ||
          (t.name.find("self_attn") == std::string::npos && t.name.find("mlp") == std::string::npos) ||
          t.name.find("down") != std::string::npos)
        fused.push_back(t);
    }
    auto fuse = [&](const std::vector<std::string>& parts, const std::vector<std::string>& names,
                    const std::string& suffix, size_t groups, const std::string& groups_field) {
      for (int layer = 0; layer < 2; ++layer) {
        const std::string b = "model.layers." + std::to_string(layer) + ".";
        StTensor whole = *FindTensor(const_cast<std::vector<StTensor>&>(tensors), b + names[0] + suffix);
        whole.name = b + "fused_" + parts[0];
        whole.data.clear();
        whole.dims[0] = 0;
        for (size_t g = 0; g < groups; ++g) {
          for (const std::string& name : names) {
            const StTensor& part = *FindTensor(const_cast<std::vector<StTensor>&>(tensors), b + name + suffix);
            const size_t bytes = part.data.size() / groups;
            whole.data += part.data.substr(g * bytes, bytes);
            if (g == 0) whole.dims[0] += part.dims[0];
          }
        }
        fused.push_back(whole);
      }
      for (const std::string& part : parts) {
        TensorRule& rule = d.tensors["b{i}." + part];
        rule.from = "model.layers.{i}.fused_" + parts[0];
        rule.parts = parts;
        rule.groups = groups_field;
      }
    };
    const std::vector<std::string> qkv = {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."};
    const std::string field = grouped ? "attention.n_kv_heads" : "";
    fuse({"wq", "wk", "wv"}, qkv, "weight", grouped ? kGroups : 1, field);
    fuse({"bq", "bk", "bv"}, qkv, "bias", grouped ? kGroups : 1, field);
    fuse({"w_gate", "w_up"}, {"mlp.gate_proj.", "mlp.up_proj."}, "weight", 1, "");
    TempDir other;
    other.Write("model.safetensors", test::SafetensorsFile(fused));
    Loader loader(other.Write("m.json", PrintDescription(d)));
    EXPECT_EQ(loader.Logits(), expected) << grouped;
    const std::string text = Print(loader.Load().module);
    EXPECT_NE(text.find(grouped ? "= rows $b{i}.wq_wk_wv {begin = 8, count = 4, every = 16, times = 2}"
                                : "= rows $b{i}.wq_wk_wv {begin = 16, count = 8}"),
              std::string::npos)
        << text;
  }
}

TEST(Load, HeadBias) {
  TempDir dir;
  Description d = Describe(TinyConfig("llama"));
  std::vector<StTensor> tensors = TensorsFor(d);
  WriteModel(dir, TinyConfig("llama"), tensors);
  std::vector<float> expected = Loader(dir.path()).Logits();
  std::vector<float> bias = test::SomeValues(7, 40);
  d.ends.head_bias = true;
  tensors.push_back(test::F32Tensor("head_bias", {40}, bias));
  dir.Write("model.safetensors", test::SafetensorsFile(tensors));
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 40];
  EXPECT_EQ(Loader(dir.Write("m.json", PrintDescription(d))).Logits(), expected);
}

// Sources.

TEST(Load, EverySourceOfOneModel) {
  TempDir dir;
  std::string config = TinyConfig("llama");
  std::vector<StTensor> tensors = TensorsFor(Describe(config));
  WriteModel(dir, config, tensors);
  std::vector<float> expected = Loader(dir.path()).Logits();
  EXPECT_EQ(Loader(dir.Write("copy.json", config)).Logits(), expected);
  // llmc's own form, weights beside it, named in it, and named on the command line.
  std::string own = PrintDescription(Describe(config));
  EXPECT_EQ(Loader(dir.Write("own.json", own)).Logits(), expected);
  TempDir elsewhere;
  Loader named(elsewhere.Write("own.json", own));
  ErrorOf(DiagKind::FileError, [&] { named.Load(); });
  named.options.weights = dir.path();
  EXPECT_EQ(named.Logits(), expected);
  std::string with_path = own;
  with_path.replace(0, 1, "{\"weights\": \"" + (dir / "model.safetensors") + "\", ");
  EXPECT_EQ(Loader(elsewhere.Write("with_path.json", with_path)).Logits(), expected);
}

TEST(Load, PlacesThatAreNoModel) {
  TempDir dir;
  ErrorFor(DiagKind::FileError, dir.path());
  ErrorFor(DiagKind::FileError, dir / "absent.json");
  ErrorFor(DiagKind::FileError, dir / "absent.gguf");
  ErrorFor(DiagKind::FileError, dir.Write("model.bin", "x"));
  ErrorFor(DiagKind::BadValue, dir.Write("list.json", "[]"));
  ErrorFor(DiagKind::FileError, dir.Write("m.json", TinyConfig("llama")));  // no weights beside it
}

TEST(Load, RandomAndNoWeights) {
  TempDir dir;
  Loader loader(dir.Write("m.json", TinyConfig("qwen3", "\"torch_dtype\": \"float16\", ")));
  loader.options.weights = "random:7";
  std::vector<float> a = loader.Logits();
  EXPECT_EQ(a, loader.Logits());
  EXPECT_NE(Print(loader.Load().module).find("random = 7"), std::string::npos);
  loader.options.weights = "random:8";
  EXPECT_NE(a, loader.Logits());
  for (const char* bad : {"random:", "random:x", "random:-1", "random:99999999999999999999"}) {
    loader.options.weights = bad;
    EXPECT_THROW(loader.Load(), UsageError) << bad;
  }
  loader.options.weights = "";
  loader.options.no_weights = true;
  Model model = loader.Load();
  EXPECT_EQ(model.weights, nullptr);
  EXPECT_NE(Print(model.module).find("weight $embed : f16[40, 16]"), std::string::npos);
  loader.options.weights = "random:7";
  EXPECT_THROW(loader.Load(), UsageError);
}

TEST(Load, Context) {
  TempDir dir;
  Loader loader(
      dir.Write("m.json", TinyConfig("llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}, ")));
  loader.options.no_weights = true;
  auto context = [&] { return loader.Load().module.options.Int("context"); };
  EXPECT_EQ(context(), 64);
  EXPECT_EQ(loader.Load().module.options.Int("chunk"), 64);
  loader.options.context = 128;  // stretched twice
  EXPECT_EQ(context(), 128);
  loader.options.context = 129;
  ErrorOf(DiagKind::BadValue, [&] { context(); });
}

TEST(Load, Quantize) {
  TempDir dir;
  std::string config = TinyConfig("llama");
  for (auto [from, to] : {std::pair{"\"hidden_size\": 16", "\"hidden_size\": 64"},
                          {"\"intermediate_size\": 24", "\"intermediate_size\": 40"}}) {
    config.replace(config.find(from), std::strlen(from), to);
  }
  Loader loader(dir.Write("m.json", config));
  loader.options.weights = "random:1";
  loader.options.quantize = "q8_0";
  std::string text = Print(loader.Load().module);
  EXPECT_NE(text.find("const $b{i}.wq_q8_0 : q8_0[64, 64] = quantize $b{i}.wq"), std::string::npos) << text;
  EXPECT_NE(text.find("activations = q8"), std::string::npos) << text;
  EXPECT_NE(text.find("quantize = q8_0"), std::string::npos) << text;
  // Rows of 40 are no whole blocks: that matrix stays, and llmc says so.
  EXPECT_EQ(text.find("w_down_q8_0"), std::string::npos) << text;
  ASSERT_EQ(loader.warnings.size(), 2U);
  EXPECT_EQ(loader.warnings[0].kind, DiagKind::ConstraintViolated);
  EXPECT_NE(loader.warnings[0].message.find("rows of 40 elements"), std::string::npos);
}

// Rows of 64: 256 doesn't divide them, and llmc says what it takes.
TEST(Load, QuantizeTakesStandIns) {
  TempDir dir;
  std::string config = TinyConfig("llama");
  for (auto [from, to] : {std::pair{"\"hidden_size\": 16", "\"hidden_size\": 64"},
                          {"\"intermediate_size\": 24", "\"intermediate_size\": 64"}}) {
    config.replace(config.find(from), std::strlen(from), to);
  }
  Loader loader(dir.Write("m.json", config));
  loader.options.weights = "random:1";
  loader.options.quantize = "q4_k_m";
  const std::string text = Print(loader.Load().module);
  EXPECT_NE(text.find("wq_q5_0 : q5_0[64, 64] = quantize"), std::string::npos) << text;
  EXPECT_NE(text.find("quantize = q4_k_m"), std::string::npos) << text;
  ASSERT_FALSE(loader.warnings.empty());
  EXPECT_EQ(loader.warnings[0].kind, DiagKind::PassRemark);
  EXPECT_NE(loader.warnings[0].message.find("rows of 64 elements are not whole blocks of 256: "), std::string::npos);
  EXPECT_NE(loader.warnings[0].message.find("matrices are q5_0, not q4_k"), std::string::npos);
  loader.options.kv_type = "q8_0";  // heads are no whole blocks
  EXPECT_THROW(loader.Load(), UsageError);
  loader.options.kv_type = "f16";
  loader.options.quantize = "q4_2";
  EXPECT_THROW(loader.Load(), UsageError);
}

// llama.cpp's quantiser's choices (tools/golden/mixtures.py), tensor by tensor.
TEST(Load, MixturesAreThoseOfLlamaCpp) {
  const std::string path = std::string(LLMC_SOURCE_DIR) + "/tests/data/mixtures.json";
  const std::map<std::string, std::string, std::less<>> bases = {
      {"attn_q", "wq"},       {"attn_k", "wk"},        {"attn_v", "wv"},
      {"attn_output", "wo"},  {"ffn_gate", "w_gate"},  {"ffn_up", "w_up"},
      {"ffn_down", "w_down"}, {"token_embd", "embed"}, {"output", "head"}};
  size_t checked = 0;
  for (const Json& c : ParseJson(test::ReadBytes(path), path).items()) {
    const bool tied = c.Find("tied").AsBool();
    for (const auto& [name, tensors] : c.Find("mixtures").members()) {
      const Mixture* mixture = FindMixture(name);
      ASSERT_NE(mixture, nullptr) << name;
      for (const auto& [tensor, type] : tensors.members()) {
        const bool layer = tensor.starts_with("blk.");
        const std::string_view stem = tensor.substr(0, tensor.size() - std::strlen(".weight"));
        MixedMatrix m{bases.find(layer ? stem.substr(stem.rfind('.') + 1) : stem)->second, -1, 16};
        if (layer) m.layer = std::stoi(std::string(tensor.substr(4)));
        m.query_group = c.Find("query_group").AsInt();
        m.k = c.Find("k").AsInt();
        m.is_head = m.base == "head" || (m.base == "embed" && tied);
        const std::optional<DType> got = TypeInMixture(*mixture, m);
        ASSERT_TRUE(got) << name << " " << tensor;
        EXPECT_EQ(InfoOf(*got).text, type.AsString()) << name << " " << tensor << " k " << m.k;
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 18U * (2 * 113 + 114));
  for (const std::string& name : OptionValues("quantize")) EXPECT_NE(FindMixture(name), nullptr) << name;
  EXPECT_EQ(FindMixture("q4_k"), FindMixture("q4_k_m"));
  EXPECT_EQ(FindMixture("q9_9"), nullptr);
}

// One adapter on a matrix of the tiny model: w + scale * alpha / r * (B A), and what is not done is refused.
TEST(Load, LoraAdaptersAreMerged) {
  TempDir dir;
  WriteModel(dir, TinyConfig("llama"), TensorsFor(Describe(TinyConfig("llama"))));
  Loader loader(dir.path());
  const auto rows = [&](const char* name) {
    const Model model = loader.Load();
    std::vector<float> out(24 * 16);
    ReadRows(model.module, *model.weights, model.module.FindGlobal(Name(0, name)), 0, 24,
             reinterpret_cast<std::byte*>(out.data()));
    return out;
  };
  const std::vector<float> before = rows("w_up");
  const std::string stem = "base_model.model.model.layers.0.mlp.up_proj.lora_";
  std::vector<float> a(2 * 16);
  std::vector<float> b(24 * 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.125F * static_cast<float>(static_cast<int>(i % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i) b[i] = 0.25F * static_cast<float>(static_cast<int>(i % 5) - 2);
  const auto adapter = [&](const std::string& config, const std::vector<test::StTensor>& tensors) {
    std::filesystem::create_directories(dir.path() + "/adapter");
    dir.Write("adapter/adapter_config.json", config);
    dir.Write("adapter/adapter_model.safetensors", test::SafetensorsFile(tensors));
  };
  const test::StTensor lora_a = test::F32Tensor(stem + "A.weight", {2, 16}, a);
  const test::StTensor lora_b = test::F32Tensor(stem + "B.weight", {24, 2}, b);
  const std::string config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 8, "bias": "none"})";
  adapter(config, {lora_a, lora_b});
  loader.options.lora = {dir.path() + "/adapter=0.5"};  // 0.5 * 8 / 2
  const std::vector<float> after = rows("w_up_lora");
  for (size_t n = 0; n < 24; ++n) {
    for (size_t k = 0; k < 16; ++k) {
      const float delta = b[2 * n] * a[k] + b[2 * n + 1] * a[16 + k];  // exact: multiples of 2^-5
      EXPECT_EQ(after[n * 16 + k], before[n * 16 + k] + 2.0F * delta);
    }
  }
  const std::vector<InputHash> inputs = loader.Load().inputs;
  for (const char* role : {"lora-1-config", "lora-1-weights"})
    EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(), [&](const InputHash& i) { return i.role == role; })) << role;
  loader.options.lora = {dir.path() + "/adapter"};
  adapter(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 8, "use_dora": true})", {lora_a, lora_b});
  ErrorOf(DiagKind::Unsupported, [&] { loader.Load(); });
  adapter(R"({"peft_type": "LORA", "r": 3, "lora_alpha": 8})", {lora_a, lora_b});
  ErrorOf(DiagKind::ShapeMismatch, [&] { loader.Load(); });
  adapter(config, {lora_a});
  ErrorOf(DiagKind::MissingTensor, [&] { loader.Load(); });
  adapter(config, {lora_a, lora_b, test::F32Tensor("base_model.model.other.lora_A.weight", {1}, {0})});
  ErrorOf(DiagKind::UnusedTensor, [&] { loader.Load(); });
}

// What else a plan keeps.

// CASES A19: generation_config's eos, a number or a list, else the config's.
TEST(Load, StopIdsAndDefaults) {
  TempDir dir;
  WriteModel(dir, TinyConfig("llama", "\"eos_token_id\": 5, "), TensorsFor(Describe(TinyConfig("llama"))));
  EXPECT_EQ(Loader(dir.path()).Load().generation.stop_ids, (std::vector<int32_t>{5}));
  dir.Write("generation_config.json",
            "{\"eos_token_id\": [9, 5], \"temperature\": 0.5, \"top_k\": 7, \"top_p\": 0.9, \"do_sample\": true}");
  Model model = Loader(dir.path()).Load();
  EXPECT_EQ(model.generation.stop_ids, (std::vector<int32_t>{5, 9}));
  EXPECT_EQ(model.generation.temperature, 0.5F);
  EXPECT_EQ(model.generation.top_k, 7);
  EXPECT_EQ(model.generation.top_p, 0.9F);
  EXPECT_TRUE(model.generation.do_sample);
  dir.Write("generation_config.json", "{\"eos_token_id\": 40}");
  ErrorFor(DiagKind::BadValue, dir.path());
  dir.Write("generation_config.json", "{\"temperature\": -1}");
  ErrorFor(DiagKind::BadValue, dir.path());
}

TEST(Load, InputsByRole) {
  TempDir dir;
  WriteModel(dir, TinyConfig("llama"), TensorsFor(Describe(TinyConfig("llama"))));
  dir.Write("generation_config.json", "{}");
  std::vector<std::string> roles;
  for (const InputHash& input : Loader(dir.path()).Load().inputs) roles.push_back(input.role);
  EXPECT_EQ(roles, (std::vector<std::string>{"config", "weights", "generation"}));
}

}  // namespace
}  // namespace llmc
