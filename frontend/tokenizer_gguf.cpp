// The tokenizer in a GGUF file's metadata.
//
// The file names its pre-tokenizer; normalisation, ignore_merges and the default of add_bos follow from the name, as
// the tokenizer.json of that family says them. Token types: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused
// (padding, decodes to nothing), 6 byte.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_families.h"
#include "frontend/tokenizer_source.h"

namespace llmc {
namespace {

constexpr int64_t kControl = 3, kUserDefined = 4, kUnused = 5;
constexpr uint64_t kMaxEntries = 1 << 20;  // of a list; the largest vocabularies have a quarter of that
constexpr std::array<std::string_view, 5> kTurnEnds = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>",
                                                       "<|endoftext|>"};

}  // namespace

std::optional<GgufTokenizer> ReadGgufTokenizer(const GgufHeader& header, const std::string& file) {
  auto find = [&](const char* key) { return header.Find(std::string("tokenizer.ggml.") + key); };
  auto text = [&](const char* key) {
    const GgufValue* value = find(key);
    return value != nullptr ? value->String().value_or("") : std::string_view();
  };
  auto texts = [&](const char* key) {
    const GgufValue* value = find(key);
    return value != nullptr ? value->Strings() : std::vector<std::string_view>();
  };
  auto integer = [&](const char* key) {
    const GgufValue* value = find(key);
    return value != nullptr ? value->Int() : std::nullopt;
  };
  auto flag = [&](const char* key) {
    const GgufValue* value = find(key);
    return value != nullptr ? value->Bool() : std::nullopt;
  };
  if (find("model") == nullptr) return std::nullopt;
  for (const char* key : {"tokens", "token_type", "merges"}) {
    const GgufValue* value = find(key);
    if (value != nullptr && value->type == GgufType::Array && value->count > kMaxEntries)
      Fail(DiagKind::TooLarge, {file, std::string("tokenizer.ggml.") + key},
           fmt::format("{} entries, at most {}", value->count, kMaxEntries));
  }
  GgufTokenizer out;
  out.model = text("model");
  out.pre = text("pre");
  out.tokens = texts("tokens");
  if (const GgufValue* types = find("token_type")) out.token_type = types->Ints();
  out.merges = texts("merges");
  out.bos_id = integer("bos_token_id");
  out.eos_id = integer("eos_token_id");
  out.eot_id = integer("eot_token_id");
  out.add_bos = flag("add_bos_token");
  out.add_eos = flag("add_eos_token");
  return out;
}

LoweredTokenizer LowerGgufTokenizer(const GgufTokenizer& in, const std::string& file, int64_t vocab_rows) {
  auto at = [&](const char* key) { return Place{file, std::string("tokenizer.ggml.") + key}; };
  if (in.model != "gpt2") {
    const std::string_view kind = in.model == "llama"  ? " (SentencePiece)"
                                  : in.model == "bert" ? " (WordPiece)"
                                  : in.model == "t5"   ? " (Unigram)"
                                                       : "";
    FailUnsupportedTokenizer(at("model"), in.model.empty() ? "a file without tokenizer.ggml.model"
                                                           : fmt::format("the model {}{}", in.model, kind));
  }
  GgufFamily family;
  if (!FindGgufFamily(in.pre, family)) {
    FailUnsupportedTokenizer(at("pre"), in.pre.empty() ? "a BPE model without tokenizer.ggml.pre"
                                                       : fmt::format("the pre-tokenizer {}", JsonQuote(in.pre)));
  }
  if (in.tokens.empty()) Fail(DiagKind::MissingKey, at("tokens"), "tokenizer: there are no tokens");
  if (!in.token_type.empty() && in.token_type.size() != in.tokens.size()) {
    Fail(DiagKind::BadValue, at("token_type"),
         fmt::format("tokenizer: {} types for {} tokens", in.token_type.size(), in.tokens.size()));
  }
  if (in.add_eos.value_or(false)) FailUnsupportedTokenizer(at("add_eos_token"), "add_eos_token");

  TokenizerSource source;
  source.file = file;
  source.vocab_rows = vocab_rows;
  source.normalizers = std::move(family.normalizers);
  source.cuts = std::move(family.cuts);
  source.ignore_merges = family.ignore_merges;
  source.decode.bytes = true;
  LoweredTokenizer out;
  auto stop = [&](int64_t id) { out.stop_ids.push_back(static_cast<int32_t>(id)); };
  for (size_t i = 0; i < in.tokens.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    const int64_t type = in.token_type.empty() ? 1 : in.token_type[i];
    if (type == kUnused) continue;
    if (std::find(kTurnEnds.begin(), kTurnEnds.end(), in.tokens[i]) != kTurnEnds.end()) stop(id);
    source.vocabulary.emplace_back(in.tokens[i], id);
    if (type == kControl || type == kUserDefined)
      source.added.push_back({std::string(in.tokens[i]), id, type == kControl ? kAddedSpecial : 0, false});
  }
  for (size_t rank = 0; rank < in.merges.size(); ++rank) {
    const size_t space = in.merges[rank].find(' ');
    if (space == std::string_view::npos) {
      Fail(DiagKind::BadValue, at("merges"),
           fmt::format("tokenizer: merge {} is {}, two tokens with a space between are wanted", rank,
                       JsonQuote(in.merges[rank])));
    }
    source.merges.emplace_back(in.merges[rank].substr(0, space), in.merges[rank].substr(space + 1));
  }
  auto checked = [&](const std::optional<int64_t>& id, const char* key) -> int64_t {
    if (!id) return -1;
    if (*id < 0 || static_cast<uint64_t>(*id) >= in.tokens.size()) {
      Fail(DiagKind::BadValue, at(key),
           fmt::format("tokenizer: id {} is outside the vocabulary of {}", *id, in.tokens.size()));
    }
    return *id;
  };
  source.bos = checked(in.bos_id, "bos_token_id");
  source.eos = checked(in.eos_id, "eos_token_id");
  if (source.eos >= 0) stop(source.eos);
  if (const int64_t eot = checked(in.eot_id, "eot_token_id"); eot >= 0) stop(eot);
  const bool add_bos = in.add_bos.value_or(family.add_bos) && source.bos >= 0;
  if (add_bos) AddBosToTemplates(source);
  std::sort(out.stop_ids.begin(), out.stop_ids.end());
  out.stop_ids.erase(std::unique(out.stop_ids.begin(), out.stop_ids.end()), out.stop_ids.end());
  out.section = LowerTokenizer(source);
  if (source.bos >= 0) out.bos_id = static_cast<int32_t>(source.bos);
  out.add_bos = add_bos;
  return out;
}

}  // namespace llmc
