// GGUF files: the same models as Hugging Face's, keys that are refused, values that readers pass over.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/frontend/loader.h"
#include "tests/frontend/support.h"

namespace llmc {
namespace {

using test::Describe;
using test::ErrorFor;
using test::kTokens;
using test::Loader;
using test::StTensor;
using test::TempDir;
using test::TensorsFor;
using test::TinyConfig;
using test::WriteModel;

// The tiny model as a GGUF file: q and k rows of each head reordered so that interleaved pairs rotate as the halves
// did.
std::string PairRows(const std::string& data, size_t row_bytes, size_t d_head) {
  std::string out;
  size_t rows = data.size() / row_bytes;
  for (size_t head = 0; head < rows / d_head; ++head) {
    for (size_t i = 0; i < d_head; ++i) {
      size_t from = head * d_head + i / 2 + (i % 2) * (d_head / 2);
      out += data.substr(from * row_bytes, row_bytes);
    }
  }
  return out;
}

test::GgufWriter TinyGguf(const std::string& arch, const std::vector<StTensor>& tensors, bool permute) {
  test::GgufWriter w;
  w.Text("general.architecture", arch)
      .U32(arch + ".embedding_length", 16)
      .U32(arch + ".block_count", 2)
      .U32(arch + ".context_length", 64);
  w.U32(arch + ".attention.head_count", 4)
      .U32(arch + ".attention.head_count_kv", 2)
      .U32(arch + ".feed_forward_length", 24);
  w.F32(arch + ".attention.layer_norm_rms_epsilon", 1e-6F)
      .U32(arch + ".rope.dimension_count", 4)
      .F32(arch + ".rope.freq_base", 10000.0F);
  const std::vector<std::pair<std::string, std::string>> names = {{"model.embed_tokens.", "token_embd."},
                                                                  {"model.norm.", "output_norm."},
                                                                  {"lm_head.", "output."},
                                                                  {"model.layers.", "blk."},
                                                                  {"input_layernorm", "attn_norm"},
                                                                  {"self_attn.q_proj", "attn_q"},
                                                                  {"self_attn.k_proj", "attn_k"},
                                                                  {"self_attn.v_proj", "attn_v"},
                                                                  {"self_attn.o_proj", "attn_output"},
                                                                  {"post_attention_layernorm", "ffn_norm"},
                                                                  {"mlp.gate_proj", "ffn_gate"},
                                                                  {"mlp.up_proj", "ffn_up"},
                                                                  {"mlp.down_proj", "ffn_down"}};
  for (const StTensor& t : tensors) {
    std::string name = t.name;
    for (const auto& [from, to] : names) {
      if (size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    }
    bool rotates = name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos;
    std::string data =
        permute && rotates ? PairRows(t.data, t.data.size() / static_cast<size_t>(t.dims[0]), 4) : t.data;
    w.tensors.push_back({name, {t.dims.rbegin(), t.dims.rend()}, 0, data});
  }
  return w;
}

// The path of tiny Llama as a GGUF file in which `change` has changed something.
template <typename F>
std::string TinyLlamaWith(const TempDir& dir, const std::vector<StTensor>& tensors, F change) {
  test::GgufWriter w = TinyGguf("llama", tensors, true);
  change(w);
  return dir.Write("m.gguf", w.File());
}

TEST(LoadGguf, EqualsTheHfModel) {
  for (const char* family : {"llama", "qwen2"}) {
    TempDir dir;
    std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig(family)));
    WriteModel(dir, TinyConfig(family), tensors);
    bool permute = std::string(family) == "llama";
    std::vector<float> hf = Loader(dir.path()).Logits();
    std::vector<float> gguf = Loader(dir.Write("m.gguf", TinyGguf(family, tensors, permute).File())).Logits();
    ASSERT_EQ(hf.size(), gguf.size());
    // Permuted rows change the order of sums in the scores; everything else is the same.
    for (size_t i = 0; i < hf.size(); ++i) EXPECT_NEAR(hf[i], gguf[i], permute ? 1e-5F : 0.0F);
  }
}

TEST(LoadGguf, AnyAlignmentGivesTheSameModel) {
  TempDir dir;
  std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama")));
  std::vector<float> expected = Loader(dir.Write("m.gguf", TinyGguf("llama", tensors, true).File())).Logits();
  for (uint32_t alignment : {8U, 64U, 4096U}) {
    test::GgufWriter w = TinyGguf("llama", tensors, true);
    w.U32("general.alignment", alignment);
    w.alignment = alignment;
    EXPECT_EQ(Loader(dir.Write("a.gguf", w.File())).Logits(), expected) << alignment;
  }
}

TEST(LoadGguf, HeadAndBiasesByTensors) {
  TempDir dir;
  Description tied = Describe(TinyConfig("llama", "\"tie_word_embeddings\": true, \"attention_bias\": true, "));
  ModelOptions options;
  options.model = dir.Write("m.gguf", TinyGguf("llama", TensorsFor(tied), true).File());
  std::string text = DescribeModel(options);
  EXPECT_NE(text.find("\"tied\": true"), std::string::npos);
  EXPECT_NE(text.find("\"bias\": \"qkvo\""), std::string::npos);
  EXPECT_NE(text.find("\"pairs\": \"interleaved\""), std::string::npos);
  // The printed description with the file's weights is the same model.
  Loader own(dir.Write("own.json", text));
  own.options.weights = options.model;
  EXPECT_EQ(own.Logits(), Loader(options.model).Logits());
}

TEST(LoadGguf, KeysThatAreRefused) {
  TempDir dir;
  const std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama")));
  const auto with = [&](auto change) { return TinyLlamaWith(dir, tensors, change); };
  using W = test::GgufWriter;
  ErrorFor(DiagKind::UnknownKey, with([](W& w) { w.U32("llama.attention.sliding_window", 8); }));
  ErrorFor(DiagKind::Unsupported, with([](W& w) { w.U32("llama.expert_count", 8); }));
  Loader(with([](W& w) { w.U32("llama.expert_count", 0); })).Load();
  ErrorFor(DiagKind::Unsupported, with([](W& w) { w.Text("llama.rope.scaling.type", "longrope"); }));
  ErrorFor(DiagKind::Unsupported, with([](W& w) { w.U32("llama.vocab_size", 41); }));
  ErrorFor(DiagKind::Unsupported, with([](W& w) { w.U32("llama.attention.value_length", 5); }));
  ErrorFor(DiagKind::BadValue, with([](W& w) { w.Text("llama.attention.key_length", "x"); }));
  Loader(with([](W& w) { w.Text("general.name", "scale rope").Text("tokenizer.ggml.pre", "x"); })).Load();
  EXPECT_NE(ErrorFor(DiagKind::UnusedTensor, with([](W& w) { w.tensors.push_back({"extra.bias", {1}, 0, "data"}); }))
                .find("extra.bias"),
            std::string::npos);
  ErrorFor(DiagKind::UnknownArchitecture, dir.Write("x.gguf", W().Text("general.architecture", "mamba").File()));
  ErrorFor(DiagKind::MissingKey, dir.Write("x.gguf", W().File()));
  ErrorFor(DiagKind::MissingTensor, dir.Write("x.gguf", W().Text("general.architecture", "llama").File()));
}

// CASES G02 and G03 in GGUF files.
TEST(LoadGguf, ValuesThatSomeReadersPassOver) {
  TempDir dir;
  const std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama")));
  const auto with = [&](auto change) { return TinyLlamaWith(dir, tensors, change); };
  using W = test::GgufWriter;
  Loader(with([](W& w) { w.Flag("llama.attention.causal", true); })).Load();
  ErrorFor(DiagKind::Unsupported, with([](W& w) { w.Flag("llama.attention.causal", false); }));
  ErrorFor(DiagKind::BadValue, with([](W& w) { w.U32("llama.attention.key_length", 0); }));
  // A factor without a type is linear, as the format's own reader takes it.
  auto scaling = [&](const std::string& path) {
    ModelOptions options;
    options.model = path;
    const std::string text = DescribeModel(options);
    const size_t at = text.find("\"scaling\": \"") + 12;
    return text.substr(at, text.find('"', at) - at);
  };
  EXPECT_EQ(scaling(with([](W& w) { w.F32("llama.rope.scaling.factor", 2.0F); })), "linear");
  EXPECT_EQ(
      scaling(with([](W& w) { w.F32("llama.rope.scaling.factor", 2.0F).Text("llama.rope.scaling.type", "none"); })),
      "none");
  ErrorFor(DiagKind::BadValue, with([](W& w) {
             w.F32("llama.rope.scaling.factor", 2.0F);
             w.tensors.push_back({"rope_freqs.weight", {2}, 0, std::string(8, '\1')});
           }));
}

TEST(LoadGguf, WeightsFromElsewhere) {
  TempDir dir;
  std::vector<StTensor> tensors = TensorsFor(Describe(TinyConfig("llama")));
  WriteModel(dir, TinyConfig("llama"), tensors);
  std::string gguf = dir.Write("m.gguf", TinyGguf("llama", tensors, true).File());
  Loader hf(dir.path());
  hf.options.weights = gguf;
  EXPECT_THROW(hf.Load(), UsageError);
  Loader other(gguf);
  other.options.weights = dir / "model.safetensors";
  EXPECT_THROW(other.Load(), UsageError);
  other.options.weights = "random:3";
  EXPECT_EQ(other.Logits().size(), kTokens.size() * 40);
}

}  // namespace
}  // namespace llmc
