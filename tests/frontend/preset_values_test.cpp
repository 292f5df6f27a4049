// What presets make of odd values, and what messages call them.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontend/preset.h"
#include "tests/frontend/support.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using test::Describe;
using test::DoubleOf;
using test::ErrorOf;
using test::FieldOf;
using test::IntOf;
using test::TextOf;
using test::TinyConfig;

std::string ErrorFor(DiagKind kind, const std::string& config) {
  return ErrorOf(kind, [&] { Describe(config); });
}

// Sizes that a computation would swallow, and what messages call them.
TEST(PresetValues, SizesAreWholeNumbers) {
  const auto refused = [](const std::string& config, const std::string& says) {
    const std::string message = ErrorFor(DiagKind::BadValue, config);
    EXPECT_NE(message.find(says), std::string::npos) << message;
  };
  for (const char* value : {"-8", "1.5", "0"}) {
    const std::string is = std::string("must be an integer of at least 1, is ") + value;
    refused(TinyConfig("lfm2", fmt::format("\"block_ff_dim\": {}, ", value)), "block_ff_dim " + is);
    refused(TinyConfig("lfm2", fmt::format("\"block_multiple_of\": {}, ", value)), "block_multiple_of " + is);
  }
  for (const char* family : {"deepseek_v2", "deepseek_v3", "glm4_moe"}) {
    for (const char* value : {"1.5", "-1"})
      refused(TinyConfig(family, fmt::format("\"num_experts_per_tok\": 2, \"n_shared_experts\": {}, ", value)),
              fmt::format("n_shared_experts must be an integer of at least 0, is {}", value));
  }
  const std::string message =
      ErrorFor(DiagKind::BadValue, TinyConfig("glm4_moe", R"("head_dim": 8, "partial_rotary_factor": 0.4, )"));
  EXPECT_NE(message.find("position.rotary_dim is 3, must be even"), std::string::npos) << message;
  EXPECT_NE(message.find("note: position.rotary_dim comes from head_dim, hidden_size, num_attention_heads, "
                         "partial_rotary_factor"),
            std::string::npos)
      << message;
  // A plain key too.
  refused(TinyConfig("deepseek_v2", R"("num_experts_per_tok": 2, "q_lora_rank": -1, )"),
          "mla.q_lora comes from q_lora_rank");
  refused(TinyConfig("deepseek_v2", R"("num_experts_per_tok": 2, "q_lora_rank": -1, )"), "must be 0 (none) to");
}

// What describe prints is input: also of layers whose mixer has no positions, whatever their block's position says.
TEST(PresetValues, DescriptionsAreInput) {
  for (const char* golden : {"granitehybrid-dense", "lfm2-layers", "qwen3_5-linear"}) {
    SCOPED_TRACE(golden);
    const std::string text =
        PrintDescription(Describe(test::ReadBytes(test::kData + "golden/" + golden + "/config.json")));
    EXPECT_EQ(PrintDescription(ReadDescription(ParseJson(text, "d.json"), "d.json")), text);
  }
}

// The text part's object, missing or none; the list of what there is.
TEST(PresetValues, TextConfigThatIsNoObject) {
  std::string message = ErrorFor(DiagKind::BadValue, R"({"model_type": "gemma3", "text_config": 0})");
  EXPECT_NE(message.find("text_config must be an object, is 0"), std::string::npos) << message;
  message = ErrorFor(DiagKind::MissingKey, R"({"model_type": "gemma3"})");
  EXPECT_NE(message.find("text_config is missing"), std::string::npos) << message;
  message = ErrorFor(DiagKind::UnknownArchitecture, R"({"model_type": "gemma33"})");
  for (const char* type : {" gemma3,", " gemma3_text,", " qwen3_5_moe,"})
    EXPECT_NE(message.find(type), std::string::npos) << type << message;
  EXPECT_EQ(message.find("wrapped"), std::string::npos) << message;
}

// Experts' codes and exponents, and what an absent rope means to the class.
TEST(PresetValues, ExpertsInMxfp4) {
  const Description d = Describe(test::ReadBytes(test::kData + "configs/gpt-oss-20b.json"));
  EXPECT_EQ(IntOf(d, 0, "attention.window"), 128);
  EXPECT_EQ(IntOf(d, 1, "attention.window"), 0);
  EXPECT_EQ(IntOf(d, 0, "ffn.used"), 4);
  EXPECT_EQ(DoubleOf(d, 0, "position.factor"), 32);
  EXPECT_FALSE(FieldOf(d, 0, "position.truncate").boolean);
  EXPECT_EQ(d.tensors.at("b{i}.w_up_exps").groups, "ffn.count * ffn.d_ff");
  const std::string sizes =
      R"("head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 32, )"
      R"("hidden_size": 32, )";
  const auto config = [&](const std::string& keys) {
    return "{" + keys + sizes +
           R"("model_type": "gpt_oss", "vocab_size": 40, "num_hidden_layers": 2, )"
           R"("num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64})";
  };
  const Description own = Describe(config(""));
  EXPECT_EQ(TextOf(own, 0, "position.scaling"), "yarn");
  EXPECT_EQ(IntOf(own, 0, "position.original"), 4096);
  EXPECT_EQ(DoubleOf(own, 0, "position.theta"), 150000);
  const Description plain = Describe(config(R"("rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, )"));
  EXPECT_EQ(TextOf(plain, 0, "position.scaling"), "none");
  ErrorFor(DiagKind::Unsupported, config(R"("quantization_config": {"quant_method": "fp8"}, )"));
  ErrorFor(DiagKind::UnknownKey, config(R"("quantization_config": {"quant_method": "mxfp4", "group_size": 16}, )"));
  ErrorFor(DiagKind::Unsupported, config(R"("hidden_act": "gelu", )"));
  ErrorFor(DiagKind::BadValue, config(R"("experts_per_token": 3, )"));
  ErrorFor(DiagKind::MissingKey, config(R"("rope_scaling": {"rope_type": "yarn"}, )"));
}

// A list has as many entries as its meaning has parts, and a number that isn't used is not passed over.
TEST(PresetValues, ListsAreWhole) {
  const auto changed = [](const std::string& golden, const std::string& key, const std::string& value) {
    std::string text = test::ReadBytes(test::kData + "golden/" + golden + "/config.json");
    const size_t at = text.find("\"" + key + "\": [");
    EXPECT_NE(at, std::string::npos) << golden << ": " << key;
    const size_t begin = text.find('[', at), end = text.find(']', begin);
    return text.replace(begin, end + 1 - begin, value);
  };
  for (const char* value : {"[0.75, 1.25]", "[]", "[1, 1, 1, 1, 1, 1]", "7"})
    ErrorFor(DiagKind::BadValue, changed("falconh1-normed", "ssm_multipliers", value));
  ErrorFor(DiagKind::BadValue, changed("falconh1-normed", "mlp_multipliers", "[0.5]"));
  ErrorFor(DiagKind::BadValue, changed("falconh1-normed", "time_step_limit", "[0.3]"));
  ErrorFor(DiagKind::BadValue, changed("hunyuanmoe-alpha", "moe_topk", "[2, 2, 2]"));
  ErrorFor(DiagKind::Unsupported, changed("hunyuanmoe-alpha", "moe_topk", "[0, 2]"));
  Describe(changed("hunyuanmoe-alpha", "moe_topk", "2"));
  // Every layer attends: nothing has the size that a key repeats.
  Describe(changed("bamba-listed", "attn_layer_indices", "[0, 1, 2]"));
  std::string alone = test::ReadBytes(test::kData + "golden/hunyuanmoe-alpha/config.json");
  alone.replace(alone.find("\"type\": \"dynamic\","), 18, "");
  ErrorFor(DiagKind::Unsupported, alone);
}

}  // namespace
}  // namespace llmc
