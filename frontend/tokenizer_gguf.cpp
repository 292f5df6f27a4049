// The tokenizer in a GGUF file's metadata.
//
// The file names its kind and, for byte-level BPE, its pre-tokenizer; normalisation and all else follow from the names,
// as the tokenizer.json of those families says them. Token types: 1 normal, 2 unknown, 3 control, 4 user-defined, 5
// unused (padding, decodes to nothing), 6 byte.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_families.h"
#include "frontend/tokenizer_source.h"
#include "frontend/tokenizer_steps.h"

namespace llmc {
namespace {

constexpr int64_t kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr uint64_t kMaxEntries = 1 << 20;  // of a list; the largest vocabularies have a quarter of that
constexpr std::array<std::string_view, 5> kTurnEnds = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>",
                                                       "<|endoftext|>"};
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

class GgufLowering {
 public:
  GgufLowering(const GgufTokenizer& in, const std::string& file, int64_t vocab_rows) : in_(in), file_(file) {
    source_.file = file;
    source_.vocab_rows = vocab_rows;
  }

  LoweredTokenizer Run() {
    CheckLists();
    Ids();
    bool add_bos = false;
    if (in_.model == "gpt2") {
      add_bos = ByteLevel();
    } else if (in_.model == "llama") {
      add_bos = Scored();
    } else if (in_.model == "gemma4") {
      add_bos = CharMerges();
    } else if (in_.model == "t5") {
      Unigram();
    } else if (in_.model == "bert") {
      WordPiece();
    } else {
      FailUnsupportedTokenizer(At("model"), in_.model.empty() ? "a file without tokenizer.ggml.model"
                                                              : fmt::format("the model {}", in_.model));
    }
    add_bos = in_.add_bos.value_or(add_bos);
    if (in_.add_eos.value_or(false)) {
      Needs(source_.eos, "add_eos_token", "eos_token_id");
      AddEosToTemplates(source_);
    }
    if (add_bos && in_.add_bos) Needs(source_.bos, "add_bos_token", "bos_token_id");
    if (add_bos && source_.bos >= 0) AddBosToTemplates(source_);

    LoweredTokenizer out;
    out.stop_ids = StopIds();
    out.section = LowerTokenizer(source_);
    if (source_.bos >= 0) out.bos_id = static_cast<int32_t>(source_.bos);
    out.add_bos = source_.bos >= 0 && !source_.single.empty() && source_.single[0].id == source_.bos;
    return out;
  }

 private:
  Place At(const char* key) const { return {file_, std::string("tokenizer.ggml.") + key}; }
  void Needs(int64_t id, const char* flag, const char* key) const {
    if (id < 0) Fail(DiagKind::BadValue, At(flag), fmt::format("tokenizer: is true, but there is no {}", key));
  }
  int64_t Type(size_t i) const { return in_.token_type.empty() ? 1 : in_.token_type[i]; }

  void CheckLists() const {
    if (in_.tokens.empty()) Fail(DiagKind::MissingKey, At("tokens"), "tokenizer: there are no tokens");
    if (!in_.token_type.empty() && in_.token_type.size() != in_.tokens.size()) {
      Fail(DiagKind::BadValue, At("token_type"),
           fmt::format("tokenizer: {} types for {} tokens", in_.token_type.size(), in_.tokens.size()));
    }
    for (size_t i = 0; i < in_.token_type.size(); ++i) {
      if (in_.token_type[i] >= 1 && in_.token_type[i] <= kByte) continue;
      Fail(DiagKind::BadValue, At("token_type"),
           fmt::format("tokenizer: token {} has the type {}, types are 1 to {}", i, in_.token_type[i], kByte));
    }
  }
  void NeedScores() const {
    if (in_.scores.size() == in_.tokens.size()) return;
    Fail(DiagKind::BadValue, At("scores"),
         fmt::format("tokenizer: {} scores for {} tokens", in_.scores.size(), in_.tokens.size()));
  }

  int64_t Checked(const std::optional<int64_t>& id, const char* key) const {
    if (!id) return -1;
    if (*id < 0 || static_cast<uint64_t>(*id) >= in_.tokens.size()) {
      Fail(DiagKind::BadValue, At(key),
           fmt::format("tokenizer: id {} is outside the vocabulary of {}", *id, in_.tokens.size()));
    }
    return *id;
  }
  void Ids() {
    source_.bos = Checked(in_.bos_id, "bos_token_id");
    source_.eos = Checked(in_.eos_id, "eos_token_id");
    eot_ = Checked(in_.eot_id, "eot_token_id");
  }
  std::vector<int32_t> StopIds() const {
    std::vector<int32_t> out;
    for (const int64_t id : {source_.eos, eot_}) {
      if (id >= 0) out.push_back(static_cast<int32_t>(id));
    }
    for (size_t i = 0; i < in_.tokens.size(); ++i) {
      if (Type(i) != kUnused && std::find(kTurnEnds.begin(), kTurnEnds.end(), in_.tokens[i]) != kTurnEnds.end())
        out.push_back(static_cast<int32_t>(i));
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // All tokens by their texts; control and user-defined ones are added tokens. `unknown`: so are those of type unknown.
  void AddTokens(bool unknown) {
    for (size_t i = 0; i < in_.tokens.size(); ++i) {
      const int64_t type = Type(i);
      if (type == kUnused) continue;
      const auto id = static_cast<int64_t>(i);
      source_.vocabulary.emplace_back(in_.tokens[i], id);
      if (!in_.scores.empty()) source_.scores.push_back(static_cast<double>(in_.scores[i]));
      const bool control = type == kControl || (unknown && type == 2);
      if (control || type == kUserDefined)
        source_.added.push_back({std::string(in_.tokens[i]), id, control ? kAddedSpecial : 0, false});
    }
  }

  void AddMerges() {
    for (size_t rank = 0; rank < in_.merges.size(); ++rank) {
      // In a vocabulary over characters a part may begin with a space, so the one between is not the first.
      const size_t space = in_.merges[rank].find(' ', 1);
      if (in_.merges[rank].empty() || space == std::string_view::npos) {
        Fail(DiagKind::BadValue, At("merges"),
             fmt::format("tokenizer: merge {} is {}, two tokens with a space between are wanted", rank,
                         JsonQuote(in_.merges[rank])));
      }
      source_.merges.emplace_back(in_.merges[rank].substr(0, space), in_.merges[rank].substr(space + 1));
    }
  }

  bool ByteLevel() {
    GgufFamily family;
    if (!FindGgufFamily(in_.pre, family)) {
      FailUnsupportedTokenizer(At("pre"), in_.pre.empty() ? "a BPE model without tokenizer.ggml.pre"
                                                          : fmt::format("the pre-tokenizer {}", JsonQuote(in_.pre)));
    }
    source_.normalizers = std::move(family.normalizers);
    source_.cuts = std::move(family.cuts);
    source_.ignore_merges = family.ignore_merges;
    source_.decode.bytes = true;
    AddTokens(false);
    AddMerges();
    return family.add_bos;
  }

  // What SentencePiece models over characters have in common: spaces are marks, unknown characters bytes or unk.
  void Characters(bool space_prefix) {
    source_.model = TokenizerModel::CharBpe;
    source_.unk = Checked(in_.unk_id, "unknown_token_id");
    source_.fuse_unk = source_.byte_fallback = true;
    if (space_prefix) source_.normalizers.push_back({StepKind::Prepend, 0, {}, std::string(kSpaceMark)});
    source_.normalizers.push_back(ReplaceStep(" ", kSpaceMark));
    source_.decode.byte_fallback = true;
    source_.decode.steps.push_back(
        {.kind = DecodeStep::Kind::Metaspace, .from = std::string(kSpaceMark), .drop_first = false});
    source_.decode.strip_first = space_prefix ? 1 : 0;
    AddTokens(true);
  }

  bool Scored() {
    NeedScores();
    Characters(in_.add_space_prefix.value_or(true));
    AddAllMerges(source_, MergeOrder::Score);
    source_.scores.clear();
    StripAfterTurns();
    return true;
  }

  // The format has no flag for white space behind a control token; the family's tokenizer.json gives it to all but
  // these.
  void StripAfterTurns() {
    if (in_.architecture != kStripsAfterTurns) return;
    for (SourceAddedToken& token : source_.added) {
      if (token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>")
        token.flags |= kAddedStripRight;
    }
  }

  bool CharMerges() {
    Characters(in_.add_space_prefix.value_or(false));
    source_.scores.clear();
    AddMerges();
    return true;
  }

  void Unigram() {
    NeedScores();
    if (!in_.remove_extra_whitespaces.value_or(false))
      FailUnsupportedTokenizer(At("remove_extra_whitespaces"), "a Unigram model that keeps extra white space");
    if (!in_.add_space_prefix.value_or(true))
      FailUnsupportedTokenizer(At("add_space_prefix"), "a Unigram model without a space in front");
    source_.model = TokenizerModel::Unigram;
    source_.unk = Checked(in_.unk_id, "unknown_token_id");
    if (source_.unk < 0) Fail(DiagKind::MissingKey, At("unknown_token_id"), "tokenizer: a Unigram model needs it");
    if (!in_.charsmap.empty()) source_.normalizers.push_back(CharsmapStep(in_.charsmap));
    source_.cuts = {PatternStep(R"(\s)", SplitBehavior::Removed)};
    for (TokenizerStep& step : MetaspaceSteps(kSpaceMark, "always", true)) source_.cuts.push_back(std::move(step));
    source_.decode.steps.push_back(
        {.kind = DecodeStep::Kind::Metaspace, .from = std::string(kSpaceMark), .drop_first = true});
    AddTokens(true);
  }

  // A mark stands before the tokens that begin a word, nothing before those that go on, which Hugging Face marks with
  // ##.
  void WordPiece() {
    if (in_.pre != kLowerCasedWords) {
      FailUnsupportedTokenizer(At("pre"), in_.pre.empty() ? "a WordPiece model without tokenizer.ggml.pre"
                                                          : fmt::format("the pre-tokenizer {}", JsonQuote(in_.pre)));
    }
    source_.model = TokenizerModel::WordPiece;
    source_.continuing_prefix = "##";
    source_.max_word_chars = 100;
    source_.unk = Checked(in_.unk_id, "unknown_token_id");
    if (source_.unk < 0) Fail(DiagKind::MissingKey, At("unknown_token_id"), "tokenizer: a WordPiece model needs it");
    source_.normalizers = BertNormalizerSteps(true, true, true, true);
    source_.cuts = BertPreTokenizerSteps();
    source_.decode.steps.push_back({.kind = DecodeStep::Kind::WordPiece, .from = "##", .cleanup = true});
    for (size_t i = 0; i < in_.tokens.size(); ++i) {
      if (Type(i) == kUnused) continue;
      const std::string_view token = in_.tokens[i];
      const auto id = static_cast<int64_t>(i);
      std::string& text = texts_.emplace_back();
      if (token.starts_with(kSpaceMark)) {
        text = token.substr(kSpaceMark.size());
      } else if (Type(i) == 1 && !(token.starts_with('[') && token.ends_with(']'))) {
        text = "##" + std::string(token);
      } else {
        text = token;
        if (Type(i) != 1) source_.added.push_back({text, id, kAddedSpecial, false});
      }
      source_.vocabulary.emplace_back(text, id);
    }
    const int64_t cls = Checked(in_.cls_id ? in_.cls_id : in_.bos_id, "cls_token_id");
    const int64_t sep = Checked(in_.sep_id ? in_.sep_id : in_.eos_id, "seperator_token_id");
    if (cls < 0 || sep < 0)
      Fail(DiagKind::MissingKey, At("cls_token_id"), "tokenizer: a WordPiece model needs it and seperator_token_id");
    const auto first = static_cast<int32_t>(cls), last = static_cast<int32_t>(sep);
    source_.single = {{first, 0}, {kTemplateFirst, 0}, {last, 0}};
    source_.pair = {{first, 0}, {kTemplateFirst, 0}, {last, 0}, {kTemplateSecond, 1}, {last, 1}};
    source_.bos = cls;
  }

  const GgufTokenizer& in_;
  const std::string& file_;
  TokenizerSource source_;
  std::deque<std::string> texts_;  // that the source's views are into
  int64_t eot_ = -1;
};

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
  for (const char* key : {"tokens", "token_type", "merges", "scores"}) {
    const GgufValue* value = find(key);
    if (value != nullptr && value->type == GgufType::Array && value->count > kMaxEntries)
      Fail(DiagKind::TooLarge, {file, std::string("tokenizer.ggml.") + key},
           fmt::format("{} entries, at most {}", value->count, kMaxEntries));
  }
  GgufTokenizer out;
  out.model = text("model");
  out.pre = text("pre");
  if (const GgufValue* architecture = header.Find("general.architecture"))
    out.architecture = architecture->String().value_or("");
  out.tokens = texts("tokens");
  if (const GgufValue* types = find("token_type")) out.token_type = types->Ints();
  if (const GgufValue* scores = find("scores"); scores != nullptr && scores->IsArrayOf(GgufType::F32)) {
    out.scores.resize(scores->count);
    std::memcpy(out.scores.data(), scores->data.data(), scores->count * sizeof(float));
  }
  if (const GgufValue* map = find("precompiled_charsmap");
      map != nullptr && (map->IsArrayOf(GgufType::I8) || map->IsArrayOf(GgufType::U8))) {
    out.charsmap.assign(reinterpret_cast<const char*>(map->data.data()), map->data.size());
  }
  out.merges = texts("merges");
  out.bos_id = integer("bos_token_id");
  out.eos_id = integer("eos_token_id");
  out.eot_id = integer("eot_token_id");
  out.unk_id = integer("unknown_token_id");
  out.cls_id = integer("cls_token_id");
  out.sep_id = integer("seperator_token_id");
  out.add_bos = flag("add_bos_token");
  out.add_eos = flag("add_eos_token");
  out.add_space_prefix = flag("add_space_prefix");
  out.remove_extra_whitespaces = flag("remove_extra_whitespaces");
  return out;
}

LoweredTokenizer LowerGgufTokenizer(const GgufTokenizer& in, const std::string& file, int64_t vocab_rows) {
  return GgufLowering(in, file, vocab_rows).Run();
}

}  // namespace llmc
