// HF configs of the supported families: class defaults, both spellings, what is refused by name, and the rule for
// unknown keys (CASES A01, A02, A08, A10, A13, E04).
#include "frontend/preset.h"

#include <filesystem>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "tests/frontend/support.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using test::Describe;
using test::DoubleOf;
using test::ErrorOf;
using test::IntOf;
using test::TextOf;
using test::TinyConfig;

std::string ErrorFor(DiagKind kind, const std::string& config) {
  return ErrorOf(kind, [&] { Describe(config); });
}

TEST(Preset, ClassDefaults) {
  Description llama = Describe(TinyConfig("llama"));
  EXPECT_EQ(DoubleOf(llama, 0, "position.theta"), 10000.0);
  EXPECT_EQ(TextOf(llama, 0, "position.pairs"), "half");
  EXPECT_EQ(DoubleOf(llama, 0, "norm.eps"), 1e-6);
  EXPECT_EQ(IntOf(llama, 0, "attention.d_head"), 4);
  EXPECT_EQ(TextOf(llama, 0, "attention.bias"), "none");
  EXPECT_EQ(IntOf(llama, 0, "attention.window"), 0);
  EXPECT_FALSE(llama.ends.tied);
  EXPECT_EQ(llama.model.dtype, StoredType::F32);
  EXPECT_EQ(IntOf(Describe(TinyConfig("mistral")), 0, "attention.window"), 4096);
  EXPECT_EQ(TextOf(Describe(TinyConfig("qwen2")), 0, "attention.bias"), "qkv");
  EXPECT_EQ(IntOf(Describe(TinyConfig("qwen2")), 0, "attention.window"), 0);
  EXPECT_EQ(IntOf(Describe(TinyConfig("qwen3")), 0, "attention.d_head"), 128);
  EXPECT_EQ(TextOf(Describe(TinyConfig("qwen3")), 0, "attention.qk_norm"), "per_head");
}

TEST(Preset, MissingSizeNamesKeyAndField) {
  std::string config = TinyConfig("llama");
  config.replace(config.find("\"vocab_size\": 40, "), std::strlen("\"vocab_size\": 40, "), "");
  std::string message = ErrorFor(DiagKind::MissingKey, config);
  EXPECT_NE(message.find("vocab_size is missing (vocab)"), std::string::npos) << message;
}

TEST(Preset, BadValuesNameThePlace) {
  EXPECT_EQ(ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"head_dim\": \"x\", ")).substr(0, 17),
            "config.json:1:14:");
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"head_dim\": 2.5, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"head_dim\": [4], "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"head_dim\": -4, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"rms_norm_eps\": -1, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"rms_norm_eps\": null, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"tie_word_embeddings\": 1, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"rope_theta\": 0, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"head_dim\": 3, "));  // rotary_dim is odd
}

TEST(Preset, Sizes) {
  auto with = [](const std::string& from, const std::string& to) {
    std::string config = TinyConfig("llama");
    size_t at = config.find(from);
    return config.replace(at, from.size(), to);
  };
  ErrorFor(DiagKind::BadValue, with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"));
  ErrorFor(DiagKind::BadValue, with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 8"));
  ErrorFor(DiagKind::BadValue, with("\"hidden_size\": 16", "\"hidden_size\": 18"));
  ErrorFor(DiagKind::BadValue, with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000000000"));
  ErrorFor(DiagKind::BadValue, with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": -2"));
  ErrorFor(DiagKind::BadValue, with("\"vocab_size\": 40", "\"vocab_size\": 99999999999"));
  EXPECT_EQ(
      IntOf(Describe(with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": null")), 0, "attention.n_kv_heads"),
      4);
}

// CASES A01.
TEST(Preset, RopeTheta) {
  auto theta = [](const std::string& keys) {
    return DoubleOf(Describe(TinyConfig("llama", keys)), 0, "position.theta");
  };
  EXPECT_EQ(theta("\"rope_theta\": 500000, "), 500000.0);
  EXPECT_EQ(theta("\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"default\"}, "), 500000.0);
  EXPECT_EQ(theta("\"rope_theta\": 10000.0, \"rope_parameters\": {\"rope_theta\": 500000.0}, "), 500000.0);
  EXPECT_EQ(theta("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 500000.0}, "), 500000.0);
}

TEST(Preset, RopeScalingInBothSpellings) {
  for (const char* outer : {"rope_scaling", "rope_parameters"}) {
    for (const char* type : {"type", "rope_type"}) {
      std::string start = "\"" + std::string(outer) + "\": {\"" + type + "\": ";
      Description linear = Describe(TinyConfig("llama", start + "\"linear\", \"factor\": 4}, "));
      EXPECT_EQ(TextOf(linear, 0, "position.scaling"), "linear");
      EXPECT_EQ(DoubleOf(linear, 0, "position.factor"), 4.0);
      Description llama3 = Describe(
          TinyConfig("llama", start + "\"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                                      "\"original_max_position_embeddings\": 8192}, "));
      EXPECT_EQ(TextOf(llama3, 0, "position.scaling"), "llama3");
      EXPECT_EQ(IntOf(llama3, 0, "position.original"), 8192);
      EXPECT_EQ(DoubleOf(llama3, 0, "position.attention_factor"), 1.0);
      Description yarn = Describe(TinyConfig("qwen2", start + "\"yarn\", \"factor\": 4.0}, "));
      EXPECT_EQ(TextOf(yarn, 0, "position.scaling"), "yarn");
      EXPECT_EQ(IntOf(yarn, 0, "position.original"), 64);
      EXPECT_NEAR(DoubleOf(yarn, 0, "position.attention_factor"), 1.1386294361119891, 1e-15);
      EXPECT_EQ(DoubleOf(yarn, 0, "position.beta_fast"), 32.0);
    }
  }
  // rope_type wins over the older spelling; a value at the top wins for the original context.
  EXPECT_EQ(
      TextOf(Describe(TinyConfig("llama", "\"rope_scaling\": {\"type\": \"yarn\", \"rope_type\": \"default\"}, ")), 0,
             "position.scaling"),
      "none");
  EXPECT_EQ(
      IntOf(Describe(TinyConfig(
                "llama",
                "\"original_max_position_embeddings\": 16, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2, "
                "\"original_max_position_embeddings\": 32}, ")),
            0, "position.original"),
      16);
}

TEST(Preset, RopeIsRefusedByName) {
  // Dynamic NTK changes nothing up to the model's own length, and no longer context is compiled.
  EXPECT_EQ(TextOf(Describe(TinyConfig("llama", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}, ")), 0,
                   "position.scaling"),
            "none");
  EXPECT_NE(ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"rope_parameters\": {\"rope_type\": \"longrope\"}, "))
                .find("\"longrope\""),
            std::string::npos);
  ErrorFor(DiagKind::MissingKey, TinyConfig("llama", "\"rope_scaling\": {\"type\": \"linear\"}, "));
  ErrorFor(DiagKind::MissingKey, TinyConfig("llama", "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}, "));
  ErrorFor(
      DiagKind::BadValue,
      TinyConfig(
          "llama",
          "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"rope_theta\": 2.0}, "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"rope_scaling\": \"linear\", "));
  ErrorFor(DiagKind::BadValue, TinyConfig("llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}, "));
  // A key inside that is not known may change the angles, whatever its name.
  ErrorFor(DiagKind::UnknownKey,
           TinyConfig("llama", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"mscale\": 0.7}, "));
  EXPECT_FALSE(test::FieldOf(Describe(TinyConfig("llama",
                                                 "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, "
                                                 "\"truncate\": false}, ")),
                             0, "position.truncate")
                   .boolean);
}

// CASES A10: these families rotate whole heads.
TEST(Preset, PartialRotary) {
  EXPECT_NE(
      ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"partial_rotary_factor\": 0.5, ")).find("partial rotary"),
      std::string::npos);
  EXPECT_EQ(IntOf(Describe(TinyConfig("llama", "\"partial_rotary_factor\": 1.0, ")), 0, "position.rotary_dim"), 4);
  ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}, "));
}

// CASES A13: which biases a family has.
TEST(Preset, Biases) {
  Description d = Describe(TinyConfig("llama", "\"attention_bias\": true, \"mlp_bias\": true, "));
  EXPECT_EQ(TextOf(d, 0, "attention.bias"), "qkvo");
  EXPECT_TRUE(test::FieldOf(d, 0, "ffn.bias").boolean);
  EXPECT_EQ(TextOf(Describe(TinyConfig("qwen3", "\"attention_bias\": true, ")), 0, "attention.bias"), "qkvo");
  // Keys that the family does not have.
  ErrorFor(DiagKind::UnknownKey, TinyConfig("mistral", "\"attention_bias\": true, "));
  ErrorFor(DiagKind::UnknownKey, TinyConfig("qwen2", "\"mlp_bias\": true, "));
  Describe(TinyConfig("mistral", "\"attention_bias\": false, "));
}

// CASES E04: which layers have a window.
TEST(Preset, Windows) {
  auto windows = [](const Description& d) {
    return std::vector<int64_t>{IntOf(d, 0, "attention.window"), IntOf(d, 1, "attention.window")};
  };
  using W = std::vector<int64_t>;
  EXPECT_EQ(windows(Describe(TinyConfig("mistral", "\"sliding_window\": 3, "))), (W{3, 3}));
  EXPECT_EQ(windows(Describe(TinyConfig("mistral", "\"sliding_window\": null, "))), (W{0, 0}));
  EXPECT_EQ(windows(Describe(TinyConfig(
                "qwen2", "\"sliding_window\": 3, \"use_sliding_window\": true, \"max_window_layers\": 1, "))),
            (W{0, 3}));
  EXPECT_EQ(windows(Describe(TinyConfig("qwen2", "\"sliding_window\": 3, \"use_sliding_window\": true, "))), (W{0, 0}));
  EXPECT_EQ(windows(Describe(TinyConfig(
                "qwen3", "\"sliding_window\": 3, \"use_sliding_window\": false, \"max_window_layers\": 1, "))),
            (W{0, 0}));
  EXPECT_EQ(windows(Describe(TinyConfig("qwen2",
                                        "\"sliding_window\": 3, \"use_sliding_window\": true, "
                                        "\"layer_types\": [\"sliding_attention\", \"full_attention\"], "))),
            (W{3, 0}));
  ErrorFor(DiagKind::BadValue, TinyConfig("qwen2", "\"layer_types\": [\"full_attention\"], "));
  ErrorFor(DiagKind::BadValue, TinyConfig("qwen2", "\"layer_types\": [\"full_attention\", \"sliding_attention\"], "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("qwen2", "\"layer_types\": [\"full_attention\", \"linear_attention\"], "));
  ErrorFor(DiagKind::BadValue, TinyConfig("mistral", "\"sliding_window\": -3, "));
  ErrorFor(DiagKind::UnknownKey, TinyConfig("llama", "\"sliding_window\": 3, "));
  Describe(TinyConfig("llama", "\"layer_types\": [\"full_attention\", \"full_attention\"], "));
  ErrorFor(DiagKind::Unsupported,
           TinyConfig("llama", "\"layer_types\": [\"full_attention\", \"sliding_attention\"], "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("mistral", "\"layer_types\": [\"full_attention\", \"full_attention\"], "));
}

TEST(Preset, Architectures) {
  std::string message = ErrorFor(DiagKind::UnknownArchitecture, TinyConfig("mamba"));
  EXPECT_NE(message.find("\"mamba\""), std::string::npos) << message;
  for (const std::string& name : PresetNames()) {
    const std::string path = std::string(LLMC_SOURCE_DIR) + "/frontend/arch/" + name + ".json";
    const Json hf = ParseJson(test::ReadBytes(path), path).Find("hf");
    if (!hf) continue;  // GGUF files alone
    for (const Json& type : hf.Find("model_types").items())
      EXPECT_NE(message.find(std::string(" ") + std::string(type.AsString())), std::string::npos) << message;
  }
  ErrorFor(DiagKind::UnknownArchitecture,
           TinyConfig("llama", "\"architectures\": [\"LlamaForSequenceClassification\"], "));
  Describe(TinyConfig("llama", "\"architectures\": [\"LlamaForCausalLM\"], "));
  ErrorFor(DiagKind::MissingKey, "{}");
  ErrorFor(DiagKind::BadValue, "{\"model_type\": 3}");
  ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"hidden_act\": \"quick_gelu\", "));
  EXPECT_NE(ErrorFor(DiagKind::Unsupported, TinyConfig("falcon", "\"alibi\": true, ")).find("alibi"),
            std::string::npos);
  const std::string mixture = "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, ";
  Describe(TinyConfig("qwen3_moe", mixture + "\"layer_types\": [\"full_attention\", \"full_attention\"], "));
  ErrorFor(DiagKind::Unsupported,
           TinyConfig("qwen3_moe", mixture + "\"layer_types\": [\"full_attention\", \"sliding_attention\"], "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("qwen2_moe", mixture + "\"use_sliding_window\": true, "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("olmoe", "\"clip_qkv\": 8.0, "));
}

// Families whose sizes have other keys, or class defaults, and what of them is refused by name.
TEST(Preset, SizesByOtherNames) {
  const auto config = [](const std::string& type, const std::string& keys) {
    return "{" + keys + "\"model_type\": \"" + type + "\", \"vocab_size\": 40}";
  };
  const Description opt = Describe(config("opt", "\"word_embed_proj_dim\": null, "));
  EXPECT_EQ(opt.model.d_model, 768);
  EXPECT_EQ(opt.ends.position_offset, 2);
  EXPECT_NE(ErrorFor(DiagKind::Unsupported, config("opt", "\"word_embed_proj_dim\": 512, ")).find("equal to d_model"),
            std::string::npos);
  ErrorFor(DiagKind::Unsupported, config("opt", "\"do_layer_norm_before\": false, "));
  ErrorFor(DiagKind::Unsupported, config("opt", "\"_remove_final_layer_norm\": true, "));
  EXPECT_EQ(IntOf(Describe(config("gptj", "")), 0, "position.rotary_dim"), 64);
  ErrorFor(DiagKind::BadValue, config("gptj", "\"rotary_dim\": null, "));
  ErrorFor(DiagKind::Unsupported, config("gptj", "\"scale_attn_weights\": false, "));
  Describe(config("codegen", ""));
  ErrorFor(DiagKind::BadValue, config("codegen", "\"auto_map\": {\"AutoModelForCausalLM\": \"a.B\"}, "));
  const std::string two = "\"num_layers\": 2, \"attention_layers\": [\"global\", \"local\"], ";
  const Description neo = Describe(config("gpt_neo", two));
  EXPECT_EQ(IntOf(neo, 0, "attention.window"), 0);
  EXPECT_EQ(IntOf(neo, 1, "attention.window"), 256);
  EXPECT_NE(ErrorFor(DiagKind::BadValue, config("gpt_neo", "\"attention_types\": [[[\"global\"], 24]], "))
                .find("attention_layers"),
            std::string::npos);
  EXPECT_EQ(IntOf(Describe(config("gpt_bigcode", "")), 0, "attention.n_kv_heads"), 1);
  EXPECT_EQ(IntOf(Describe(config("gpt_bigcode", "\"multi_query\": false, ")), 0, "attention.n_kv_heads"), 12);
}

TEST(Preset, UnknownKeys) {
  // A stem of arithmetic: refused, unless it has no value or is let through.
  std::string message = ErrorFor(DiagKind::UnknownKey, TinyConfig("llama", "\"logit_scale\": 0.5, "));
  EXPECT_NE(message.find("config.json:1:2: error: logit_scale = 0.5"), std::string::npos) << message;
  EXPECT_NE(message.find("\"scal\""), std::string::npos) << message;
  Describe(TinyConfig("llama", "\"logit_scale\": 0.5, "), {"logit_scale"});
  for (const char* empty : {"null", "false", "\"\"", "[]", "{}"})
    Describe(TinyConfig("llama", "\"logit_scale\": " + std::string(empty) + ", "));
  for (const char* key :
       {"final_logit_softcapping", "num_experts", "ROPE_extra", "embedding_multiplier", "attn_gate"}) {
    ErrorFor(DiagKind::UnknownKey, TinyConfig("llama", "\"" + std::string(key) + "\": 2, "));
  }
  // Refused by name, whatever the stem.
  EXPECT_NE(ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"quantization_config\": {\"bits\": 4}, "))
                .find("quantised"),
            std::string::npos);
  Describe(TinyConfig("llama", "\"quantization_config\": {\"bits\": 4}, "), {"quantization_config"});
  // Others: a warning; known harmless ones: nothing.
  std::vector<Diag> warnings;
  Describe(TinyConfig("llama", "\"my_note\": \"x\", \"attention_dropout\": 0.1, \"use_cache\": true, "), {}, &warnings);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].message.find("my_note"), std::string::npos);
}

// CASES G02: a key's neutral value is listed with the key, and nothing else passes.
TEST(Preset, FlagsWhoseMeaningfulValueIsFalseOrZero) {
  for (const char* key : {"is_causal", "causal", "scale_attn_weights"}) {
    const std::string name = "\"" + std::string(key) + "\": ";
    Describe(TinyConfig("llama", name + "true, "));
    for (const char* other : {"false", "null", "0", "\"\"", "[]"})
      ErrorFor(DiagKind::Unsupported, TinyConfig("llama", name + other + ", "));
  }
  Describe(TinyConfig("llama", "\"is_encoder_decoder\": null, "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"is_encoder_decoder\": 0, "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"partial_rotary_factor\": 0, "));

  // A written zero of a size is refused at its place; it isn't a size left out.
  auto refused = [&](const std::string& config, const std::string& text) {
    const std::string message = ErrorFor(DiagKind::BadValue, config);
    EXPECT_NE(message.find(text), std::string::npos) << message;
    EXPECT_EQ(message.substr(0, 14), "config.json:1:") << message;
  };
  refused(TinyConfig("llama", "\"head_dim\": 0, "), "attention.d_head is 0 (key head_dim)");
  std::string config = TinyConfig("llama");
  config.replace(config.find("\"vocab_size\": 40"), 16, "\"vocab_size\": 0");
  refused(config, "vocab is 0 (key vocab_size)");
  config = TinyConfig("llama");
  config.replace(config.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 0");
  refused(config, "attention.n_kv_heads is 0 (key num_key_value_heads)");
  // transformers multiplies by a factor of zero.
  const std::string yarn = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, \"attention_factor\": ";
  EXPECT_EQ(DoubleOf(Describe(TinyConfig("llama", yarn + "0.0}, ")), 0, "position.attention_factor"), 0.0);
  EXPECT_NE(DoubleOf(Describe(TinyConfig("llama", yarn + "null}, ")), 0, "position.attention_factor"), 0.0);
}

// CASES G03: a factor without its type.
TEST(Preset, AFactorNeedsItsType) {
  ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"rope_scaling\": {\"factor\": 2.0}, "));
  ErrorFor(DiagKind::Unsupported, TinyConfig("llama", "\"rope_parameters\": {\"factor\": 2.0, \"rope_theta\": 2.0}, "));
  Describe(TinyConfig("llama", "\"rope_scaling\": {\"factor\": 2.0, \"rope_type\": \"default\"}, "));
}

// CASES G04: activations, limits, multipliers by any name.
TEST(Preset, ArithmeticByAnyName) {
  for (const char* key : {"hidden_activation", "act_fn", "swiglu_limit", "mlp_multiplier", "qkv_bias", "residual_x"})
    ErrorFor(DiagKind::UnknownKey, TinyConfig("llama", "\"" + std::string(key) + "\": \"gelu_pytorch_tanh\", "));
}

// CASES I05: Python's numbers beyond JSON's are read, and refused where they would matter.
TEST(Preset, NanInAConfig) {
  test::TempDir dir;
  auto describe = [&](const std::string& keys) {
    ModelOptions options;
    options.model = dir.Write("config.json", TinyConfig("llama", keys));
    return DescribeModel(options);
  };
  const std::string plain = describe("");
  EXPECT_EQ(describe("\"my_note\": NaN, \"other\": [Infinity, -Infinity,NaN], \"text\": \"NaN, \\\" Infinity\", "),
            plain);
  for (const char* bad : {"NaN", "Infinity", "-Infinity"}) {
    const std::string value = bad;
    const std::string message = ErrorOf(DiagKind::BadValue, [&] { describe("\"rms_norm_eps\": " + value + ", "); });
    EXPECT_NE(message.find("norm.eps must be a finite number, is " + value), std::string::npos) << message;
    ErrorOf(DiagKind::BadValue, [&] { describe("\"head_dim\": " + value + ", "); });
    ErrorOf(DiagKind::UnknownKey, [&] { describe("\"logit_scale\": " + value + ", "); });
  }
  ErrorOf(DiagKind::SyntaxError, [&] { describe("\"x\": NaNs, "); });
  ErrorOf(DiagKind::SyntaxError, [&] { describe("\"x\": nan, "); });
  ErrorOf(DiagKind::SyntaxError, [&] { describe("NaN: 1, "); });
}

// Models whose states recur: what is refused, and where a wrapped model's tensors stand.
TEST(Preset, StatesThatRecur) {
  const auto changed = [](const std::string& golden, const std::string& from, const std::string& to) {
    std::string text = test::ReadBytes(test::kData + "golden/" + golden + "/config.json");
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << golden << ": " << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  ErrorFor(DiagKind::BadValue, changed("granitehybrid-dense", "{", "{\"time_step_limit\": [0.9, 0.1],"));
  ErrorFor(DiagKind::Unsupported, changed("granitehybrid-dense", "\"mamba\"", "\"other\""));
  const auto head = [&](const char* d) {
    return changed("granitehybrid-dense", "\"mamba_d_head\": 8", std::string("\"mamba_d_head\": ") + d);
  };
  for (const char* d : {"-1", "0", "\"x\"", "7", "1e308"}) ErrorFor(DiagKind::Unsupported, head(d));
  test::Describe(head("\"auto\""));
  ErrorFor(DiagKind::Unsupported, changed("qwen3next-sparse", "\"mlp_only_layers\": []", "\"mlp_only_layers\": [1]"));
  ErrorFor(DiagKind::Unsupported,
           changed("qwen3next-sparse", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"));
  ErrorFor(DiagKind::Unsupported, changed("qwen3_5-linear", "{", "{\"attn_output_gate\": false,"));
  ErrorFor(DiagKind::Unsupported, changed("lfm2-layers", "\"conv\"", "\"sliding_attention\""));
  ErrorFor(DiagKind::Unsupported, changed("lfm2-layers", "{", "{\"block_use_swiglu\": false,"));

  const std::string inner = changed("qwen3_5moe-sparse", "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForCausalLM");
  EXPECT_EQ(Describe(inner).tensors.at("b{i}.w_gate_exps").from, "model.layers.{i}.mlp.experts.{e}.gate_proj.weight");
  const Description wrapped = Describe(
      R"({"model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": )" +
      inner + "}");
  const TensorRule& gate = wrapped.tensors.at("b{i}.w_gate_exps");
  EXPECT_EQ(gate.from, "model.layers.{i}.mlp.experts.gate_up_proj");
  EXPECT_EQ(gate.parts, (std::vector<std::string>{"w_gate_exps", "w_up_exps"}));
  EXPECT_EQ(gate.others, std::vector<std::string>{"model.language_model.layers.{i}.mlp.experts.gate_up_proj"});
}

// No family's name may stand in the front end's code: what differs between families is data. (Pre-tokenizers are
// choices that go by such names.)
// CASES A04: yarn's corrections of the cosines and of the scale; the factor is of the heads' whole width.
TEST(Preset, LatentAttentionsScale) {
  const auto config = [](const char* name) {
    return Describe(test::ReadBytes(test::kData + "configs/" + name + ".json"), {"quantization_config"});
  };
  const Description lite = config("DeepSeek-V2-Lite"), v3 = config("DeepSeek-V3"), flash = config("GLM-4.7-Flash");
  EXPECT_NEAR(DoubleOf(lite, 0, "mla.scale"), 0.114721, 1e-6);
  EXPECT_EQ(DoubleOf(lite, 0, "position.attention_factor"), 1.0);
  EXPECT_NEAR(DoubleOf(v3, 0, "mla.scale"), 0.135234, 1e-6);
  EXPECT_EQ(DoubleOf(flash, 0, "mla.scale"), 0.0625);
  EXPECT_EQ(DoubleOf(flash, 0, "norm.eps"), 1e-5);
  EXPECT_EQ(DoubleOf(flash, 0, "mla.eps"), 1e-6);
  EXPECT_EQ(v3.BlockOf(3).ffn->kind(), "experts");
  EXPECT_EQ(v3.BlockOf(2).ffn->kind(), "gated");
  ErrorOf(DiagKind::Unsupported,
          [] { Describe(TinyConfig("deepseek_v2", R"("topk_method": "noaux_tc", "num_experts_per_tok": 2, )")); });
  ErrorOf(DiagKind::Unsupported, [] { Describe(TinyConfig("deepseek_v3", R"("scoring_func": "softmax", )")); });
  ErrorOf(DiagKind::Unsupported, [] { Describe(TinyConfig("deepseek_v3")); });  // two kv heads of four
}

// CASES A05: the short list and its factor, up to the original length and no further: beyond it old keys would have to
// be turned again.
TEST(Preset, LongropeEndsAtTheOriginalLength) {
  const Description phi = Describe(test::ReadBytes(test::kData + "configs/Phi-3-mini-128k-instruct.json"));
  EXPECT_EQ(phi.model.max_context, 4096);
  EXPECT_EQ(phi.BlockOf(0).position->LongestContext(phi.model.max_context), 4096);
  EXPECT_NEAR(DoubleOf(phi, 0, "position.attention_factor"), 1.190238, 1e-6);
  const Json config = test::ReadJson(test::kData + "configs/Phi-3-mini-128k-instruct.json");
  const std::vector<Json> list = config.Find("rope_scaling").Find("short_factor").items();
  const std::vector<double>& divisors = phi.tensors.at("rope_divisors").values;
  ASSERT_EQ(divisors.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(divisors[i], list[i].AsDouble());
}

// CASES A07: a factor stretches full layers alone, and windowed ones have a theta of their own.
TEST(Preset, Gemma3StretchesFullLayersAlone) {
  const Description d =
      Describe(R"({"model_type": "gemma3_text", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 18,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "sliding_window": 8,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  for (int64_t i = 0; i < 18; ++i) {
    const bool full = i == 5 || i == 11 || i == 17;
    EXPECT_EQ(IntOf(d, i, "attention.window"), full ? 0 : 8) << i;
    EXPECT_EQ(DoubleOf(d, i, "position.theta"), full ? 1e6 : 1e4) << i;
    EXPECT_EQ(DoubleOf(d, i, "position.factor"), full ? 8 : 1) << i;
    EXPECT_EQ(TextOf(d, i, "position.scaling"), full ? "linear" : "none") << i;
  }
}

// Layers that share read a cache of their own type; proportional rope counts over the whole head; the last layer is full.
TEST(Preset, Gemma4LayersByTheirTypes) {
  const Description d = Describe(test::ReadBytes(test::kData + "configs/gemma-4-E2B-it.json"));
  EXPECT_EQ(CacheLayerOf(d, 14), -1);
  EXPECT_EQ(CacheLayerOf(d, 15), 13);
  EXPECT_EQ(CacheLayerOf(d, 19), 14);
  EXPECT_EQ(CacheLayerOf(d, 34), 14);
  EXPECT_EQ(IntOf(d, 0, "attention.d_head"), 256);
  EXPECT_EQ(IntOf(d, 4, "attention.d_head"), 512);
  EXPECT_EQ(IntOf(d, 4, "position.turning"), 64);
  EXPECT_EQ(IntOf(d, 0, "position.turning"), 0);
  EXPECT_EQ(IntOf(d, 14, "ffn.d_ff"), 6144);
  EXPECT_EQ(IntOf(d, 15, "ffn.d_ff"), 12288);
  EXPECT_EQ(d.ends.logit_cap, 30);
  ErrorFor(DiagKind::Unsupported, TinyConfig("gemma4_text", R"("enable_moe_block": true, )"));
  ErrorFor(DiagKind::BadValue,
           TinyConfig("gemma4_text", R"("rope_parameters": {"full_attention": {"partial_rotary_factor": 0.0}}, )"));
  ErrorFor(DiagKind::BadValue, TinyConfig("gemma4_text", R"("per_layer_config": {"0": {"head_dim": 8}}, )"));
  ErrorFor(DiagKind::BadValue,
           TinyConfig("gemma4_text", R"("num_kv_shared_layers": 1, )"));  // no full layer has a cache
}

TEST(Preset, NoFamilyInCode) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(LLMC_SOURCE_DIR) + "/frontend")) {
    std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h" && extension != ".def") continue;
    if (entry.path().filename().string().starts_with("tokenizer")) continue;
    std::string text = test::ReadBytes(entry.path().string());
    for (const std::string& name : PresetNames()) {
      EXPECT_FALSE(std::regex_search(text, std::regex("\\b" + name + "\\b", std::regex::icase)))
          << entry.path() << " has " << name;
    }
  }
}

}  // namespace
}  // namespace llmc
