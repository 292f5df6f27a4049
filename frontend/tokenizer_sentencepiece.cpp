// tokenizer.model beside no tokenizer.json: BPE with byte fallback, as transformers' LlamaTokenizer makes a tokenizer
// of it. Other classes give the same file other ids, normalizers or special tokens, so they are refused by name.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/sentencepiece.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_source.h"
#include "frontend/tokenizer_steps.h"

namespace llmc {
namespace {

using PieceType = SentencePieceModel::Type;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kClasses[] = {"LlamaTokenizer", "LlamaTokenizerFast"};

bool Flag(const Json& config, std::string_view key, bool otherwise) {
  const Json value = config ? FindValue(config, key) : Json();
  return value ? value.AsBool() : otherwise;
}

int64_t Named(const Json& config, std::string_view key, const SentencePieceModel& model, int64_t otherwise) {
  Json value = config ? FindValue(config, key) : Json();
  if (value && value.is(JsonKind::Object)) value = FindValue(value, "content");
  if (!value) return otherwise;
  const auto found = std::find_if(model.pieces.begin(), model.pieces.end(),
                                  [&](const SentencePieceModel::Piece& p) { return p.text == value.AsString(); });
  return found == model.pieces.end() ? -1 : found - model.pieces.begin();
}

void CheckSupported(const SentencePieceModel& model, const Json& config, const std::string& file) {
  const Place place = {file, ""};
  if (model.model_type != 2)
    FailUnsupportedTokenizer(
        place, fmt::format("a SentencePiece model of type {} (BPE is 2) without a tokenizer.json", model.model_type));
  if (!model.byte_fallback) FailUnsupportedTokenizer(place, "a SentencePiece model without byte_fallback");
  if (!model.charsmap.empty()) FailUnsupportedTokenizer(place, "a SentencePiece BPE model with a charsmap");
  if (!model.escape_whitespaces || model.whitespace_as_suffix)
    FailUnsupportedTokenizer(place, "a SentencePiece model that marks spaces otherwise than by a leading mark");
  const Json name = config ? FindValue(config, "tokenizer_class") : Json();
  if (name && std::find(std::begin(kClasses), std::end(kClasses), name.AsString()) == std::end(kClasses))
    FailUnsupportedTokenizer(name.place(), fmt::format("tokenizer.model with the tokenizer_class {}", name.source()));
}

}  // namespace

LoweredTokenizer LowerSentencePiece(std::string_view bytes, const std::string& file, const NamedText& config_text,
                                    int64_t vocab_rows) {
  const SentencePieceModel model = ParseSentencePiece(bytes, file);
  const Json config = config_text.text.empty() ? Json() : ParseJson(config_text.text, config_text.name);
  CheckSupported(model, config, file);
  TokenizerSource source;
  source.file = file;
  source.vocab_rows = vocab_rows;
  source.model = TokenizerModel::CharBpe;
  source.fuse_unk = source.byte_fallback = true;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model.pieces[i];
    const auto id = static_cast<int64_t>(i);
    source.vocabulary.emplace_back(piece.text, id);
    if (piece.type == PieceType::Control || piece.type == PieceType::UserDefined || piece.type == PieceType::Unknown)
      source.added.push_back({piece.text, id, piece.type == PieceType::UserDefined ? 0 : kAddedSpecial, false});
  }
  AddIdOrderedMerges(source);
  source.unk = model.unk_id;
  source.bos = Named(config, "bos_token", model, model.bos_id);
  source.eos = Named(config, "eos_token", model, model.eos_id);
  const bool prefix = Flag(config, "add_prefix_space", true);
  const std::string_view scheme = !prefix ? "never" : Flag(config, "legacy", false) ? "always" : "first";
  source.cuts = MetaspaceSteps(kSpaceMark, scheme, false);
  source.decode.byte_fallback = true;
  source.decode.steps.push_back({.kind = DecodeStep::Kind::Metaspace, .from = std::string(kSpaceMark)});
  source.decode.strip_first = prefix ? 1 : 0;
  if (source.eos >= 0 && Flag(config, "add_eos_token", false)) AddEosToTemplates(source);
  const bool add_bos = source.bos >= 0 && Flag(config, "add_bos_token", false);
  if (add_bos) AddBosToTemplates(source);

  LoweredTokenizer out;
  out.section = LowerTokenizer(source);
  if (source.bos >= 0) out.bos_id = static_cast<int32_t>(source.bos);
  out.add_bos = add_bos;
  if (source.eos >= 0) out.stop_ids.push_back(static_cast<int32_t>(source.eos));
  return out;
}

}  // namespace llmc
