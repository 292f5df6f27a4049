// Lowering of tokenizers: what is taken from the files, and what is refused with which words.
#include "frontend/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "frontend/tokenizer_source.h"
#include "frontend/unicode.h"
#include "runtime/plan_load.h"
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
  std::string config, special_tokens_map = {}, added_tokens = {};

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
    return {{"tokenizer.json", Object(all)},
            {"tokenizer_config.json", config},
            {"special_tokens_map.json", special_tokens_map},
            {"added_tokens.json", added_tokens}};
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
  EXPECT_EQ(s.table(TokenizerTable::Cuts).size(), sizeof(StepRecord));
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
      {R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" + prefix + "]}", R"({"bos_token": "a"})", false,
       0},
      // The post-processor alone decides, as in transformers.
      {prefix, R"({"bos_token": "<s>", "add_bos_token": false})", true, 4},
      {"null", R"({"bos_token": {"content": "<s>"}, "add_bos_token": true})", false, 4},
      {"null", R"({"bos_token": null, "add_bos_token": true, "add_eos_token": true})", false, -1},
      {"null", R"({"bos_token": "gone", "add_eos_token": false})", false, 5},  // becomes a token behind the others
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

// Values of transformers 5.24 with tokenizers 0.23.
TEST(HfTokenizer, TokensOfTheConfiguration) {
  struct Row {
    std::string config;
    std::vector<std::string> added;  // content, a space, flags; "n" if it is normalised
    std::string map = {}, tokens = {};
    int32_t eos = -1;
  };
  const std::string left = R"("content": "<s>", "lstrip": true, "normalized": false, "special": true)";
  const std::vector<Row> rows = {
      {"{}", {"<s> 1"}},
      // What added_tokens_decoder says counts, a named token changes none that is there.
      {R"({"added_tokens_decoder": {"4": {)" + left + "}}}", {"<s> 3"}},
      {R"({"bos_token": {"__type": "AddedToken", )" + left + "}}", {"<s> 1"}},
      {R"({"additional_special_tokens": [{"__type": "AddedToken", )" + left + "}]}", {"<s> 1"}},
      {R"({"image_token": "<img>", "add_bos_token": true})", {"<img> 1", "<s> 1"}},
      {R"({"extra_special_tokens": ["<x>"], "additional_special_tokens": ["<y>"]})", {"<s> 1", "<x> 1"}},
      {R"({"extra_special_tokens": [], "additional_special_tokens": ["<y>"]})", {"<s> 1", "<y> 1"}},
      {R"({"extra_special_tokens": {"a": "<x>"}})", {"<s> 1", "<x> 1"}},
      {R"({"added_tokens_decoder": {"5": {"content": "<p>", "normalized": false}}, "pad_token": "<p>"})",
       {"<p> 1", "<s> 1"}},
      // special_tokens_map.json, by transformers 5.24.
      {"{}", {"<s> 1", "<t> 3"}, R"({"bos_token": "<s>", "eos_token": {"content": "<t>", "lstrip": true}})", {}, 5},
      {R"({"eos_token": "<e>"})", {"<s> 1"}, R"({"eos_token": "<s>"})", {}, 4},
      {R"({"eos_token": "<e>", "added_tokens_decoder": {}})",
       {"<e> 1", "<s> 1"},
       R"({"eos_token": "<s>", "pad_token": "<p>"})",
       {},
       5},
      {R"({"eos_token": "<e>"})", {"<s> 1"}, R"({"eos_token": null})"},
      {"{}", {"<i> 1", "<p> 1", "<s> 1"}, R"({"image_token": "<i>", "pad_token": "<p>"})"},
      {R"({"image_token": "<i>"})", {"<i> 1", "<s> 1"}, R"({"image_token": "<j>"})"},
      {"{}", {"<s> 1", "<x> 1"}, R"({"additional_special_tokens": ["<x>"]})"},
      {R"({"additional_special_tokens": ["<z>"]})", {"<s> 1", "<z> 1"}, R"({"additional_special_tokens": ["<x>"]})"},
      {R"({"additional_special_tokens": ["<z>"]})",
       {"<s> 1", "<x> 1", "<z> 1"},
       R"({"extra_special_tokens": ["<x>"]})"},
      {R"({"extra_special_tokens": {"a": "<q>"}})",
       {"<q> 1", "<s> 1", "<x> 1"},
       R"({"extra_special_tokens": ["<x>"]})"},
      {R"({"eos_token": "<e>"})", {"<s> 1"}, R"({"eos_token": {"content": "<s>", "lstrip": true}})", {}, 4},
      // added_tokens.json.
      {"{}", {"<p> 1", "<s> 1", "<m> 0n"}, R"({"pad_token": "<p>"})", R"({"<p>": 5, "<m>": 6})"},
      {"{}", {"<m> 1", "<s> 1", "<p> 0n"}, R"({"extra_special_tokens": ["<m>"]})", R"({"<p>": 5, "<m>": 6})"},
      {"{}", {"<s> 1", "<m> 0n", "<p> 0n"}, R"({"additional_special_tokens": ["<m>"]})", R"({"<p>": 5, "<m>": 6})"},
      {"{}", {"<s> 1", "<m> 0n"}, "", R"({"<s>": 4, "<m>": 5})"},
      {R"({"added_tokens_decoder": {}})", {"<s> 1"}, "", R"({"<m>": 5})"},
      {"", {"<p> 1", "<s> 1", "<m> 0n"}, R"({"eos_token": "<s>", "pad_token": "<p>"})", R"({"<m>": 5})", 4},
  };
  for (const Row& row : rows) {
    Parts parts;
    parts.config = row.config;
    parts.special_tokens_map = row.map;
    parts.added_tokens = row.tokens;
    const LoweredTokenizer lowered = LowerHfTokenizer(parts.Files(), 0);
    const TokenizerSection s = Section(lowered.section);
    std::vector<std::string> added;
    for (const TokenizerTable table : {TokenizerTable::AddedRaw, TokenizerTable::AddedNormalized}) {
      for (size_t i = 0; i < s.table(table).size() / sizeof(AddedSlot); ++i) {
        AddedSlot slot;
        std::memcpy(&slot, s.table(table).data() + i * sizeof slot, sizeof slot);
        added.push_back(std::string(s.table(TokenizerTable::AddedBytes).substr(slot.begin, slot.end - slot.begin)) +
                        " " + std::to_string(slot.flags) + (table == TokenizerTable::AddedRaw ? "" : "n"));
      }
    }
    EXPECT_EQ(added, row.added) << row.config << row.map << row.tokens;
    if (row.eos >= 0) {
      EXPECT_EQ(lowered.stop_ids, std::vector<int32_t>({row.eos})) << row.config << row.map;
    }
  }
  Parts negative;
  negative.config = "{}";
  negative.added_tokens = R"({"<m>": -1})";
  ExpectRefused([&] { LowerHfTokenizer(negative.Files(), 0); }, DiagKind::BadValue, "-1 is no id");
}

TEST(HfTokenizer, RefusesWhatItCannotHonour) {
  auto unsupported = [](const std::string& part, const std::string& key, const std::string& value, bool in_model) {
    ExpectHfRefused([&](Parts& p) { (in_model ? p.model : p.root)[key] = value; }, DiagKind::Unsupported, part);
  };
  auto split = [](const std::string& pattern) {
    return R"({"type": "Split", "pattern": {"Regex": ")" + pattern + R"("}, "behavior": "Isolated", "invert": false})";
  };
  unsupported("the model WordLevel isn't supported; --no-tokenizer compiles the model", "type", R"("WordLevel")", true);
  unsupported("a model with dropout = 0.1", "dropout", "0.1", true);
  unsupported("continuing_subword_prefix = \"##\"", "continuing_subword_prefix", "\"##\"", true);
  unsupported("end_of_word_suffix = \"</w>\"", "end_of_word_suffix", "\"</w>\"", true);
  unsupported("the normalizer ByteLevel", "normalizer", R"({"type": "ByteLevel"})", false);
  unsupported("the pre-tokenizer UnicodeScripts", "pre_tokenizer", R"({"type": "UnicodeScripts"})", false);
  unsupported("Metaspace behind ByteLevel", "pre_tokenizer",
              R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": false},
                 {"type": "Metaspace", "replacement": "_"}]})",
              false);
  unsupported("{\"Regex\": \"(?<=a)b\"} has a lookbehind, which isn't supported", "pre_tokenizer", split("(?<=a)b"),
              false);
  unsupported("looks ahead at more than one character", "pre_tokenizer", split("a(?!bc)"), false);
  unsupported("can match nothing at all", "pre_tokenizer", split("a*"), false);
  unsupported("the property \\p{Klingon}, which isn't known", "pre_tokenizer", split(R"(\\p{Klingon})"), false);
  unsupported("needs more than", "pre_tokenizer", split("(?:[ab]*a[ab]{15}c)"), false);
  unsupported(
      "a stage of more than 16 steps", "normalizer",
      R"({"type": "Sequence", "normalizers": [)" +
          [] {
            std::string many = R"({"type": "NFC"})";
            for (int i = 0; i < 17; ++i) many += R"(, {"type": "NFC"})";
            return many;
          }() +
          "]}",
      false);
  unsupported("an empty pattern", "pre_tokenizer",
              R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated"})", false);
  unsupported("the decoder CTC", "decoder", R"({"type": "CTC"})", false);
  unsupported("ByteLevel without a ByteLevel decoder", "decoder", "null", false);
  unsupported("a ByteLevel decoder without ByteLevel", "pre_tokenizer", "null", false);
  unsupported("a second post-processor", "post_processor",
              R"({"type": "Sequence", "processors": [{"type": "BertProcessing", "sep": ["<s>", 4], "cls": ["<s>", 4]},
                 {"type": "BertProcessing", "sep": ["<s>", 4], "cls": ["<s>", 4]}]})",
              false);
  unsupported("ByteLevel with byte_fallback", "byte_fallback", "true", true);
}

TEST(HfTokenizer, RefusesBadVocabularies) {
  auto bad = [](const std::string& part, const std::function<void(Parts&)>& change,
                DiagKind kind = DiagKind::BadValue) { ExpectHfRefused(change, kind, part); };
  bad("merge 0 needs the token \"x\"", [](Parts& p) { p.model["merges"] = R"(["a x"])"; });
  bad("merge 1 needs the token \"bc\"", [](Parts& p) { p.model["merges"] = R"(["a b", "b c"])"; });
  bad("two tokens with one space between", [](Parts& p) { p.model["merges"] = R"(["a b c"])"; });
  bad("a merge has two parts, found 3", [](Parts& p) { p.model["merges"] = R"([["a", "b", "c"]])"; });
  bad("token \"b\" has the id -1", [](Parts& p) {
    p.model["vocab"] = R"({"a": 0, "b": -1})";
    p.root["added_tokens"] = "[]";
  });
  bad("token \"b\" has the id 4000000000", [](Parts& p) {
    p.model["vocab"] = R"({"a": 0, "b": 4000000000})";
    p.root["added_tokens"] = "[]";
  });
  bad("has the id 0, which another token has too", [](Parts& p) {
    p.model["vocab"] = R"({"a": 0, "b": 0})";
    p.root["added_tokens"] = "[]";
  });
  bad("unk_token \"?\" isn't in the vocabulary", [](Parts& p) { p.model["unk_token"] = "\"?\""; });
  bad("513 bytes, the limit is 512",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 4, "content": ")" + std::string(513, 'x') + "\"}]"; });
  bad("added token \"b\" has the id 7, but tokenizers gives it 1",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 7, "content": "b"}])"; });
  bad("added token \"x\" has the id 1, but tokenizers gives it 4",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 1, "content": "x"}])"; });
  bad("added token \"y\" has the id 4, but tokenizers gives it 5",
      [](Parts& p) { p.root["added_tokens"] = R"([{"id": 4, "content": "x"}, {"id": 4, "content": "y"}])"; });
  bad("the post-processor adds the id 5, the vocabulary has 5",
      [](Parts& p) { p.root["post_processor"] = R"({"type": "BertProcessing", "sep": ["x", 5], "cls": ["<s>", 4]})"; });
  bad("\"model\" is missing", [](Parts& p) { p.model.clear(); }, DiagKind::MissingKey);
  bad("needs \"merges\"", [](Parts& p) { p.model.erase("merges"); }, DiagKind::MissingKey);
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
  write("spiece.model", "x");
  ExpectRefused([&] { LoadHfTokenizer(dir, 5, inputs); }, DiagKind::Unsupported,
                "spiece.model (SentencePiece) without a tokenizer.json");
  write("tokenizer.model", "x");
  ExpectRefused([&] { LoadHfTokenizer(dir, 5, inputs); }, DiagKind::BadFormat, "is no protocol buffer");
  inputs.clear();
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
  refused([](auto& g) { g.model = "rwkv"; }, DiagKind::Unsupported, "the model rwkv");
  refused([](auto& g) { g.model = "llama"; }, DiagKind::BadValue, "0 scores for 7 tokens");
  refused([](auto& g) { g.model = "t5", g.scores.resize(7); }, DiagKind::Unsupported, "keeps extra white space");
  refused([](auto& g) { g.model = "t5", g.scores.resize(7), g.remove_extra_whitespaces = true; }, DiagKind::MissingKey,
          "a Unigram model needs it");
  refused([](auto& g) { g.model = "bert"; }, DiagKind::Unsupported, "the pre-tokenizer \"smollm\"");
  refused([](auto& g) { g.model = "bert", g.pre = "bert-bge"; }, DiagKind::MissingKey, "a WordPiece model needs it");
  refused([](auto& g) { g.token_type[0] = 7; }, DiagKind::BadValue, "token 0 has the type 7");
  refused([](auto& g) { g.add_bos = true, g.bos_id.reset(); }, DiagKind::BadValue, "there is no bos_token_id");
  refused([](auto& g) { g.add_eos = true, g.eos_id.reset(); }, DiagKind::BadValue, "there is no eos_token_id");
  refused([](auto& g) { g.pre = "unheard-of"; }, DiagKind::Unsupported, "the pre-tokenizer \"unheard-of\"");
  refused([](auto& g) { g.pre = ""; }, DiagKind::Unsupported, "without tokenizer.ggml.pre");
  refused([](auto& g) { g.tokens.clear(); }, DiagKind::MissingKey, "there are no tokens");
  refused([](auto& g) { g.token_type.pop_back(); }, DiagKind::BadValue, "6 types for 7 tokens");
  refused([](auto& g) { g.merges = {"ab"}; }, DiagKind::BadValue, "merge 0 is \"ab\"");
  refused([](auto& g) { g.eos_id = 7; }, DiagKind::BadValue, "id 7 is outside the vocabulary of 7");
  refused([](auto& g) { g.bos_id = -1; }, DiagKind::BadValue, "id -1 is outside");
  refused([](auto& g) { g.tokens[1] = "b"; }, DiagKind::BadValue, "is there twice");
  ExpectRefused([&] { LowerGgufTokenizer(SmallGguf(), "m.gguf", 5); }, DiagKind::BadValue,
                "the model's embedding has 5 rows");
}

// A SentencePiece model as bytes: fields are (number, wire type, payload).
std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(static_cast<uint8_t>(value | 0x80)));
  out.push_back(static_cast<char>(static_cast<uint8_t>(value)));
  return out;
}
std::string Number(uint32_t field, uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string Bytes(uint32_t field, const std::string& bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string Piece(const std::string& text, uint64_t type) {
  return Bytes(1, Bytes(1, text) + Varint(2 << 3 | 5) + std::string(4, '\0') + Number(3, type));
}
std::string SmallSentencePiece(const std::string& trainer, const std::string& normalizer = "") {
  std::string out = Piece("<unk>", 2) + Piece("<s>", 3) + Piece("</s>", 3);
  for (int b = 0; b < 256; ++b) {
    constexpr char kHex[] = "0123456789ABCDEF";
    out += Piece(std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + ">", 6);
  }
  const std::string space = "\xE2\x96\x81";
  for (const std::string& text : {space + "a", std::string("ab"), space, std::string("a"), std::string("b")})
    out += Piece(text, 1);
  return out + Bytes(2, trainer) + Bytes(3, normalizer);
}

TEST(SentencePiece, LlamaTokenizer) {
  const std::string bytes = SmallSentencePiece(Number(3, 2) + Number(35, 1));
  auto lower = [](const std::string& model, const std::string& config, const std::string& model_config = "") {
    SentencePieceFiles files;
    files.model = {"tokenizer.model", model};
    files.config = {"c.json", config};
    files.model_config = {"config.json", model_config};
    return LowerSentencePiece(files, 0);
  };
  LoweredTokenizer lowered = lower(bytes, R"({"tokenizer_class": "LlamaTokenizer"})");
  TokenizerSection s = Section(lowered.section);
  EXPECT_EQ(s.header.model, TokenizerModel::CharBpe);
  EXPECT_EQ(s.header.token_count, 264U);
  EXPECT_EQ(lowered.bos_id, 1);
  EXPECT_FALSE(lowered.add_bos);
  EXPECT_EQ(lowered.stop_ids, std::vector<int32_t>({2}));
  EXPECT_EQ(s.PieceBytes(259),
            "\xE2\x96\x81"
            "a");
  EXPECT_EQ(s.TokenBytes(259), " a");
  EXPECT_EQ(s.TokenFlags(3 + 0x0A) & kTokenByte, kTokenByte);
  EXPECT_EQ(s.TokenBytes(3 + 0x0A), "\n");
  lowered = lower(bytes, R"({"add_bos_token": true, "tokenizer_class": "LlamaTokenizerFast", "eos_token": "a"})");
  EXPECT_TRUE(lowered.add_bos);
  EXPECT_EQ(lowered.stop_ids, std::vector<int32_t>({262}));
  EXPECT_FALSE(lower(bytes, R"({"add_bos_token": true, "bos_token": null})").add_bos);

  auto refused = [&](const std::string& model, const std::string& config, DiagKind kind, const std::string& part,
                     const std::string& model_config = "") {
    ExpectRefused([&] { lower(model, config, model_config); }, kind, part);
  };
  refused(SmallSentencePiece(Number(3, 1)), R"({"tokenizer_class": "LlamaTokenizer"})", DiagKind::Unsupported,
          "of type 1 with the class LlamaTokenizer (BPE is 2)");
  refused(SmallSentencePiece(Number(3, 3)), "", DiagKind::Unsupported, "of type 3 with the class TokenizersBackend");
  refused(bytes, "", DiagKind::Unsupported, "for the model_type \"unheard\"", R"({"model_type": "unheard"})");
  refused(bytes, R"({"tokenizer_class": "LlamaTokenizer"})", DiagKind::Unsupported,
          "the tokenizer_class \"Qwen2Tokenizer\"", R"({"model_type": "qwen2"})");
  refused(bytes, R"({"auto_map": {"AutoTokenizer": ["a.B", null]}})", DiagKind::Unsupported, "auto_map");
  refused(bytes, R"({"bos_token": {"__type": "AddedToken", "content": "<b>", "normalized": true}})",
          DiagKind::Unsupported, "an added token that is normalised");
  refused(SmallSentencePiece(Number(3, 2) + Number(35, 1)), R"({"legacy": false})", DiagKind::Unsupported,
          "a prefix of the first piece alone");
  refused(bytes, R"({"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {"300": {"content": "<x>"}}})",
          DiagKind::BadValue, "has the id 300, but tokenizers gives it 264");
  refused(bytes, R"({"tokenizer_class": "T5Tokenizer"})", DiagKind::Unsupported, "the tokenizer_class \"T5Tokenizer\"");
  refused(SmallSentencePiece(Number(3, 2) + Number(35, 1) + Number(40, 1000)), "", DiagKind::BadFormat,
          "the id 1000 is outside 0..264");
  refused(Piece("a", 9), "", DiagKind::BadFormat, "piece 0 has the type 9");
  refused("", "", DiagKind::BadFormat, "there are no pieces");
  refused(Bytes(1, "\xFF"), "", DiagKind::BadFormat, "is no protocol buffer");
}

TEST(ByteAlphabet, StandsForEachByteOnce) {
  std::string bytes;
  EXPECT_TRUE(BytesOfAlphabet("a\xC4\xA0\xC4\x8A\xC5\x83\xC3\xBF", bytes));
  EXPECT_EQ(bytes, "a \n\xAD\xFF");
  EXPECT_FALSE(BytesOfAlphabet("a b", bytes));
  EXPECT_FALSE(BytesOfAlphabet("\xE2\x96\x81", bytes));
  EXPECT_FALSE(BytesOfAlphabet("\xC3", bytes));
}

// Samples of the Unicode tables and of the normal forms, from the standard.
std::string Normalized(NormalForm form, std::string_view text) {
  const std::string table = NormalFormTable(form);
  std::string out;
  NormalFormTables(table).Apply(text, out, nullptr);
  return out;
}

TEST(Unicode, NormalForms) {
  struct Row {
    std::string text, nfc, nfd;
  };
  const std::vector<Row> rows = {
      {"plain", "plain", "plain"},
      {"e\xCC\x81", "\xC3\xA9", "e\xCC\x81"},
      {"\xE2\x84\xAB", "\xC3\x85", "A\xCC\x8A"},                        // Angstrom sign, a singleton
      {"a\xCC\xA3\xCC\x82", "\xE1\xBA\xAD", "a\xCC\xA3\xCC\x82"},       // in order
      {"a\xCC\x82\xCC\xA3", "\xE1\xBA\xAD", "a\xCC\xA3\xCC\x82"},       // out of order
      {"q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87", "q\xCC\xA3\xCC\x87"},  // nothing to compose
      {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"},
      {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"},  // LV T
      {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC", "\xE0\xA4\x95\xE0\xA4\xBC"},  // excluded from composition
      {"\xCC\x81", "\xCC\x81", "\xCC\x81"},
      {"a\xCC\xB8\xCC\x81", "\xC3\xA1\xCC\xB8", "a\xCC\xB8\xCC\x81"},  // composes around a mark of a lower class
      {"\xFF"
       "e\xCC\x81\xC3",
       "\xFF\xC3\xA9\xC3",
       "\xFF"
       "e\xCC\x81\xC3"},  // bad bytes stay
  };
  const std::string nfc_table = NormalFormTable(NormalForm::Nfc);
  const NormalFormTables nfc(nfc_table);
  for (const Row& row : rows) {
    EXPECT_EQ(Normalized(NormalForm::Nfc, row.text), row.nfc) << row.text;
    EXPECT_EQ(Normalized(NormalForm::Nfc, row.nfc), row.nfc);
    EXPECT_EQ(Normalized(NormalForm::Nfd, row.text), row.nfd) << row.text;
    EXPECT_TRUE(row.text == row.nfc || nfc.MayChange(row.text)) << row.text;
  }
  EXPECT_FALSE(nfc.MayChange("caf\xC3\xA9 \xE4\xBD\xA0"));
  EXPECT_EQ(Normalized(NormalForm::Nfkc, "\xEF\xAC\x81\xE2\x91\xA0\xEF\xBC\xA1"), "fi1A");
  EXPECT_EQ(Normalized(NormalForm::Nfkd, "\xE1\xBA\x9B\xCC\xA3"), "s\xCC\xA3\xCC\x87");
  std::string marks = "a";
  for (int i = 0; i < 100000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  const std::string sorted = Normalized(NormalForm::Nfc, marks);  // U+1EA1, then the other U+0323, then all U+0301
  EXPECT_EQ(sorted.size(), marks.size());
  EXPECT_EQ(Normalized(NormalForm::Nfc, sorted), sorted);
}

TEST(Unicode, Properties) {
  auto in = [](const char* property, uint32_t c) { return FindProperty(property)->Contains(c); };
  EXPECT_TRUE(in("L", 'a') && in("Letter", 'a') && in("lowercase letter", 'a') && !in("Lu", 'a'));
  EXPECT_TRUE(in("Han", 0x4E2D) && in("Hani", 0x4E2D) && !in("Hiragana", 0x4E2D));
  EXPECT_TRUE(in("N", 0xBD) && in("No", 0xBD) && !in("Nd", 0xBD));
  EXPECT_TRUE(in("L", 0x2B739));  // inside a range of UnicodeData.txt
  EXPECT_TRUE(in("Cn", 0x10FFFF) && in("White_Space", 0x85) && in("M", 0x301));
  EXPECT_EQ(FindProperty("Klingon"), nullptr);
  const std::string table = WordClassTable();
  const CodePointBytes classes(table);
  EXPECT_EQ(classes.At('_'), kClassWord);
  EXPECT_EQ(classes.At(0x200D), kClassWord);
  EXPECT_EQ(classes.At(0x3000), kClassSpace);
  EXPECT_EQ(classes.At(0x200B), 0);
  EXPECT_EQ(classes.At(kMaxCodePoint), 0);
  EXPECT_TRUE(CaseClosure(CodeSet::Of('s')).Contains(0x17F));
  EXPECT_TRUE(CaseClosure(CodeSet::Of(0x17F)).Contains('S'));
}

TEST(Unicode, Sets) {
  const CodeSet a({{5, 9}, {1, 3}, {4, 4}}), b({{3, 6}, {20, 30}});
  EXPECT_EQ(a.ranges(), std::vector<CodeRange>({{1, 9}}));
  EXPECT_EQ((a & b).ranges(), std::vector<CodeRange>({{3, 6}}));
  EXPECT_EQ((a | b).ranges(), std::vector<CodeRange>({{1, 9}, {20, 30}}));
  EXPECT_EQ((~b).ranges(), std::vector<CodeRange>({{0, 2}, {7, 19}, {31, kMaxCodePoint}}));
  EXPECT_EQ(~~b, b);
  EXPECT_EQ((~CodeSet()).ranges(), std::vector<CodeRange>({{0, kMaxCodePoint}}));
}

}  // namespace
}  // namespace llmc
