// Lowering of tokenizers: what is taken from the files, and what is refused with which words.
#include "frontend/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "frontend/tokenizer_bpe.h"
#include "frontend/unicode.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {
namespace {

// A tokenizer.json by its parts.
struct Parts {
  std::map<std::string, std::string> root = {
      {"added_tokens", R"([{"id": 4, "content": "<s>", "special": true, "normalized": false}])"},
      {"normalizer", "null"},
      {"pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})"},
      {"post_processor", "null"},
      {"decoder", R"({"type": "ByteLevel"})"}};
  std::map<std::string, std::string> model = {
      {"type", R"("BPE")"}, {"vocab", R"({"a": 0, "b": 1, "ab": 2, "c": 3})"}, {"merges", R"(["a b"])"}};
  std::string config;

  static std::string Object(const std::map<std::string, std::string>& members) {
    std::string out = "{";
    for (const auto& [key, value] : members) {
      if (!value.empty()) out += (out.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
    }
    return out + "}";
  }
  HfTokenizerFiles Files() const {
    auto all = root;
    if (!model.empty()) all["model"] = Object(model);
    return {{"tokenizer.json", Object(all)}, {"tokenizer_config.json", config}};
  }
};

TokenizerSection Section(const std::string& bytes) { return ReadTokenizerSection(bytes); }

void ExpectRefused(const std::function<void()>& body, DiagKind kind, const std::string& part) {
  try {
    body();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const InputError& e) {
    EXPECT_EQ(e.diag().kind, kind) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nwithout: " << part;
  }
}

void ExpectHfRefused(const std::function<void(Parts&)>& change, DiagKind kind, const std::string& part,
                     int64_t rows = 0) {
  Parts parts;
  change(parts);
  ExpectRefused([&] { LowerHfTokenizer(parts.Files(), rows); }, kind, part);
}

TEST(HfTokenizer, Minimal) {
  const LoweredTokenizer lowered = LowerHfTokenizer(Parts().Files(), 5);
  const TokenizerSection s = Section(lowered.section);
  EXPECT_EQ(s.header.token_count, 5U);
  EXPECT_EQ(s.header.step_count, 1U);
  EXPECT_EQ(s.header.flags, 0U);
  EXPECT_FALSE(lowered.add_bos);
  EXPECT_FALSE(lowered.bos_id);
  EXPECT_TRUE(lowered.stop_ids.empty());
  EXPECT_EQ(LowerHfTokenizer(Parts().Files(), 5).section, lowered.section);
}

TEST(HfTokenizer, MergesAsPairs) {
  Parts pairs;
  pairs.model["merges"] = R"([["a", "b"]])";
  EXPECT_EQ(LowerHfTokenizer(pairs.Files(), 0).section, LowerHfTokenizer(Parts().Files(), 0).section);
}

TEST(HfTokenizer, BosFromTheTemplateAndTheConfiguration) {
  const std::string prefix = R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}})";
  struct Row {
    std::string post_processor, config;
    bool add_bos;
    int32_t bos;
  };
  const std::vector<Row> rows = {
      {"null", "", false, -1},
      {R"({"type": "ByteLevel"})", R"({"bos_token": "<s>"})", false, 4},
      {prefix, "", true, 4},
      {R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" + prefix + "]}", R"({"bos_token": "a"})", true,
       4},
      {prefix, R"({"bos_token": "<s>", "add_bos_token": false})", false, 4},
      {"null", R"({"bos_token": {"content": "<s>"}, "add_bos_token": true})", true, 4},
      {"null", R"({"bos_token": null, "add_bos_token": true})", false, -1},
      {"null", R"({"bos_token": "gone", "add_eos_token": false})", false, -1},
  };
  for (const Row& row : rows) {
    Parts parts;
    parts.root["post_processor"] = row.post_processor;
    parts.config = row.config;
    const LoweredTokenizer lowered = LowerHfTokenizer(parts.Files(), 0);
    EXPECT_EQ(lowered.add_bos, row.add_bos) << row.post_processor << row.config;
    EXPECT_EQ(lowered.bos_id.value_or(-1), row.bos) << row.post_processor << row.config;
  }
}

TEST(HfTokenizer, TheStopIdIsEos) {
  Parts parts;
  parts.config = R"({"eos_token": {"content": "<s>", "lstrip": false}})";
  EXPECT_EQ(LowerHfTokenizer(parts.Files(), 0).stop_ids, std::vector<int32_t>({4}));
  parts.config = R"({"eos_token": "ab"})";
  EXPECT_EQ(LowerHfTokenizer(parts.Files(), 0).stop_ids, std::vector<int32_t>({2}));
}

TEST(HfTokenizer, StepsOfPreTokenizers) {
  struct Row {
    std::string text;
    std::vector<StepKind> kinds;
  };
  const std::string byte_level = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  const std::string letters = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|)";
  const std::string rest = R"(| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  auto split = [&](const std::string& pattern, const std::string& more = R"("behavior": "Isolated", "invert": false)") {
    return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": ")" + pattern + "\"}, " +
           more + "}, " + byte_level + "]}";
  };
  const std::vector<Row> rows = {
      {byte_level, {}},
      {split(letters + R"(\\p{N}{1,3})" + rest), {StepKind::Llama3}},
      {split(letters + R"(\\p{N})" + rest), {StepKind::Qwen2}},
      {split(letters + R"(\\p{N})" + rest, R"("behavior": "Removed", "invert": true)"), {StepKind::Qwen2}},
      {split(R"(\\p{N})"), {StepKind::Digit}},
      {R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
          {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})",
       {StepKind::Digit, StepKind::Gpt2}},
      {R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": false}, {"type": "Sequence",
          "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}]}]})",
       {StepKind::Digits, StepKind::Whole}},
  };
  for (const Row& row : rows) {
    Parts parts;
    parts.root["pre_tokenizer"] = row.text;
    const TokenizerSection s = Section(LowerHfTokenizer(parts.Files(), 0).section);
    std::vector<StepKind> kinds;
    for (uint32_t i = 0; i < s.header.step_count; ++i) kinds.push_back(static_cast<StepKind>(s.header.steps[i].kind));
    EXPECT_EQ(kinds, row.kinds) << row.text;
  }
}

TEST(HfTokenizer, RefusesWhatIsNotByteLevelBpe) {
  auto unsupported = [](const std::string& part, const std::string& key, const std::string& value, bool in_model) {
    ExpectHfRefused([&](Parts& p) { (in_model ? p.model : p.root)[key] = value; }, DiagKind::Unsupported, part);
  };
  unsupported("the model Unigram (SentencePiece) isn't supported; --no-tokenizer compiles the model", "type",
              R"("Unigram")", true);
  unsupported("the model WordPiece", "type", R"("WordPiece")", true);
  unsupported("BPE with byte_fallback = true (SentencePiece)", "byte_fallback", "true", true);
  unsupported("BPE with dropout = 0.1", "dropout", "0.1", true);
  unsupported("BPE with continuing_subword_prefix = \"##\"", "continuing_subword_prefix", "\"##\"", true);
  unsupported("BPE with end_of_word_suffix = \"</w>\"", "end_of_word_suffix", "\"</w>\"", true);
  unsupported("the normalizer Lowercase", "normalizer", R"({"type": "Lowercase"})", false);
  unsupported("the normalizer NFKC", "normalizer",
              R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}]})", false);
  unsupported("Metaspace (SentencePiece)", "pre_tokenizer", R"({"type": "Metaspace", "replacement": "_"})", false);
  unsupported("the pre-tokenizer Whitespace", "pre_tokenizer", R"({"type": "Whitespace"})", false);
  unsupported("BPE without a ByteLevel pre-tokenizer", "pre_tokenizer", "null", false);
  unsupported("BPE without a ByteLevel pre-tokenizer", "pre_tokenizer", R"({"type": "Digits"})", false);
  unsupported("the pre-tokenizer pattern \"[0-9]+\"", "pre_tokenizer",
              R"({"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "Isolated"})", false);
  unsupported("a Split by the text {\"String\": \" \"}", "pre_tokenizer",
              R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated"})", false);
  unsupported("the Split behavior \"MergedWithNext\"", "pre_tokenizer",
              R"({"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "MergedWithNext"})", false);
  unsupported("a pre-tokenizer behind ByteLevel", "pre_tokenizer",
              R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": false},
                 {"type": "Digits", "individual_digits": true}]})",
              false);
  unsupported("the decoder WordPiece", "decoder", R"({"type": "WordPiece"})", false);
  unsupported("BPE without a ByteLevel decoder", "decoder", "null", false);
  unsupported("the post-processor RobertaProcessing", "post_processor", R"({"type": "RobertaProcessing"})", false);
  unsupported("the token \"<s>\" behind the text", "post_processor",
              R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}],
                 "special_tokens": {"<s>": {"ids": [4]}}})",
              false);
  ExpectHfRefused([](Parts& p) { p.config = R"({"add_eos_token": true})"; }, DiagKind::Unsupported, "add_eos_token");
}

TEST(HfTokenizer, RefusesBadVocabularies) {
  auto bad = [](const std::string& part, const std::function<void(Parts&)>& change,
                DiagKind kind = DiagKind::BadValue) { ExpectHfRefused(change, kind, part); };
  bad("merge 0 needs the token \"x\"", [](Parts& p) { p.model["merges"] = R"(["a x"])"; });
  bad("merge 1 needs the token \"bc\"", [](Parts& p) { p.model["merges"] = R"(["a b", "b c"])"; });
  bad("two tokens with one space between", [](Parts& p) { p.model["merges"] = R"(["a b c"])"; });
  bad("a merge has two parts, found 3", [](Parts& p) { p.model["merges"] = R"([["a", "b", "c"]])"; });
  bad("token \"b\" has the id -1", [](Parts& p) { p.model["vocab"] = R"({"a": 0, "b": -1})"; });
  bad("token \"b\" has the id 4000000000", [](Parts& p) { p.model["vocab"] = R"({"a": 0, "b": 4000000000})"; });
  bad("has the id 0, which another token has too", [](Parts& p) { p.model["vocab"] = R"({"a": 0, "b": 0})"; });
  bad("unk_token \"?\" isn't in the vocabulary", [](Parts& p) { p.model["unk_token"] = "\"?\""; });
  bad("513 bytes, the limit is 512",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 4, "content": ")" + std::string(513, 'x') + "\"}]"; });
  bad("added token \"b\" has the id 7, the vocabulary gives it 1",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 7, "content": "b"}])"; });
  bad("added token \"x\" has the id 1, which is \"b\"",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 1, "content": "x"}])"; });
  bad("added token \"y\" has the id 4, which is \"x\"",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 4, "content": "x"}, {"id": 4, "content": "y"}])"; });
  bad("add_bos_token is true, but bos_token is no token",
      [](Parts& p) { p.config = R"({"bos_token": "x", "add_bos_token": true})"; });
  bad("\"model\" is missing", [](Parts& p) { p.model.clear(); }, DiagKind::MissingKey);
  bad("needs \"vocab\" and \"merges\"", [](Parts& p) { p.model.erase("merges"); }, DiagKind::MissingKey);
  bad("needs \"content\" and \"id\"", [](Parts& p) { p.root["added_tokens"] = "[{}]"; }, DiagKind::MissingKey);
  ExpectHfRefused([](Parts&) {}, DiagKind::BadValue, "token \"<s>\" has the id 4, the model's embedding has 4 rows", 4);
}

TEST(HfTokenizer, Directories) {
  const auto dir = std::filesystem::path(testing::TempDir()) / "llmc_tokenizer_dir";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  auto write = [&](const char* name, const std::string& text) { std::ofstream(dir / name) << text; };
  std::vector<InputHash> inputs;
  EXPECT_FALSE(LoadHfTokenizer(dir, 5, inputs));
  write("tokenizer.model", "x");
  ExpectRefused([&] { LoadHfTokenizer(dir, 5, inputs); }, DiagKind::Unsupported,
                "tokenizer.model (SentencePiece) without a tokenizer.json");
  write("tokenizer.json", Parts().Files().tokenizer.text);
  EXPECT_TRUE(LoadHfTokenizer(dir, 5, inputs));
  EXPECT_EQ(inputs.size(), 1U);
  write("tokenizer_config.json", R"({"eos_token": "<s>"})");
  EXPECT_EQ(LoadHfTokenizer(dir, 5, inputs)->stop_ids, std::vector<int32_t>({4}));
  write("tokenizer.json", "{\n \"model\": [}");
  ExpectRefused([&] { LoadHfTokenizer(dir, 5, inputs); }, DiagKind::SyntaxError, "tokenizer.json:2:");
  std::filesystem::remove_all(dir);
}

GgufTokenizer SmallGguf() {
  GgufTokenizer g;
  g.model = "gpt2";
  g.pre = "smollm";
  g.tokens = {"<s>", "a", "b", "ab", "<|im_end|>", "<|eot_id|>", "pad"};
  g.token_type = {3, 1, 1, 1, 3, 4, 5};
  g.merges = {"a b"};
  g.bos_id = 0;
  g.eos_id = 1;
  return g;
}

// C05, A19.
TEST(GgufTokenizer, BosAndStopIds) {
  GgufTokenizer g = SmallGguf();
  LoweredTokenizer lowered = LowerGgufTokenizer(g, "m.gguf", 7);
  EXPECT_EQ(lowered.stop_ids, std::vector<int32_t>({1, 4, 5}));
  EXPECT_FALSE(lowered.add_bos);
  EXPECT_EQ(lowered.bos_id, 0);
  g.eot_id = 2;
  g.add_bos = true;
  lowered = LowerGgufTokenizer(g, "m.gguf", 7);
  EXPECT_EQ(lowered.stop_ids, std::vector<int32_t>({1, 2, 4, 5}));
  EXPECT_TRUE(lowered.add_bos);
  g.add_bos.reset();
  for (const auto& [pre, add_bos] :
       std::map<std::string, bool>{{"gpt-2", false}, {"llama-bpe", true}, {"qwen2", false}, {"smollm", false}}) {
    g.pre = pre;
    EXPECT_EQ(LowerGgufTokenizer(g, "m.gguf", 7).add_bos, add_bos) << pre;
  }
  g.pre = "llama-bpe";
  g.bos_id.reset();
  EXPECT_FALSE(LowerGgufTokenizer(g, "m.gguf", 7).add_bos);
}

TEST(GgufTokenizer, Refuses) {
  auto refused = [](const std::function<void(GgufTokenizer&)>& change, DiagKind kind, const std::string& part) {
    GgufTokenizer g = SmallGguf();
    change(g);
    ExpectRefused([&] { LowerGgufTokenizer(g, "m.gguf", 7); }, kind, part);
  };
  refused([](auto& g) { g.model = "llama"; }, DiagKind::Unsupported, "the model llama (SentencePiece)");
  refused([](auto& g) { g.model = "bert"; }, DiagKind::Unsupported, "the model bert (WordPiece)");
  refused([](auto& g) { g.pre = "unheard-of"; }, DiagKind::Unsupported, "the pre-tokenizer \"unheard-of\"");
  refused([](auto& g) { g.pre = ""; }, DiagKind::Unsupported, "without tokenizer.ggml.pre");
  refused([](auto& g) { g.add_eos = true; }, DiagKind::Unsupported, "add_eos_token");
  refused([](auto& g) { g.tokens.clear(); }, DiagKind::MissingKey, "there are no tokens");
  refused([](auto& g) { g.token_type.pop_back(); }, DiagKind::BadValue, "6 types for 7 tokens");
  refused([](auto& g) { g.merges = {"ab"}; }, DiagKind::BadValue, "merge 0 is \"ab\"");
  refused([](auto& g) { g.eos_id = 7; }, DiagKind::BadValue, "id 7 is outside the vocabulary of 7");
  refused([](auto& g) { g.bos_id = -1; }, DiagKind::BadValue, "id -1 is outside");
  refused([](auto& g) { g.tokens[1] = "b"; }, DiagKind::BadValue, "is there twice");
  ExpectRefused([&] { LowerGgufTokenizer(SmallGguf(), "m.gguf", 5); }, DiagKind::BadValue,
                "the model's embedding has 5 rows");
}

TEST(ByteAlphabet, StandsForEachByteOnce) {
  std::string bytes;
  EXPECT_TRUE(BytesOfAlphabet("a\xC4\xA0\xC4\x8A\xC5\x83\xC3\xBF", bytes));
  EXPECT_EQ(bytes, "a \n\xAD\xFF");
  EXPECT_FALSE(BytesOfAlphabet("a b", bytes));
  EXPECT_FALSE(BytesOfAlphabet("\xE2\x96\x81", bytes));
  EXPECT_FALSE(BytesOfAlphabet("\xC3", bytes));
}

// Samples of the Unicode tables and of NFC, from the standard.
TEST(Unicode, Nfc) {
  const UnicodeTables u = BuiltinUnicode();
  struct Row {
    std::string text, nfc;
  };
  const std::vector<Row> rows = {
      {"plain", "plain"},
      {"e\xCC\x81", "\xC3\xA9"},
      {"\xE2\x84\xAB", "\xC3\x85"},                              // Angstrom sign, a singleton
      {"a\xCC\xA3\xCC\x82", "\xE1\xBA\xAD"},                     // in order
      {"a\xCC\x82\xCC\xA3", "\xE1\xBA\xAD"},                     // out of order
      {"q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87"},                // sorted, nothing to compose
      {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"},  // Hangul L V T
      {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},              // LV T
      {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},              // excluded from composition
      {"\xCC\x81", "\xCC\x81"},
      {"a\xCC\xB8\xCC\x81", "\xC3\xA1\xCC\xB8"},  // U+0301 composes around a mark of a lower class
      {"\xFF"
       "e\xCC\x81\xC3",
       "\xFF\xC3\xA9\xC3"},  // bad bytes stay
  };
  for (const Row& row : rows) {
    EXPECT_EQ(u.Nfc(row.text), row.nfc) << row.text;
    EXPECT_EQ(u.Nfc(row.nfc), row.nfc);
    EXPECT_TRUE(row.text == row.nfc || u.NeedsNfc(row.text)) << row.text;
  }
  EXPECT_FALSE(u.NeedsNfc("caf\xC3\xA9 \xE4\xBD\xA0"));
  std::string marks = "a";
  for (int i = 0; i < 100000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  const std::string sorted = u.Nfc(marks);  // U+1EA1, then the other U+0323, then all U+0301
  EXPECT_EQ(sorted.size(), marks.size());
  EXPECT_EQ(u.Nfc(sorted), sorted);
}

TEST(Unicode, Classes) {
  const UnicodeTables u = BuiltinUnicode();
  EXPECT_EQ(u.Class('a') & ~kClassNfcCheck, kClassLetter | kClassWord);
  EXPECT_EQ(u.Class('7'), kClassNumber | kClassWord);
  EXPECT_EQ(u.Class('_'), kClassWord);
  EXPECT_EQ(u.Class(' '), kClassSpace);
  EXPECT_EQ(u.Class(0x85), kClassSpace);
  EXPECT_EQ(u.Class(0x3000), kClassSpace);
  EXPECT_EQ(u.Class(0x200B), 0);
  EXPECT_EQ(u.Class(0x200D), kClassWord);
  EXPECT_EQ(u.Class(0xBD), kClassNumber);
  EXPECT_EQ(u.Class(0x4E2D), kClassLetter | kClassWord);
  EXPECT_EQ(u.Class(0x2B739), kClassLetter | kClassWord);  // inside a range of UnicodeData.txt
  EXPECT_EQ(u.Class(0x301), kClassMark | kClassWord | kClassNfcCheck);
  EXPECT_EQ(u.Class(0x1F600), 0);
  EXPECT_EQ(u.Class(kMaxCodePoint), 0);
  EXPECT_EQ(u.Class(kBadByte + 0xFF), 0);
}

}  // namespace
}  // namespace llmc
