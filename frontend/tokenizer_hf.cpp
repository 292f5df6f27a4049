// tokenizer.json: the model, the stages around it, added tokens; what tokenizer_config.json adds to it.
//
// As transformers' AutoTokenizer: the post-processor alone decides about BOS and EOS, so add_bos_token and
// add_eos_token of tokenizer_config.json have no effect beside a tokenizer.json.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/sentencepiece.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_config.h"
#include "frontend/tokenizer_source.h"
#include "frontend/tokenizer_stages.h"

namespace llmc {
namespace {

Json ParseObject(const NamedText& file, const JsonLimits& limits) {
  Json root = ParseJson(file.text, file.name, limits);
  if (!root.is(JsonKind::Object))
    Fail(DiagKind::BadValue, root.place(), "an object is wanted, found " + std::string(JsonKindText(root.kind())));
  return root;
}

// Refuses a value that isn't absent, null, false, "" or 0.
void RefuseSet(const Json& model, std::string_view key) {
  const Json value = FindValue(model, key);
  if (!value || (value.is(JsonKind::Bool) && !value.AsBool()) ||
      (value.is(JsonKind::String) && value.AsString().empty()) ||
      ((value.is(JsonKind::Int) || value.is(JsonKind::Float)) && value.AsDouble() == 0)) {
    return;
  }
  FailUnsupportedTokenizer(value.place(), fmt::format("a model with {} = {}", key, value.source().substr(0, 40)));
}

Json Wanted(const Json& model, std::string_view key) {
  const Json value = FindValue(model, key);
  if (!value) Fail(DiagKind::MissingKey, model.place(), "tokenizer: the model needs \"" + std::string(key) + "\"");
  return value;
}

void ReadMerges(const Json& merges, TokenizerSource& out) {
  const std::vector<Json> items = merges.items();
  out.merges.reserve(items.size());
  for (const Json& merge : items) {
    if (merge.is(JsonKind::String)) {
      const std::string_view text = merge.AsString();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        Fail(DiagKind::BadValue, merge.place(),
             fmt::format("tokenizer: a merge is two tokens with one space between, found {}", JsonQuote(text)));
      }
      out.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
      continue;
    }
    const std::vector<Json> pair = merge.items();
    if (pair.size() != 2)
      Fail(DiagKind::BadValue, merge.place(), fmt::format("tokenizer: a merge has two parts, found {}", pair.size()));
    out.merges.emplace_back(pair[0].AsString(), pair[1].AsString());
  }
}

void ReadUnkByName(const Json& model, TokenizerSource& out) {
  const Json unk = FindValue(model, "unk_token");
  if (!unk) return;
  const auto found = std::find_if(out.vocabulary.begin(), out.vocabulary.end(),
                                  [&](const auto& t) { return t.first == unk.AsString(); });
  if (found == out.vocabulary.end())
    Fail(DiagKind::BadValue, unk.place(),
         fmt::format("tokenizer: unk_token {} isn't in the vocabulary", JsonQuote(unk.AsString())));
  out.unk = found->second;
}

void ReadBpe(const Json& model, TokenizerSource& out) {
  const Json merges = Wanted(model, "merges");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) RefuseSet(model, key);
  out.model = TokenizerModel::CharBpe;
  out.fuse_unk = FlagOf(model, "fuse_unk", false);
  out.ignore_merges = FlagOf(model, "ignore_merges", false);
  out.byte_fallback = FlagOf(model, "byte_fallback", false);
  for (const auto& [text, id] : Wanted(model, "vocab").members()) out.vocabulary.emplace_back(text, id.AsInt());
  ReadMerges(merges, out);
  ReadUnkByName(model, out);
}

void ReadUnigram(const Json& model, TokenizerSource& out) {
  out.model = TokenizerModel::Unigram;
  out.byte_fallback = FlagOf(model, "byte_fallback", false);
  for (const Json& item : Wanted(model, "vocab").items()) {
    const std::vector<Json> pair = item.items();
    if (pair.size() != 2)
      Fail(DiagKind::BadValue, item.place(), fmt::format("tokenizer: a token has two parts, found {}", pair.size()));
    out.vocabulary.emplace_back(pair[0].AsString(), static_cast<int64_t>(out.vocabulary.size()));
    out.scores.push_back(pair[1].AsDouble());
  }
  const Json unk = FindValue(model, "unk_id");
  if (!unk) FailUnsupportedTokenizer(model.place(), "a Unigram model without unk_id");
  out.unk = unk.AsInt();
  if (out.unk < 0 || out.unk >= static_cast<int64_t>(out.vocabulary.size())) {
    Fail(DiagKind::BadValue, unk.place(),
         fmt::format("tokenizer: unk_id {} is outside the vocabulary of {}", out.unk, out.vocabulary.size()));
  }
}

void ReadWordPiece(const Json& model, TokenizerSource& out) {
  out.model = TokenizerModel::WordPiece;
  for (const auto& [text, id] : Wanted(model, "vocab").members()) out.vocabulary.emplace_back(text, id.AsInt());
  Wanted(model, "unk_token");
  ReadUnkByName(model, out);
  const Json prefix = FindValue(model, "continuing_subword_prefix");
  out.continuing_prefix = prefix ? prefix.AsString() : "##";
  const Json most = FindValue(model, "max_input_chars_per_word");
  const int64_t chars = most ? most.AsInt() : 100;
  if (chars < 0 || chars > 1 << 20)
    Fail(DiagKind::BadValue, most.place(), fmt::format("tokenizer: {} characters in a word", chars));
  out.max_word_chars = static_cast<uint32_t>(chars);
}

void ReadModel(const Json& root, TokenizerSource& out) {
  const Json model = FindValue(root, "model");
  if (!model) Fail(DiagKind::MissingKey, root.place(), "tokenizer: \"model\" is missing");
  const Json type = FindValue(model, "type");
  const std::string_view name = type                            ? type.AsString()
                                : FindValue(model, "merges")    ? "BPE"
                                : FindValue(model, "unk_id")    ? "Unigram"
                                : FindValue(model, "unk_token") ? "WordPiece"
                                                                : "BPE";
  if (name == "BPE") {
    ReadBpe(model, out);
  } else if (name == "Unigram") {
    ReadUnigram(model, out);
  } else if (name == "WordPiece") {
    ReadWordPiece(model, out);
  } else {
    FailUnsupportedTokenizer(type.place(), fmt::format("the model {}", name));
  }
}

void ReadAdded(const Json& root, AddedIds& ids, TokenizerSource& out) {
  const Json list = FindValue(root, "added_tokens");
  if (!list) return;
  for (const Json& item : list.items()) {
    auto flag = [&](std::string_view key, bool otherwise) {
      const Json value = FindValue(item, key);
      return value ? value.AsBool() : otherwise;
    };
    const Json content = FindValue(item, "content");
    const Json id = FindValue(item, "id");
    if (!content || !id)
      Fail(DiagKind::MissingKey, item.place(), "tokenizer: an added token needs \"content\" and \"id\"");
    const bool special = flag("special", false);
    const uint32_t flags = (special ? kAddedSpecial : 0) | (flag("lstrip", false) ? kAddedStripLeft : 0) |
                           (flag("rstrip", false) ? kAddedStripRight : 0) |
                           (flag("single_word", false) ? kAddedSingleWord : 0);
    if (!content.AsString().empty()) ids.Add(std::string(content.AsString()), id.AsInt(), item.place());
    out.added.push_back({std::string(content.AsString()), id.AsInt(), flags, flag("normalized", !special)});
  }
}

int64_t FindId(const TokenizerSource& source, const std::optional<SourceAddedToken>& named) {
  if (!named) return -1;
  for (const SourceAddedToken& token : source.added) {
    if (token.content == named->content) return token.id;
  }
  for (const auto& [token, id] : source.vocabulary) {
    if (token == named->content) return id;
  }
  return -1;
}

// The pre-tokenizer decides whether the vocabulary is one of bytes.
void ReadStages(const Json& root, TokenizerSource& out) {
  ReadHfNormalizer(root, out);
  const bool bytes = ReadHfPreTokenizer(root, out);
  ReadHfPostProcessor(root, out);
  ReadHfDecoder(root, out);
  const Json place = FindValue(root, "pre_tokenizer") ? FindValue(root, "pre_tokenizer") : root;
  if (bytes) {
    if (out.model != TokenizerModel::CharBpe)
      FailUnsupportedTokenizer(place.place(), "ByteLevel with a model other than BPE");
    if (out.byte_fallback) FailUnsupportedTokenizer(place.place(), "ByteLevel with byte_fallback");
    out.model = TokenizerModel::ByteBpe;
  }
  if (bytes != out.decode.bytes) {
    const Json decoder = FindValue(root, "decoder");
    FailUnsupportedTokenizer((decoder ? decoder : root).place(),
                             bytes ? "ByteLevel without a ByteLevel decoder" : "a ByteLevel decoder without ByteLevel");
  }
}

}  // namespace

LoweredTokenizer LowerHfTokenizer(const HfTokenizerFiles& files, int64_t vocab_rows) {
  const Json root = ParseObject(files.tokenizer, kTokenizerJsonLimits);
  auto object = [](const NamedText& file) { return file.text.empty() ? Json() : ParseObject(file, {}); };
  TokenizerSource source;
  source.file = files.tokenizer.name;
  source.vocab_rows = vocab_rows;
  ReadModel(root, source);
  ReadStages(root, source);
  AddedIds ids(source);
  ReadAdded(root, ids, source);
  const TokenizerConfigFiles named = {object(files.config), object(files.special_tokens_map),
                                      object(files.added_tokens), true};
  AddConfiguredTokens(named, {}, ids, source);
  source.bos = FindId(source, FindNamedToken(named, {}, "bos_token"));
  source.eos = FindId(source, FindNamedToken(named, {}, "eos_token"));
  // Without a configuration the token in front of a text is BOS.
  if (source.bos < 0 && !source.single.empty() && source.single[0].id >= 0) source.bos = source.single[0].id;

  LoweredTokenizer out;
  out.section = LowerTokenizer(source);
  if (source.bos >= 0) out.bos_id = static_cast<int32_t>(source.bos);
  out.add_bos = source.bos >= 0 && !source.single.empty() && source.single[0].id == source.bos;
  if (source.eos >= 0) out.stop_ids.push_back(static_cast<int32_t>(source.eos));
  return out;
}

std::optional<LoweredTokenizer> LoadHfTokenizer(const std::string& directory, int64_t vocab_rows,
                                                std::vector<InputHash>& inputs) {
  auto read = [&](const char* name, const char* role, uint64_t max_bytes) -> NamedText {
    const std::string path = JoinPath(directory, name);
    if (!IsPresent(path)) return {path, ""};
    inputs.push_back({role, path});
    return {path, ReadTextFile(path, max_bytes)};
  };
  const uint64_t small = JsonLimits().max_bytes;
  if (IsPresent(JoinPath(directory, "tokenizer.json"))) {
    HfTokenizerFiles files;
    files.tokenizer = read("tokenizer.json", "tokenizer", kTokenizerJsonLimits.max_bytes);
    files.config = read("tokenizer_config.json", "tokenizer-config", small);
    files.special_tokens_map = read("special_tokens_map.json", "tokenizer-special-tokens", small);
    files.added_tokens = read("added_tokens.json", "tokenizer-added-tokens", small);
    return LowerHfTokenizer(files, vocab_rows);
  }
  if (IsPresent(JoinPath(directory, "tokenizer.model"))) {
    SentencePieceFiles files;
    files.model = read("tokenizer.model", "tokenizer", kMaxSentencePieceBytes);
    files.config = read("tokenizer_config.json", "tokenizer-config", small);
    files.special_tokens_map = read("special_tokens_map.json", "tokenizer-special-tokens", small);
    files.added_tokens = read("added_tokens.json", "tokenizer-added-tokens", small);
    // An input of the model already.
    const std::string config = JoinPath(directory, "config.json");
    files.model_config = {config, IsPresent(config) ? ReadTextFile(config, small) : ""};
    return LowerSentencePiece(files, vocab_rows);
  }
  for (const std::string other : {"spiece.model", "tekken.json", "vocab.json", "vocab.txt"}) {
    const std::string path = JoinPath(directory, other);
    if (!IsPresent(path)) continue;
    FailUnsupportedTokenizer(
        {path, ""}, other + (other.ends_with(".model") ? " (SentencePiece)" : "") + " without a tokenizer.json");
  }
  return std::nullopt;
}

}  // namespace llmc
