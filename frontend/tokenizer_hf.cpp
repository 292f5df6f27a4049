// tokenizer.json: the BPE model and added tokens; BOS and stop ids from the files around it.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_bpe.h"
#include "frontend/tokenizer_choices.h"

namespace llmc {
namespace {

// Byte-level vocabularies have up to 200,000 tokens and 450,000 merges, which may be three values each, in up to 30 MB.
constexpr JsonLimits kTokenizerLimits = {.max_bytes = uint64_t{64} << 20, .max_values = uint64_t{1} << 21};

Json ParseObject(const NamedText& file, const JsonLimits& limits) {
  Json root = ParseJson(file.text, file.name, limits);
  if (!root.is(JsonKind::Object))
    Fail(DiagKind::BadValue, root.place(), "an object is wanted, found " + std::string(JsonKindText(root.kind())));
  return root;
}

// Refuses a value that isn't absent, null, false, "" or 0.
void RefuseSet(const Json& model, std::string_view key, std::string_view why) {
  const Json value = FindValue(model, key);
  if (!value || (value.is(JsonKind::Bool) && !value.AsBool()) ||
      (value.is(JsonKind::String) && value.AsString().empty()) ||
      ((value.is(JsonKind::Int) || value.is(JsonKind::Float)) && value.AsDouble() == 0)) {
    return;
  }
  FailUnsupportedTokenizer(value.place(), fmt::format("BPE with {} = {}{}", key, value.source().substr(0, 40), why));
}

void ReadMerges(const Json& merges, BpeSource& out) {
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

void ReadModel(const Json& root, BpeSource& out) {
  const Json model = FindValue(root, "model");
  if (!model) Fail(DiagKind::MissingKey, root.place(), "tokenizer: \"model\" is missing");
  const Json type = FindValue(model, "type");
  const Json merges = FindValue(model, "merges");
  if (type && type.AsString() != "BPE") {
    FailUnsupportedTokenizer(type.place(), fmt::format("the model {}{}", type.AsString(),
                                                       type.AsString() == "Unigram" ? " (SentencePiece)" : ""));
  }
  const Json vocabulary = FindValue(model, "vocab");
  if (!vocabulary || !merges)
    Fail(DiagKind::MissingKey, model.place(), "tokenizer: a BPE model needs \"vocab\" and \"merges\"");
  RefuseSet(model, "byte_fallback", " (SentencePiece)");
  RefuseSet(model, "dropout", "");
  RefuseSet(model, "continuing_subword_prefix", "");
  RefuseSet(model, "end_of_word_suffix", "");
  auto flag = [&](std::string_view key) {
    const Json value = FindValue(model, key);
    return value && value.AsBool();
  };
  out.fuse_unk = flag("fuse_unk");
  out.ignore_merges = flag("ignore_merges");
  for (const auto& [text, id] : vocabulary.members()) out.vocabulary.emplace_back(text, id.AsInt());
  ReadMerges(merges, out);
  if (const Json unk = FindValue(model, "unk_token")) {
    const auto found = std::find_if(out.vocabulary.begin(), out.vocabulary.end(),
                                    [&](const auto& t) { return t.first == unk.AsString(); });
    if (found == out.vocabulary.end())
      Fail(DiagKind::BadValue, unk.place(),
           fmt::format("tokenizer: unk_token {} isn't in the vocabulary", JsonQuote(unk.AsString())));
    out.unk = found->second;
  }
}

void ReadAdded(const Json& root, BpeSource& out) {
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
    out.added.push_back({content.AsString(), id.AsInt(), flags, flag("normalized", !special)});
  }
}

int64_t FindId(const BpeSource& source, std::string_view text) {
  for (const BpeAddedToken& token : source.added) {
    if (token.content == text) return token.id;
  }
  for (const auto& [token, id] : source.vocabulary) {
    if (token == text) return id;
  }
  return -1;
}

// A token that tokenizer_config names, as text or as an object with "content"; -1 when it names none, or one that isn't
// there.
int64_t NamedToken(const Json& config, std::string_view key, const BpeSource& source) {
  Json value = config ? FindValue(config, key) : Json();
  if (value && value.is(JsonKind::Object)) value = FindValue(value, "content");
  return value ? FindId(source, value.AsString()) : -1;
}

void ReadBos(const Json& root, const Json& config, BpeSource& out) {
  out.bos = NamedToken(config, "bos_token", out);
  if (const std::optional<int64_t> bos = HfTemplateBos(root)) {
    out.bos = *bos;
    out.add_bos = true;
  }
  const Json add_bos = config ? FindValue(config, "add_bos_token") : Json();
  if (add_bos) {
    out.add_bos = add_bos.AsBool() && FindValue(config, "bos_token");
    if (out.add_bos && out.bos < 0) {
      Fail(DiagKind::BadValue, add_bos.place(),
           "tokenizer: add_bos_token is true, but bos_token is no token of the vocabulary");
    }
  }
  const Json add_eos = config ? FindValue(config, "add_eos_token") : Json();
  if (add_eos && add_eos.AsBool()) FailUnsupportedTokenizer(add_eos.place(), "add_eos_token");
}

}  // namespace

LoweredTokenizer LowerHfTokenizer(const HfTokenizerFiles& files, int64_t vocab_rows) {
  const Json root = ParseObject(files.tokenizer, kTokenizerLimits);
  const Json config = files.config.text.empty() ? Json() : ParseObject(files.config, {});
  BpeSource source;
  source.file = files.tokenizer.name;
  source.vocab_rows = vocab_rows;
  ReadModel(root, source);
  source.nfc = HfIsNfc(root);
  source.steps = HfSteps(root);
  CheckHfDecoder(root);
  ReadAdded(root, source);
  ReadBos(root, config, source);
  source.eos = NamedToken(config, "eos_token", source);

  LoweredTokenizer out;
  out.section = LowerBpe(source);
  if (source.bos >= 0) out.bos_id = static_cast<int32_t>(source.bos);
  out.add_bos = source.add_bos;
  if (source.eos >= 0) out.stop_ids.push_back(static_cast<int32_t>(source.eos));
  return out;
}

std::optional<LoweredTokenizer> LoadHfTokenizer(const std::string& directory, int64_t vocab_rows,
                                                std::vector<InputHash>& inputs) {
  auto read = [&](const char* name, const char* role, uint64_t max_bytes) -> NamedText {
    const std::string path = JoinPath(directory, name);
    if (!IsRegularFile(path)) return {path, ""};
    inputs.push_back({role, path});
    return {path, ReadTextFile(path, max_bytes)};
  };
  if (!IsRegularFile(JoinPath(directory, "tokenizer.json"))) {
    for (const std::string other : {"tokenizer.model", "spiece.model", "tekken.json", "vocab.json", "vocab.txt"}) {
      const std::string path = JoinPath(directory, other);
      if (!IsRegularFile(path)) continue;
      FailUnsupportedTokenizer(
          {path, ""}, other + (other.ends_with(".model") ? " (SentencePiece)" : "") + " without a tokenizer.json");
    }
    return std::nullopt;
  }
  HfTokenizerFiles files;
  files.tokenizer = read("tokenizer.json", "tokenizer", kTokenizerLimits.max_bytes);
  files.config = read("tokenizer_config.json", "tokenizer-config", JsonLimits().max_bytes);
  return LowerHfTokenizer(files, vocab_rows);
}

}  // namespace llmc
