// The figures of `describe --report`: two models whose parameters, cache bytes and multiply-adds were counted by hand.
#include "frontend/report.h"

#include <string>

#include <gtest/gtest.h>

#include "frontend/build_module.h"
#include "frontend/frontend.h"
#include "tests/frontend/support.h"

namespace llmc {
namespace {

ModelFigures Figures(const std::string& config, int64_t context, int64_t prefill) {
  Description d = test::Describe(config);
  BoundWeights weights = UnboundWeights(d);
  BuildOptions options;
  options.context = context;
  options.chunk = 1;
  return FiguresOf(d, weights, BuildModule(d, weights, options), prefill);
}

// vocab 40, d 16, 2 layers, 4 heads, 2 KV heads, FFN 24.
TEST(Report, TinyAnchor) {
  ModelFigures f = Figures(test::TinyConfig("llama"), 64, 10);
  EXPECT_EQ(f.kv_bytes_per_token, 64);
  EXPECT_EQ(f.first_token.weight_macs, 4480);
  // A key and a value of 4 for each of 4 heads and 2 layers.
  EXPECT_EQ(f.first_token.attention_macs, 2 * 4 * 4 * 2);
  // In the last layer what stands behind the attention (output projection, feed-forward) works for the last row alone.
  EXPECT_EQ(f.prefill.weight_macs, 10 * (2 * 768 + 1152 - 256) + 256 + 1152 + 640);
  EXPECT_EQ(f.parameters, 40 * 16 * 2 + 2 * (768 + 1152 + 32) + 16);
  EXPECT_EQ(f.weight_bytes, f.parameters * 4);
}

TEST(Report, LargeAnchor) {
  ModelFigures f = Figures(
      "{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 2048, \"num_hidden_layers\": 22, "
      "\"num_attention_heads\": 32, "
      "\"num_key_value_heads\": 8, \"intermediate_size\": 5632, \"max_position_embeddings\": 2048}",
      2048, 512);
  ASSERT_EQ(f.blocks.size(), 1U);
  EXPECT_EQ(f.blocks[0].total(), 45'092'864);        // 45.1M
  EXPECT_EQ(f.blocks[0].total() * 22, 992'043'008);  // 992M
  EXPECT_EQ(f.blocks[0].kv_bytes_per_token, 2048);
}

TEST(Report, Text) {
  test::TempDir dir;
  ModelOptions options;
  options.model = dir.Write("config.json", test::TinyConfig("llama", "\"tie_word_embeddings\": true, "));
  std::string text = ReportModel(options, 512);
  EXPECT_NE(text.find("cache per token                                        64  bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("4,480 with weights"), std::string::npos) << text;
  EXPECT_NE(text.find("tied"), std::string::npos) << text;
  EXPECT_NE(text.find("prefill of 64"), std::string::npos) << text;  // the context is shorter than 512
}

TEST(Report, MixedLayers) {
  ModelFigures f = Figures(
      test::TinyConfig("qwen2", "\"sliding_window\": 3, \"use_sliding_window\": true, \"max_window_layers\": 1, "), 64,
      1);
  ASSERT_EQ(f.blocks.size(), 2U);
  EXPECT_EQ(f.blocks[0].layers, 1);
  EXPECT_EQ(f.blocks[1].total(), f.blocks[0].total());
}

}  // namespace
}  // namespace llmc
