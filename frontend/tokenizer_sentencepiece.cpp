// tokenizer.model beside no tokenizer.json, as transformers 5.24's AutoTokenizer reads it: by the class LlamaTokenizer
// (BPE, merges by id, nothing of the model's normalizer) or by TokenizersBackend, which follows the model's settings.
// Which of them it is the class in the configurations says, and what is registered for the model_type. Other classes
// give the same file other ids, so they are refused by name.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/pattern.h"
#include "frontend/preset.h"
#include "frontend/sentencepiece.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_config.h"
#include "frontend/tokenizer_source.h"
#include "frontend/tokenizer_steps.h"

namespace llmc {
namespace {

using PieceType = SentencePieceModel::Type;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kLlama = "LlamaTokenizer", kBackend = "TokenizersBackend";
// These end up as TokenizersBackend; a "Fast" behind any name doesn't count.
constexpr std::array<std::string_view, 4> kBackendNames = {kBackend, "PreTrainedTokenizer", "LLaMATokenizer", ""};
constexpr size_t kMaxWholeBytes = size_t{64} << 10;  // of a pattern that is to be compiled
constexpr int64_t kUnigram = 1, kBpe = 2;

Json ParseObject(const NamedText& file) {
  if (file.text.empty()) return {};
  Json root = ParseJson(file.text, file.name);
  if (!root.is(JsonKind::Object))
    Fail(DiagKind::BadValue, root.place(), "an object is wanted, found " + std::string(JsonKindText(root.kind())));
  return root;
}

struct ClassName {
  std::string name;
  Place place;
};

std::string WithoutFast(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return std::string(name);
}

// The class that AutoTokenizer takes.
ClassName ClassOf(const Json& config, const Json& model_config, const Place& file) {
  if (const Json map = FindValue(config, "auto_map"))
    FailUnsupportedTokenizer(map.place(), "a tokenizer with code of its own (auto_map)");
  Json declared = FindValue(config, "tokenizer_class");
  if (!declared) declared = FindValue(model_config, "tokenizer_class");
  ClassName out = {declared ? WithoutFast(declared.AsString()) : "", declared ? declared.place() : file};
  const Json type = FindValue(model_config, "model_type");
  if (!type) return out;
  const std::optional<RegisteredTokenizer> registered = FindRegisteredTokenizer(type.AsString());
  if (!registered) {
    FailUnsupportedTokenizer(type.place(), fmt::format("tokenizer.model without a tokenizer.json for the model_type {}",
                                                       JsonQuote(type.AsString())));
  }
  if (registered->name.empty() || (!out.name.empty() && !registered->always && registered->name != kBackend))
    return out;
  return {registered->name, type.place()};
}

class Conversion {
 public:
  Conversion(SentencePieceModel& model, const TokenizerConfigFiles& files, const std::string& file, bool backend)
      : model_(model), files_(files), file_(file), backend_(backend) {}

  LoweredTokenizer Run(int64_t vocab_rows) {
    source_.file = file_;
    source_.vocab_rows = vocab_rows;
    if (backend_) {
      Backend();
    } else {
      Llama();
    }
    AddedIds ids(source_);
    AddConfiguredTokens(files_, defaults_, ids, source_);
    if (prepends_ && std::any_of(source_.added.begin(), source_.added.end(),
                                 [](const SourceAddedToken& token) { return token.normalized; }))
      FailUnsupportedTokenizer({file_, ""}, "an added token that is normalised, with a legacy prefix, here");
    AddTemplates(ids);

    LoweredTokenizer out;
    out.section = LowerTokenizer(source_);
    if (source_.bos >= 0) out.bos_id = static_cast<int32_t>(source_.bos);
    out.add_bos = !source_.single.empty() && source_.single[0].id >= 0 && source_.single[0].id == source_.bos;
    if (source_.eos >= 0) out.stop_ids.push_back(static_cast<int32_t>(source_.eos));
    return out;
  }

 private:
  void Llama() {
    if (model_.model_type != kBpe) RefuseType();
    AddPieces(false);
    source_.model = TokenizerModel::CharBpe;
    source_.fuse_unk = source_.byte_fallback = true;  // without unk: what has no bytes is left out
    AddAllMerges(source_, MergeOrder::Id);
    const bool prefix = FlagOf(files_.config, "add_prefix_space", true);
    const std::string_view scheme = !prefix ? "never" : FlagOf(files_.config, "legacy", false) ? "always" : "first";
    source_.cuts = MetaspaceSteps(kSpaceMark, scheme, false);
    Decode(true, prefix);
    defaults_.named = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    defaults_.extra = SpecialPieces(true);
  }

  void Backend() {
    if (model_.model_type != kBpe && model_.model_type != kUnigram) RefuseType();
    defaults_.match_raw = model_.add_dummy_prefix;
    RenamePieces();
    AddPieces(true);
    std::vector<std::string_view> whole;  // user-defined pieces, which no merge may reach into
    for (const auto& piece : model_.pieces) {
      if (piece.type == PieceType::UserDefined) whole.emplace_back(piece.text);
    }
    if (model_.model_type == kUnigram) {
      source_.model = TokenizerModel::Unigram;
      if (model_.unk_id < 0) FailUnsupportedTokenizer({file_, "trainer_spec"}, "a Unigram model without unk_id");
      source_.unk = model_.unk_id;
    } else {
      source_.model = TokenizerModel::CharBpe;
      source_.fuse_unk = true;
      source_.ignore_merges = !whole.empty();
      source_.unk = FindPiece(model_.unk_piece);
      std::vector<bool> normal;
      for (const auto& piece : model_.pieces) normal.push_back(piece.type == PieceType::Normal);
      AddAllMerges(source_, MergeOrder::ScoreId, normal);
      source_.scores.clear();
    }
    source_.byte_fallback = model_.byte_fallback;
    Normalizers();
    if (!whole.empty()) KeepWhole(whole);
    Decode(model_.byte_fallback, model_.add_dummy_prefix);
    if (model_.bos_id >= 0) defaults_.named.emplace_back("bos_token", Or(model_.bos_piece, "<s>"));
    if (model_.eos_id >= 0) defaults_.named.emplace_back("eos_token", Or(model_.eos_piece, "</s>"));
    if (model_.unk_id >= 0) defaults_.named.emplace_back("unk_token", Or(model_.unk_piece, "<unk>"));
    defaults_.extra = SpecialPieces(false);
  }

  [[noreturn]] void RefuseType() const {
    FailUnsupportedTokenizer({file_, ""},
                             fmt::format("a SentencePiece model of type {} with the class {}{}", model_.model_type,
                                         backend_ ? kBackend : kLlama, backend_ ? "" : " (BPE is 2)"));
  }
  static std::string Or(const std::string& text, std::string_view otherwise) {
    return text.empty() ? std::string(otherwise) : text;
  }
  int64_t FindPiece(std::string_view text) const {
    const auto found = std::find_if(model_.pieces.begin(), model_.pieces.end(),
                                    [&](const SentencePieceModel::Piece& piece) { return piece.text == text; });
    return found == model_.pieces.end() ? -1 : found - model_.pieces.begin();
  }

  void AddPieces(bool scores) {
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      source_.vocabulary.emplace_back(model_.pieces[i].text, static_cast<int64_t>(i));
      if (scores) source_.scores.push_back(static_cast<double>(model_.pieces[i].score));
    }
  }

  // Pieces that the configuration knows by another text, unless a piece that keeps its own has that.
  void RenamePieces() {
    if (model_.model_type != kBpe) return;
    std::map<int64_t, std::string> names;
    for (StatedToken& stated : StatedTokens(files_, defaults_)) names[stated.id] = std::move(stated.token.content);
    std::set<std::string_view> kept;
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      if (!names.contains(static_cast<int64_t>(i))) kept.insert(model_.pieces[i].text);
    }
    for (auto& [id, name] : names) {
      if (id < static_cast<int64_t>(model_.pieces.size()) && !kept.contains(name))
        model_.pieces[static_cast<size_t>(id)].text = std::move(name);
    }
  }

  std::vector<SourceAddedToken> SpecialPieces(bool user_defined) const {
    std::vector<SourceAddedToken> out;
    for (const auto& piece : model_.pieces) {
      const bool control = piece.type == PieceType::Control;
      if (control || (user_defined && piece.type == PieceType::UserDefined))
        out.push_back({piece.text, -1, control ? kAddedSpecial : 0, false});
    }
    return out;
  }

  void Normalizers() {
    auto& steps = source_.normalizers;
    if (!model_.charsmap.empty()) steps.push_back(CharsmapStep(model_.charsmap));
    if (model_.remove_extra_whitespaces) {
      steps.push_back(StripStep(CodeSet::Of(' '), true, true));
      steps.push_back(ReplacePatternStep(" {2,}", " "));
    }
    if (model_.escape_whitespaces) steps.push_back(ReplaceStep(" ", kSpaceMark));
    if (!model_.add_dummy_prefix) return;
    if (FlagOf(files_.config, "legacy", true)) {
      // There: a mark is doubled, then Metaspace puts one where there is none. In all one more, always, as long as
      // no added token comes between the two.
      prepends_ = true;
      steps.push_back({StepKind::Prepend, 0, {}, std::string(kSpaceMark)});
      if (!model_.escape_whitespaces) source_.cuts = MetaspaceSteps(kSpaceMark, "never", false);
    } else {
      source_.cuts = MetaspaceSteps(kSpaceMark, "first", false);
    }
  }

  void KeepWhole(std::vector<std::string_view> texts) {
    size_t bytes = 0;
    for (const std::string_view text : texts) bytes += text.size();
    if (bytes > kMaxWholeBytes) {
      FailUnsupportedTokenizer(
          {file_, ""}, fmt::format("user-defined pieces of {} bytes in all (the limit is {})", bytes, kMaxWholeBytes));
    }
    auto characters = [](std::string_view text) {
      size_t count = 0;
      for (size_t at = 0; at < text.size(); ++count) at += DecodeUtf8(text, at).bytes;
      return count;
    };
    std::stable_sort(texts.begin(), texts.end(),
                     [&](std::string_view a, std::string_view b) { return characters(a) > characters(b); });
    PatternNode any{.kind = PatternNode::Kind::Choice};
    for (const std::string_view text : texts) any.parts.push_back(TextPattern(text));
    try {
      source_.cuts.push_back(SplitStep(CompilePattern(any)));
    } catch (const PatternError& e) {
      FailUnsupportedTokenizer({file_, ""},
                               fmt::format("the pattern of {} user-defined pieces {}, which", texts.size(), e.reason));
    }
  }

  void Decode(bool byte_fallback, bool strip) {
    source_.decode.byte_fallback = byte_fallback;
    source_.decode.steps.push_back({.kind = DecodeStep::Kind::Metaspace, .from = std::string(kSpaceMark)});
    source_.decode.strip_first = strip ? 1 : 0;
  }

  void AddTemplates(const AddedIds& ids) {
    auto id_of = [&](std::string_view key) {
      const std::optional<SourceAddedToken> token = FindNamedToken(files_, defaults_, key);
      return token ? ids.IdOf(token->content) : -1;
    };
    source_.bos = id_of("bos_token");
    source_.eos = id_of("eos_token");
    const bool bos = source_.bos >= 0 && FlagOf(files_.config, "add_bos_token", false);
    const bool eos = source_.eos >= 0 && FlagOf(files_.config, "add_eos_token", false);
    if (!bos && !eos) return;
    for (const uint32_t type : {0U, 1U}) {
      if (bos) source_.pair.push_back({static_cast<int32_t>(source_.bos), type});
      source_.pair.push_back({type == 0 ? kTemplateFirst : kTemplateSecond, type});
      if (eos) source_.pair.push_back({static_cast<int32_t>(source_.eos), type});
      if (type == 0) source_.single = source_.pair;
    }
  }

  SentencePieceModel& model_;
  const TokenizerConfigFiles& files_;
  const std::string& file_;
  bool backend_;
  bool prepends_ = false;  // every piece between added tokens has a mark in front
  TokenizerSource source_;
  TokenDefaults defaults_;
};

}  // namespace

LoweredTokenizer LowerSentencePiece(const SentencePieceFiles& files, int64_t vocab_rows) {
  SentencePieceModel model = ParseSentencePiece(files.model.text, files.model.name);
  const TokenizerConfigFiles named = {ParseObject(files.config), ParseObject(files.special_tokens_map),
                                      ParseObject(files.added_tokens), false};
  const ClassName found = ClassOf(named.config, ParseObject(files.model_config), {files.model.name, ""});
  const bool backend = std::find(kBackendNames.begin(), kBackendNames.end(), found.name) != kBackendNames.end();
  if (!backend && found.name != kLlama)
    FailUnsupportedTokenizer(found.place,
                             fmt::format("tokenizer.model with the tokenizer_class {}", JsonQuote(found.name)));
  return Conversion(model, named, files.model.name, backend).Run(vocab_rows);
}

}  // namespace llmc
