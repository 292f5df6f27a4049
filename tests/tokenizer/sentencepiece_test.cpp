// tokenizer.model and its companions against transformers' AutoTokenizer (tools/golden/sentencepiece_models.py): every
// id of texts and pairs by hash, decoded text, BOS and EOS, and short texts by id.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"
#include "tests/tokenizer/golden.h"

namespace llmc {
namespace {

const std::string kData = LLMC_SOURCE_DIR "/tests/data/sentencepiece/";
constexpr size_t kStep = 12;

Json ReadJson(const std::string& name) { return ParseJson(ReadTextFile(kData + name, uint64_t{1} << 20), name); }

// A folder with the files of a variant.
class Folder {
 public:
  Folder(const std::string& name, const Json& variant)
      : path_(std::filesystem::path(testing::TempDir()) / ("llmc-sentencepiece-" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    std::filesystem::copy_file(kData + std::string(variant.Find("model").AsString()) + ".model",
                               path_ / "tokenizer.model");
    for (const auto& [file, text] : variant.Find("files").members())
      std::ofstream(path_ / (std::string(file) + ".json")) << text.AsString();
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

int64_t IdOrNone(const Json& value) { return value.is(JsonKind::Null) ? -1 : value.AsInt(); }

void Compare(const std::string& name, const LoweredTokenizer& lowered, const std::vector<std::string>& texts) {
  const Tokenizer tokenizer(lowered.section);
  const std::vector<uint32_t> want = test::ReadHashes(kData + name + ".ids");
  ASSERT_EQ(want.size(), texts.size() * 4);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string shown = name + ": " + JsonQuote(texts[i]);
    auto plain = [&](bool special) {
      return tokenizer.Encode(texts[i], {.add_special = false, .parse_special = special});
    };
    for (const bool special : {true, false}) {
      const std::vector<int32_t> ids =
          test::WithSecondBos(tokenizer, plain(special), tokenizer.Encode(texts[i], {.parse_special = special}));
      EXPECT_EQ(test::Fnv(ids), want[i + (special ? 0 : texts.size())])
          << shown << (special ? "" : ", special as text") << " gives " << test::Show(ids);
      if (!special) continue;
      const std::string text = tokenizer.Decode(ids);
      // C17: the space in front goes once, at the start, also where ids come one by one.
      StreamDecoder stream(tokenizer);
      std::string streamed;
      for (const int32_t id : ids) streamed += stream.Push(id);
      EXPECT_EQ(streamed + stream.Finish(), text) << shown;
      EXPECT_EQ(test::Fnv(text.data(), text.size()), want[i + 3 * texts.size()]) << shown << " decodes to " << text;
    }
    const std::vector<int32_t> pair =
        test::WithSecondBos(tokenizer, plain(true), tokenizer.EncodePair(texts[i], texts[(i + 1) % texts.size()]).ids);
    EXPECT_EQ(test::Fnv(pair), want[i + 2 * texts.size()]) << shown << " and the next give " << test::Show(pair);
  }
}

TEST(SentencePieceGolden, EncodesAndDecodesLikeTheOracle) {
  const Json variants = ReadJson("variants.json"), cases = ReadJson("cases.json");
  const std::vector<std::string> texts = test::ReadTexts(kStep);
  ASSERT_EQ(texts.size(), 250U);
  ASSERT_GE(variants.size(), 20U);
  for (const auto& [name, variant] : variants.members()) {
    const Folder folder{std::string(name), variant};
    std::vector<InputHash> inputs;
    const std::optional<LoweredTokenizer> lowered = LoadHfTokenizer(folder.path(), 0, inputs);
    ASSERT_TRUE(lowered) << name;
    const Tokenizer tokenizer(lowered->section);
    EXPECT_EQ(tokenizer.bos_id(), IdOrNone(variant.Find("bos"))) << name;
    EXPECT_EQ(tokenizer.eos_id(), IdOrNone(variant.Find("eos"))) << name;
    const std::vector<Json> rows = cases.Find("ids").Find(name).items();
    const std::vector<Json> lines = cases.Find("texts").items();
    ASSERT_EQ(rows.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      std::vector<int32_t> want;
      for (const Json& id : rows[i].items()) want.push_back(static_cast<int32_t>(id.AsInt()));
      const std::vector<int32_t> ids =
          test::WithSecondBos(tokenizer, tokenizer.Encode(lines[i].AsString(), {.add_special = false}),
                              tokenizer.Encode(lines[i].AsString()));
      EXPECT_EQ(ids, want) << name << ": " << lines[i].source();
    }
    Compare(std::string(name), *lowered, texts);
  }
}

// The class named in a folder's files decides; llmc tokenize with the file alone reads the same files.
TEST(SentencePieceGolden, AFileReadsWhatStandsBesideIt) {
  const Json variant = ReadJson("variants.json").Find("class-older");
  const Folder folder("beside", variant);
  std::vector<InputHash> inputs;
  EXPECT_EQ(LoadTokenizer(folder.path() + "/tokenizer.model").section,
            LoadHfTokenizer(folder.path(), 0, inputs)->section);
  EXPECT_EQ(inputs.size(), 4U);
}

}  // namespace
}  // namespace llmc
