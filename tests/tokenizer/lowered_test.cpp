// Tokenizer files from end to end where PyPI's tokenizers is no oracle: GGUF metadata, corner cases by hand, and
// LoadModel's part.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

namespace llmc {
namespace {

using Ids = std::vector<int32_t>;

std::string HfText(const std::string& model, const std::string& added = "[]") {
  return R"({"added_tokens": )" + added +
         R"(, "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
            "post_processor": null, "decoder": {"type": "ByteLevel"}, "model": )" +
         model + "}";
}
LoweredTokenizer LowerText(const std::string& text) {
  return LowerHfTokenizer({{"tokenizer.json", text}, {"", ""}}, 0);
}

// C02: absent means false; only the whole piece is looked up.
TEST(LoweredTokenizer, IgnoreMerges) {
  const std::string vocabulary = R"("vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4}, "merges": ["a b"]})";
  const std::string on = LowerText(HfText(R"({"type": "BPE", "ignore_merges": true, )" + vocabulary)).section;
  const std::string off = LowerText(HfText(R"({"type": "BPE", )" + vocabulary)).section;
  EXPECT_EQ(Tokenizer(on).Encode("abc"), Ids({4}));
  EXPECT_EQ(Tokenizer(off).Encode("abc"), Ids({2, 3}));
  EXPECT_EQ(Tokenizer(on).Encode("abcabc"), Ids({2, 3, 2, 3}));
  EXPECT_EQ(Tokenizer(off).Encode("abcabc"), Ids({2, 3, 2, 3}));
}

// An added token decodes to its own text. tokenizers takes its characters for the byte alphabet where it can and prints
// U+FFFD for this one.
TEST(LoweredTokenizer, AddedTokensDecodeToTheirText) {
  const std::string section = LowerText(HfText(R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})",
                                               R"([{"id": 1, "content": "é", "special": false}])"))
                                  .section;
  const Tokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.Encode("aéa"), Ids({0, 1, 0}));
  EXPECT_EQ(tokenizer.Decode(Ids({0, 1, 0})), "aéa");
}

struct Gguf {
  GgufTokenizer source;
  std::vector<std::string> texts;

  explicit Gguf(std::string_view pre) {
    source.model = "gpt2";
    source.pre = pre;
    for (int b = 0; b < 256; ++b) {
      const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      std::string text;
      AppendUtf8(text, itself ? static_cast<uint32_t>(b) : next_++);
      texts.push_back(text);
    }
    source.token_type.assign(256, 1);
  }
  int32_t Add(const std::string& text, int64_t type) {
    texts.push_back(text);
    source.token_type.push_back(type);
    return static_cast<int32_t>(texts.size()) - 1;
  }
  std::string Section() {
    source.tokens.assign(texts.begin(), texts.end());
    return LowerGgufTokenizer(source, "m.gguf", 0).section;
  }

 private:
  uint32_t next_ = 0x100;
};

Ids Bytes(std::string_view text) {
  Ids out;
  for (const char c : text) out.push_back(static_cast<uint8_t>(c));
  return out;
}

TEST(LoweredTokenizer, GgufTokenTypes) {
  Gguf g("qwen2");
  const int32_t control = g.Add("<|im_end|>", 3), user = g.Add("<think>", 4), padding = g.Add("[PAD258]", 5);
  const std::string section = g.Section();
  const Tokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.Encode("<think><|im_end|>"), Ids({user, control}));
  EXPECT_EQ(tokenizer.Encode("[PAD258]"), Bytes("[PAD258]"));
  EXPECT_EQ(tokenizer.Decode(Ids({padding, user, 'a'})), "<think>a");
  EXPECT_TRUE(tokenizer.IsSpecial(control));
  EXPECT_FALSE(tokenizer.IsSpecial(user));
  const Ids plain = tokenizer.Encode("<think><|im_end|>", {.parse_special = false});
  EXPECT_EQ(plain[0], user);
  EXPECT_EQ(plain.size(), 1 + std::string("<|im_end|>").size());
}

// The family's normalizer and ignore_merges come with the name.
TEST(LoweredTokenizer, GgufFamilies) {
  for (const std::string_view pre : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    Gguf g(pre);
    const int32_t whole = g.Add("abc", 1);
    const std::string section = g.Section();
    const Tokenizer tokenizer(section);
    EXPECT_EQ(tokenizer.Encode("abc"), pre == "llama-bpe" ? Ids({whole}) : Bytes("abc")) << pre;
    EXPECT_EQ(tokenizer.Encode("e\xCC\x81"), Bytes(pre == "qwen2" ? "\xC3\xA9" : "e\xCC\x81")) << pre;
  }
}

// C10: texts that look like byte tokens are texts.
TEST(LoweredTokenizer, OddByteTokens) {
  Gguf g("gpt-2");
  Ids odd;
  for (const char* text : {"<0x-1>", "<0xGG>", "<0x1FF>", "<0x4>", "<0xFF>", ""}) odd.push_back(g.Add(text, 6));
  const std::string section = g.Section();
  const Tokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.Decode(odd), "<0x-1><0xGG><0x1FF><0x4><0xFF>");
  EXPECT_EQ(tokenizer.Encode("é<0x4>"), Bytes("é<0x4>"));
}

// Descriptions with random weights carry the directory's tokenizer like any other.
class LoadedModel : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(testing::TempDir()) / "llmc_tokenizer_model";
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    std::filesystem::copy_file(LLMC_SOURCE_DIR "/tests/data/golden/llama-mha/config.json", directory_ / "config.json");
    options_.model = directory_;
    options_.weights = "random:1";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void Write(const char* name, const std::string& text) const { std::ofstream(directory_ / name) << text; }

  std::filesystem::path directory_;
  ModelOptions options_;
};

TEST_F(LoadedModel, TokenizerAndStopIds) {
  const std::string tokenizer = HfText(R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})");
  EXPECT_TRUE(LoadModel(options_).tokenizer.empty());
  std::string with_bos = tokenizer;
  with_bos.replace(with_bos.find(R"("post_processor": null)"), 22,
                   R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}},
                      {"Sequence": {"id": "A"}}], "special_tokens": {"a": {"ids": [0]}}})");
  Write("tokenizer.json", with_bos);
  Write("tokenizer_config.json", R"({"bos_token": "a", "eos_token": "b"})");
  Model model = LoadModel(options_);
  // Tokens that the configuration names are special: the text is BOS, which isn't doubled, and EOS.
  EXPECT_EQ(Tokenizer(model.tokenizer).Encode("ab"), Ids({0, 1}));
  EXPECT_TRUE(model.generation.add_bos);
  EXPECT_EQ(model.generation.bos_id, 0);
  Ids roles;
  for (const InputHash& input : model.inputs)
    roles.push_back(input.role == "tokenizer" || input.role == "tokenizer-config" ? 1 : 0);
  EXPECT_EQ(std::count(roles.begin(), roles.end(), 1), 2);

  Write("generation_config.json", R"({"eos_token_id": [5, 9]})");
  EXPECT_EQ(LoadModel(options_).generation.stop_ids, Ids({5, 9}));
  options_.no_tokenizer = true;
  model = LoadModel(options_);
  EXPECT_TRUE(model.tokenizer.empty());
  EXPECT_EQ(model.generation.stop_ids, Ids({5, 9}));
}

// A20: an id beyond the embedding is refused at compile time.
TEST_F(LoadedModel, IdsBeyondTheEmbedding) {
  Write("tokenizer.json", HfText(R"({"type": "BPE", "vocab": {"a": 100000}, "merges": []})"));
  EXPECT_THROW(LoadModel(options_), InputError);
}

}  // namespace
}  // namespace llmc
