// From a vocabulary and its settings to the tables of the plan.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "frontend/pattern.h"
#include "frontend/tokenizer_source.h"
#include "frontend/unicode.h"
#include "runtime/plan_error.h"
#include "runtime/plan_tokenizer_steps.h"

namespace llmc {
namespace {

// Ids may leave holes, but not so large that a small file makes a large table.
constexpr int64_t kMaxHoles = 65536;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// English clean-up of a WordPiece decoder.
std::string CleanedUp(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = Replaced(std::move(text), from, to);
  return text;
}

// Runs text-changing steps as the runtime will.
std::string RunSteps(const std::vector<TokenizerStep>& steps, std::string text) {
  for (const TokenizerStep& step : steps) {
    const std::string data = step.table + step.text;
    const StepRecord record = {step.kind, step.flags, {0, step.table.size()}, {step.table.size(), step.text.size()}};
    std::string out;
    SourceSpans spans;
    uint64_t work = 0;
    if (TextStep(record, data).Change({text}, false, out, spans, work)) text = out;
  }
  return text;
}

class Decoder {
 public:
  explicit Decoder(const DecodePlan& plan) : plan_(plan) {}

  std::string Text(std::string_view token, bool first) const {
    std::string text(token);
    for (const DecodeStep& step : plan_.steps) text = Apply(step, std::move(text), first);
    return text;
  }

 private:
  static std::string Apply(const DecodeStep& step, std::string text, bool first) {
    switch (step.kind) {
      case DecodeStep::Kind::Replace: return RunSteps({{StepKind::Replace, 0, step.table, step.text}}, std::move(text));
      case DecodeStep::Kind::Metaspace:
        return Replaced(std::move(text), step.from, first && step.drop_first ? "" : " ");
      case DecodeStep::Kind::WordPiece:
        if (!first) {
          if (text.starts_with(step.from)) {
            text.erase(0, step.from.size());
          } else {
            text.insert(0, " ");
          }
        }
        return step.cleanup ? CleanedUp(std::move(text)) : text;
      case DecodeStep::Kind::Strip:
        for (uint32_t i = 0; i < step.start && text.starts_with(step.from); ++i) text.erase(0, step.from.size());
        for (uint32_t i = 0; i < step.stop && text.ends_with(step.from); ++i)
          text.resize(text.size() - step.from.size());
        return text;
      case DecodeStep::Kind::Join: return first ? text : " " + text;
    }
    return text;
  }

  const DecodePlan& plan_;
};

class Lowering {
 public:
  explicit Lowering(const TokenizerSource& source) : source_(source), decoder_(source.decode) {}

  TokenizerTables Run() {
    tables_.model = source_.model;
    Size();
    AddVocabulary();
    AddBytes();
    AddMerges();
    AddAdded();
    tables_.normalizers = source_.normalizers;
    tables_.cuts = source_.cuts;
    CheckFirstPrefix();
    tables_.single = source_.single;
    tables_.pair = source_.pair;
    CheckTemplates();
    tables_.ignore_merges = source_.ignore_merges;
    tables_.fuse_unk = source_.fuse_unk || source_.model == TokenizerModel::Unigram;
    tables_.byte_fallback = source_.byte_fallback;
    tables_.strip_first = source_.decode.strip_first;
    tables_.continuing_prefix = source_.continuing_prefix;
    tables_.max_word_chars = source_.max_word_chars;
    tables_.bos = Optional(source_.bos, "bos");
    tables_.eos = Optional(source_.eos, "eos");
    tables_.unk = Optional(source_.unk, "unk");
    tables_.word_classes = WordClassTable();
    CutAtSpaceMarks();
    return std::move(tables_);
  }

 private:
  [[noreturn]] void Bad(const std::string& message) const { Fail(DiagKind::BadValue, {source_.file, ""}, message); }
  bool byte_level() const { return source_.model == TokenizerModel::ByteBpe; }

  void Size() {
    int64_t last = -1;
    std::string_view of;
    auto take = [&](std::string_view text, int64_t id) {
      if (id < 0) Bad(fmt::format("tokenizer: token {} has the id {}", JsonQuote(text), id));
      if (id > last) {
        last = id;
        of = text;
      }
    };
    for (const auto& [text, id] : source_.vocabulary) take(text, id);
    for (const SourceAddedToken& token : source_.added) take(token.content, token.id);
    if (source_.vocab_rows > 0 && last >= source_.vocab_rows) {
      Bad(fmt::format("tokenizer: token {} has the id {}, the model's embedding has {} rows", JsonQuote(of), last,
                      source_.vocab_rows));
    }
    const auto entries = static_cast<int64_t>(source_.vocabulary.size() + source_.added.size());
    if (last >= std::min<int64_t>(kMaxTokens, entries + kMaxHoles)) {
      Bad(fmt::format("tokenizer: token {} has the id {}; with {} tokens ids must be below {}", JsonQuote(of), last,
                      entries, std::min<int64_t>(kMaxTokens, entries + kMaxHoles)));
    }
    const auto count = static_cast<size_t>(last + 1);
    tables_.tokens.resize(count);
    tables_.token_flags.resize(count);
    if (!byte_level()) {
      tables_.pieces.resize(count);
      tables_.first_texts.resize(count);
    }
    if (source_.model == TokenizerModel::Unigram) tables_.scores.resize(count);
  }

  // What a token of a model over characters decodes to.
  void SetTexts(size_t index, std::string_view text) {
    tables_.token_flags[index] &= static_cast<uint8_t>(~kTokenByte);
    if (const int byte = source_.decode.byte_fallback ? ByteOfToken(text) : -1; byte >= 0) {
      tables_.token_flags[index] |= kTokenByte;
      tables_.tokens[index] = tables_.first_texts[index] = std::string(1, static_cast<char>(byte));
      return;
    }
    tables_.tokens[index] = decoder_.Text(text, false);
    tables_.first_texts[index] = decoder_.Text(text, true);
  }

  void AddVocabulary() {
    ids_.reserve(source_.vocabulary.size());
    std::vector<bool> taken(tables_.tokens.size());
    for (size_t i = 0; i < source_.vocabulary.size(); ++i) {
      const auto& [text, id] = source_.vocabulary[i];
      const auto index = static_cast<size_t>(id);
      if (taken[index])
        Bad(fmt::format("tokenizer: token {} has the id {}, which another token has too", JsonQuote(text), id));
      taken[index] = true;
      const auto [known, fresh] = ids_.emplace(text, static_cast<int32_t>(id));
      if (!fresh) {
        if (source_.model != TokenizerModel::Unigram)
          Bad(fmt::format("tokenizer: token {} is there twice, with ids {} and {}", JsonQuote(text), known->second,
                          id));
        known->second = static_cast<int32_t>(id);
      }
      if (source_.model == TokenizerModel::Unigram) {
        if (!std::isfinite(source_.scores[i]))
          Bad(fmt::format("tokenizer: token {} has the score {}", JsonQuote(text), source_.scores[i]));
        tables_.scores[index] = source_.scores[i];
      }
      if (byte_level()) {
        if (BytesOfAlphabet(text, tables_.tokens[index])) {
          tables_.token_flags[index] = kTokenInModel;
        } else {
          tables_.tokens[index] = text;
        }
        continue;
      }
      tables_.token_flags[index] = kTokenInModel;
      tables_.pieces[index] = text;
      SetTexts(index, text);
    }
  }

  void AddBytes() {
    for (size_t byte = 0; byte < 256; ++byte) {
      std::string text;
      if (byte_level()) {
        AppendUtf8(text, LetterOfByte(static_cast<uint8_t>(byte)));
      } else {
        text = fmt::format("<0x{:02X}>", byte);
      }
      const auto found = ids_.find(text);
      tables_.byte_ids[byte] = found == ids_.end() ? -1 : found->second;
    }
  }

  void AddMerges() {
    tables_.merges.reserve(source_.merges.size());
    auto find = [&](std::string_view part, size_t rank) {
      const auto found = ids_.find(part);
      if (found == ids_.end())
        Bad(fmt::format("tokenizer: merge {} needs the token {}, which isn't in the vocabulary", rank,
                        JsonQuote(part)));
      return found->second;
    };
    for (size_t rank = 0; rank < source_.merges.size(); ++rank) {
      const auto& [left, right] = source_.merges[rank];
      tables_.merges.push_back({find(left, rank), find(right, rank), find(std::string(left).append(right), rank)});
    }
  }

  void AddAdded() {
    std::vector<std::string_view> at(tables_.tokens.size());
    for (const auto& [text, id] : source_.vocabulary) at[static_cast<size_t>(id)] = text;
    for (const SourceAddedToken& token : source_.added) {
      if (token.content.empty()) continue;
      const auto index = static_cast<size_t>(token.id);
      const auto known = ids_.find(token.content);
      if (known != ids_.end() && known->second != token.id) {
        Bad(fmt::format("tokenizer: added token {} has the id {}, the vocabulary gives it {}", JsonQuote(token.content),
                        token.id, known->second));
      }
      if (!at[index].empty() && at[index] != token.content) {
        Bad(fmt::format("tokenizer: added token {} has the id {}, which is {}", JsonQuote(token.content), token.id,
                        JsonQuote(at[index])));
      }
      at[index] = token.content;
      std::string content = token.normalized ? RunSteps(source_.normalizers, token.content) : token.content;
      if (content.empty()) {
        Bad(fmt::format("tokenizer: nothing is left of the added token {} once it is normalised",
                        JsonQuote(token.content)));
      }
      uint8_t& flags = tables_.token_flags[index];
      if (byte_level()) {
        if (tables_.tokens[index] != content) flags = 0;  // what BPE makes of its bytes is another token
        tables_.tokens[index] = content;
      } else {
        SetTexts(index, content);
      }
      flags |= kTokenAdded;
      if ((token.flags & kAddedSpecial) != 0) flags |= kTokenSpecial;
      (token.normalized ? tables_.added_normalized : tables_.added_raw)
          .push_back({std::move(content), static_cast<int32_t>(token.id), token.flags});
    }
    KeepOneOfEach(tables_.added_normalized);
  }

  // Added tokens that became equal when normalised: the last counts, as where a table is filled in their order.
  static void KeepOneOfEach(std::vector<AddedToken>& added) {
    std::unordered_map<std::string, size_t> last;
    for (size_t i = 0; i < added.size(); ++i) last[added[i].content] = i;
    std::vector<AddedToken> kept;
    for (size_t i = 0; i < added.size(); ++i) {
      if (last.at(added[i].content) == i) kept.push_back(std::move(added[i]));
    }
    added = std::move(kept);
  }

  // A prefix of the first piece alone is for the piece that begins where the original text does. Hugging Face's reckons
  // that by offsets, which depend on how each normalizer counts what it took away or replaced.
  void CheckFirstPrefix() const {
    const auto first = [](const TokenizerStep& step) { return (step.flags & kStepFirstOnly) != 0; };
    const auto drops = [](const TokenizerStep& step) {
      return step.kind == StepKind::Strip || step.kind == StepKind::Map || step.kind == StepKind::Charsmap ||
             (step.kind == StepKind::Replace && step.text.empty());
    };
    if (std::any_of(source_.cuts.begin(), source_.cuts.end(), first) &&
        std::any_of(source_.normalizers.begin(), source_.normalizers.end(), drops)) {
      FailUnsupportedTokenizer({source_.file, ""},
                               "a prefix of the first piece alone behind a normalizer that takes text away");
    }
  }

  void CheckTemplates() const {
    for (const auto* pieces : {&source_.single, &source_.pair}) {
      for (const TemplatePiece& piece : *pieces) {
        if (piece.id >= static_cast<int64_t>(tables_.tokens.size())) {
          Bad(fmt::format("tokenizer: the post-processor adds the id {}, the vocabulary has {}", piece.id,
                          tables_.tokens.size()));
        }
      }
    }
  }

  int32_t Optional(int64_t id, const char* what) const {
    if (id < -1 || id >= static_cast<int64_t>(tables_.tokens.size())) {
      Bad(fmt::format("tokenizer: {} id {} is outside the vocabulary of {} tokens", what, id, tables_.tokens.size()));
    }
    return static_cast<int32_t>(id);
  }

  // Where no token can reach from a character over the space mark behind it, the text is cut there: pieces become
  // words, and most words are tokens. J is the set of characters that a token may join to a mark behind them. Does
  // nothing where that isn't certain: a piece is looked up as a whole (ignore_merges), or byte and unk tokens, which
  // stand for other characters than they show, take part in such a merge, or sums of scores are not exact.
  void CutAtSpaceMarks() {
    const bool unigram = source_.model == TokenizerModel::Unigram;
    if ((source_.model != TokenizerModel::CharBpe && !unigram) || source_.ignore_merges || !ids_.contains(kSpaceMark) ||
        tables_.cuts.size() >= kMaxTokenizerSteps) {
      return;
    }
    std::vector<CodeRange> joined = {{0x2581, 0x2581}};
    auto join = [&](std::string_view left) {
      const uint32_t c = DecodeUtf8Before(left, left.size()).value;
      joined.push_back({c, c});
    };
    if (unigram) {
      if (!ScoresAreExact()) return;
      for (const auto& [text, id] : source_.vocabulary) {
        for (size_t at = 1; (at = text.find(kSpaceMark, at)) != std::string_view::npos; ++at) join(text.substr(0, at));
      }
    } else {
      for (const auto& [left, right] : source_.merges) {
        if (!right.starts_with(kSpaceMark)) continue;
        if (ByteOfToken(left) >= 0 || ids_.at(left) == source_.unk) return;
        join(left);
      }
    }
    const PatternNode marks_and_joined = SetPattern(CodeSet(joined));
    const PatternNode others = SetPattern(~CodeSet(joined));
    joined.erase(joined.begin());
    const CodeSet joiners = CodeSet(joined) & ~CodeSet::Of(0x2581);
    auto repeat = [](const PatternNode& part, uint32_t min) {
      PatternNode node{.kind = PatternNode::Kind::Repeat};
      node.parts = {part};
      node.min = min;
      node.max = kUnlimited;
      return node;
    };
    auto sequence = [](std::vector<PatternNode> parts) {
      PatternNode node{.kind = PatternNode::Kind::Sequence};
      node.parts = std::move(parts);
      return node;
    };
    // With U the mark and N all but U and J: [UJ]* (N+ J [UJ]*)* N*, which no empty text may match, so one of them
    // first.
    const PatternNode tail =
        sequence({repeat(sequence({repeat(others, 1), SetPattern(joiners), repeat(marks_and_joined, 0)}), 0),
                  repeat(others, 0)});
    PatternNode piece{.kind = PatternNode::Kind::Choice};
    piece.parts = {sequence({repeat(marks_and_joined, 1), tail}),
                   sequence({repeat(others, 1), SetPattern(joiners), repeat(marks_and_joined, 0), tail}),
                   repeat(others, 1)};
    if (joiners.empty()) piece.parts = {sequence({repeat(marks_and_joined, 1), repeat(others, 0)}), repeat(others, 1)};
    try {
      tables_.cuts.push_back(SplitStep(CompilePattern(piece)));
    } catch (const PatternError&) {
      return;  // too many characters join: not worth a table
    }
  }

  // Whether sums of up to 2^20 scores are exact in f64, in any order: all are multiples of one power of two.
  bool ScoresAreExact() const {
    constexpr int kSumBits = 53 - 20;
    double most = 1, least = 0;
    for (const double score : source_.scores) {
      most = std::max(most, std::fabs(score));
      least = std::min(least, score);
    }
    const int top = std::ilogb(most + 10) + 1;  // unk's is 10 below the least
    for (const double score : source_.scores) {
      const double scaled = std::ldexp(score, kSumBits - top);
      if (scaled != std::floor(scaled)) return false;
    }
    return std::ldexp(least, kSumBits - top) == std::floor(std::ldexp(least, kSumBits - top));
  }

  const TokenizerSource& source_;
  Decoder decoder_;
  TokenizerTables tables_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace

bool BytesOfAlphabet(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    const int byte = c.valid ? ByteOfLetter(c.value) : -1;
    if (byte < 0) return false;
    bytes.push_back(static_cast<char>(byte));
    at += c.bytes;
  }
  return true;
}

int ByteOfToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// Each way to split a token is looked up, so the work grows with the square of this. Trainers stop at 16 characters.
constexpr size_t kMaxMergedBytes = 512;

void AddAllMerges(TokenizerSource& source, MergeOrder order, const std::vector<bool>& usable) {
  struct Way {
    double rank;
    std::array<int64_t, 3> then;
    std::string_view left, right;
  };
  std::unordered_map<std::string_view, int64_t> ids;
  for (size_t i = 0; i < source.vocabulary.size(); ++i) {
    if (usable.empty() || usable[i]) ids.emplace(source.vocabulary[i]);
  }
  std::vector<Way> ways;
  for (size_t i = 0; i < source.vocabulary.size(); ++i) {
    if (!usable.empty() && !usable[i]) continue;
    const auto& [text, id] = source.vocabulary[i];
    if (text.size() > kMaxMergedBytes) {
      Fail(DiagKind::TooLarge, {source.file, ""},
           fmt::format("tokenizer: token {} has {} bytes; in a vocabulary without merges {} are the limit", id,
                       text.size(), kMaxMergedBytes));
    }
    int64_t characters = 0;
    for (size_t at = 0; at < text.size(); ++characters) at += DecodeUtf8(text, at).bytes;
    int64_t before = 0;
    for (size_t at = 0; at < text.size(); at += DecodeUtf8(text, at).bytes, ++before) {
      const auto left = at > 0 ? ids.find(text.substr(0, at)) : ids.end();
      const auto right = left != ids.end() ? ids.find(text.substr(at)) : ids.end();
      if (right == ids.end()) continue;
      Way way = {order == MergeOrder::Id ? static_cast<double>(id) : -source.scores[i], {}, left->first, right->first};
      switch (order) {
        case MergeOrder::Score: way.then = {-before, before - characters, id}; break;
        case MergeOrder::Id: way.then = {before, 0, 0}; break;
        case MergeOrder::ScoreId: way.then = {id, before, 0}; break;
      }
      ways.push_back(way);
    }
  }
  std::sort(ways.begin(), ways.end(),
            [](const Way& a, const Way& b) { return std::tie(a.rank, a.then) < std::tie(b.rank, b.then); });
  for (const Way& way : ways) source.merges.emplace_back(way.left, way.right);
}

void AddBosToTemplates(TokenizerSource& source) {
  const auto bos = static_cast<int32_t>(source.bos);
  if (source.single.empty()) source.single = {{kTemplateFirst, 0}};
  if (source.pair.empty()) source.pair = {{kTemplateFirst, 0}, {kTemplateSecond, 1}};
  source.single.insert(source.single.begin(), {bos, 0});
  source.pair.insert(source.pair.begin(), {bos, 0});
}

void AddEosToTemplates(TokenizerSource& source) {
  const auto eos = static_cast<int32_t>(source.eos);
  if (source.single.empty()) source.single = {{kTemplateFirst, 0}};
  if (source.pair.empty()) source.pair = {{kTemplateFirst, 0}, {kTemplateSecond, 1}};
  for (auto* pieces : {&source.single, &source.pair}) {
    std::vector<TemplatePiece> out;
    for (const TemplatePiece& piece : *pieces) {
      out.push_back(piece);
      if (piece.id < 0) out.push_back({eos, piece.type});
    }
    *pieces = std::move(out);
  }
}

std::string LowerTokenizer(const TokenizerSource& source) {
  try {
    return BuildTokenizerSection(Lowering(source).Run());
  } catch (const PlanError& e) {
    Fail(DiagKind::BadValue, {source.file, ""}, e.what());
  }
}

void FailUnsupportedTokenizer(Place place, const std::string& what) {
  Fail(DiagKind::Unsupported, std::move(place),
       "tokenizer: " + what + " isn't supported; --no-tokenizer compiles the model without its tokenizer");
}

}  // namespace llmc
