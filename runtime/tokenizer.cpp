// Encoding. Order of stages and all corner cases follow Hugging Face's tokenizers, which is the oracle of the tests.
#include "runtime/tokenizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/plan_error.h"
#include "runtime/plan_load.h"
#include "runtime/plan_tokenizer_model.h"

namespace llmc {
namespace {

// Added tokens of one stage, ascending by content.
class AddedTokens {
 public:
  AddedTokens(const TokenizerSection& s, TokenizerTable slots, TokenizerTable first)
      : slots_(s.table(slots)), first_(s.table(first)), bytes_(s.table(TokenizerTable::AddedBytes)) {}
  bool empty() const { return slots_.empty(); }
  AddedSlot slot(size_t index) const { return LoadAt<AddedSlot>(slots_, index); }
  // Index of the longest added token that begins at text[at], or -1.
  int64_t Find(std::string_view text, size_t at, uint64_t& steps) const;
  // The first place from `at` on whose byte begins an added token; text.size() if there is none.
  size_t Place(std::string_view text, size_t at, uint64_t& steps) const {
    const size_t from = at;
    const char* first = first_.data();  // u32[257], if there is any token
    if (slots_.empty()) return text.size();
    for (; at < text.size(); ++at) {
      std::array<uint32_t, 2> range;
      std::memcpy(&range, first + size_t{4} * static_cast<uint8_t>(text[at]), sizeof range);
      if (range[0] != range[1]) break;
    }
    steps += at - from;
    return at;
  }

 private:
  std::string_view Content(size_t index) const {
    const AddedSlot s = slot(index);
    return s.begin <= s.end && s.end <= bytes_.size() ? bytes_.substr(s.begin, s.end - s.begin) : std::string_view();
  }
  std::string_view slots_, first_, bytes_;
};

int64_t AddedTokens::Find(std::string_view text, size_t at, uint64_t& steps) const {
  const auto byte = static_cast<uint8_t>(text[at]);
  ++steps;
  size_t low = LoadAt<uint32_t>(first_, byte);
  size_t high = std::min<size_t>(LoadAt<uint32_t>(first_, size_t{byte} + 1), slots_.size() / sizeof(AddedSlot));
  int64_t best = -1;
  // Tokens low to high all begin with the `matched` bytes at text[at]; one that is no longer comes first.
  for (size_t matched = 1; low < high && matched <= kMaxAddedTokenBytes; ++matched) {
    steps += static_cast<uint64_t>(std::bit_width(high - low));
    if (Content(low).size() == matched) best = static_cast<int64_t>(low++);
    if (at + matched >= text.size()) break;
    const auto next = static_cast<uint8_t>(text[at + matched]);
    auto bound = [&](size_t from, int value) {  // the first whose byte `matched` is at least value
      size_t to = high;
      while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const std::string_view content = Content(middle);
        const int found = matched < content.size() ? static_cast<uint8_t>(content[matched]) : -1;
        if (found < value) {
          from = middle + 1;
        } else {
          to = middle;
        }
      }
      return from;
    };
    low = bound(low, next);
    high = bound(low, next + 1);
  }
  return best;
}

// The text with U+FFFD for what isn't UTF-8; where it comes from is appended to spans.
std::string Replaced(std::string_view text, size_t origin, SourceSpans* spans) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    out += c.valid ? text.substr(at, c.bytes) : kReplacementText;
    const auto begin = static_cast<uint32_t>(origin + at);
    if (spans != nullptr) spans->resize(spans->size() + (c.valid ? c.bytes : 3), {begin, begin + c.bytes});
    at += c.bytes;
  }
  return out;
}

// The span of whole characters around a span of text.
SourceSpan WholeCharacters(std::string_view text, SourceSpan span) {
  auto start = [&](uint32_t at) {  // of the character that byte `at` is inside of
    for (uint32_t back = 1; back <= 3 && back <= at; ++back) {
      const CodePoint c = DecodeUtf8(text, at - back);
      if (c.valid && c.bytes > back) return at - back;
    }
    return at;
  };
  span.begin = span.begin < text.size() ? start(span.begin) : span.begin;
  if (span.end > span.begin && span.end < text.size()) {
    const uint32_t last = start(span.end);
    if (last != span.end) span.end = last + DecodeUtf8(text, last).bytes;
  }
  return span;
}

}  // namespace

// One call of Encode.
class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, bool offsets, Tokenizer::Work& work, Encoding& out)
      : t_(tokenizer),
        s_(tokenizer.section_),
        raw_(s_, TokenizerTable::AddedRaw, TokenizerTable::AddedRawFirst),
        normalized_(s_, TokenizerTable::AddedNormalized, TokenizerTable::AddedNormalizedFirst),
        offsets_(offsets),
        work_(work),
        out_(out),
        model_(s_, work.steps),
        normalized_text_(tokenizer.normalizers_.size()),
        cut_text_(tokenizer.cuts_.size()) {}

  void Encode(std::span<const TextSegment> segments) {
    if (segments.empty()) return;
    std::string joined;
    std::string_view text = segments[0].text;
    if (segments.size() > 1) {
      for (const TextSegment& segment : segments) joined += segment.text;
      text = joined;
    }
    uint32_t begin = 0;
    for (const TextSegment& segment : segments) {
      const auto end = begin + static_cast<uint32_t>(segment.text.size());
      if (!segment.parse_special && begin < end) plain_.push_back({begin, end});
      if (!segment.parse_added && begin < end) bare_.push_back({begin, end});
      begin = end;
    }
    // Where what is plain text and what isn't alternates, specials after normalisation need to know where they are
    // from.
    track_ = offsets_ || (!(plain_.empty() && bare_.empty()) && segments.size() > 1 && !normalized_.empty());
    const bool bytes = s_.header.model == TokenizerModel::ByteBpe;
    original_ = text;
    model_.Remember(text.size());
    out_.ids.reserve(out_.ids.size() + text.size() / 4 + 16);
    TokenizerText whole{text, nullptr, 0, true};
    std::string replaced;
    SourceSpans spans;
    if (!bytes && !IsUtf8(text)) {
      track_ = track_ || !plain_.empty() || !bare_.empty();
      replaced = Replaced(text, 0, track_ ? &spans : nullptr);
      whole.bytes = replaced;
      whole.spans = track_ ? spans.data() : nullptr;
    }
    CutAdded(raw_, whole, &Encoder::Normalize);
    if (offsets_) {
      for (SourceSpan& span : out_.offsets) span = WholeCharacters(original_, span);
    }
  }

 private:
  struct Buffer {
    std::string text;
    SourceSpans spans;
  };

  // Runs one step that changes text; the result lives in buffer.
  TokenizerText Change(const TextStep& step, const TokenizerText& text, Buffer& buffer) {
    if (!step.Change(text, track_, buffer.text, buffer.spans, work_.steps)) return text;
    return {buffer.text, track_ ? buffer.spans.data() : nullptr, 0, text.first};
  }

  void Normalize(size_t step, const TokenizerText& part) {
    TokenizerText text = part;
    for (; step < t_.normalizers_.size() && !text.bytes.empty(); ++step)
      text = Change(t_.normalizers_[step], text, normalized_text_[step]);
    CutAdded(normalized_, text, &Encoder::Cut);
  }

  static bool Meets(const std::vector<SourceSpan>& parts, SourceSpan span) {
    const auto after = std::upper_bound(parts.begin(), parts.end(), span.begin,
                                        [](uint32_t at, const SourceSpan& part) { return at < part.end; });
    return after != parts.end() && after->begin < span.end;
  }
  bool IsText(const AddedSlot& token, SourceSpan span) const {
    return Meets(bare_, span) || ((token.flags & kAddedSpecial) != 0 && Meets(plain_, span));
  }

  // Emits added tokens, and hands what lies between them to `rest`, from its first step on. A match that is refused (not a single word, special
  // where these are text) still hides matches that begin inside it; whitespace that a token strips may reach over later
  // matches, which keep their ids.
  void CutAdded(const AddedTokens& added, const TokenizerText& whole,
                void (Encoder::*rest)(size_t step, const TokenizerText& part)) {
    const std::string_view text = whole.bytes;
    size_t done = 0;
    size_t blank_end = 0;  // end of the run of whitespace that was stripped last
    for (size_t at = 0; (at = added.Place(text, at, work_.steps)) < text.size();) {
      const int64_t found = added.Find(text, at, work_.steps);
      if (found < 0) {
        ++at;
        continue;
      }
      const AddedSlot token = added.slot(static_cast<size_t>(found));
      size_t start = at;
      size_t stop = at + (token.end - token.begin);
      at = stop;
      if (!(plain_.empty() && bare_.empty()) && IsText(token, whole.Source(start, stop))) continue;
      if ((token.flags & kAddedSingleWord) != 0 && (IsWordBefore(text, start) || IsWordAt(text, stop))) continue;
      if ((token.flags & kAddedStripLeft) != 0) {
        while (start > done) {
          const CodePoint c = DecodeUtf8Before(text, start);
          if ((Class(c) & kClassSpace) == 0) break;
          start -= std::min<size_t>(c.bytes, start - done);
        }
      }
      if ((token.flags & kAddedStripRight) != 0) {
        if (stop < blank_end) stop = blank_end;  // inside that run
        while (stop < text.size()) {
          const CodePoint c = DecodeUtf8(text, stop);
          if ((Class(c) & kClassSpace) == 0) break;
          stop += c.bytes;
        }
        blank_end = stop;
      }
      if (done < start) (this->*rest)(0, whole.Part(done, start));
      Emit(token.id, whole, start, stop);
      done = stop;
    }
    if (done < text.size()) (this->*rest)(0, whole.Part(done, text.size()));
  }

  uint8_t Class(CodePoint c) {
    ++work_.steps;
    return CodePointBytes(s_.table(TokenizerTable::WordClasses)).At(c.value);
  }
  bool IsWordBefore(std::string_view text, size_t end) {
    return end > 0 && (Class(DecodeUtf8Before(text, end)) & kClassWord) != 0;
  }
  bool IsWordAt(std::string_view text, size_t at) {
    return at < text.size() && (Class(DecodeUtf8(text, at)) & kClassWord) != 0;
  }

  // Cutting step `step` and those behind it; at most kMaxTokenizerSteps deep.
  [[gnu::noinline]] void Cut(size_t step, const TokenizerText& text) {  // once in the program, not once a depth
    if (text.bytes.empty()) return;
    if (step == t_.cuts_.size()) return EncodePiece(text);
    const TextStep& cut = t_.cuts_[step];
    if (cut.kind() != StepKind::Split) return Cut(step + 1, Change(cut, text, cut_text_[step]));
    cut.Cut(text.bytes, work_.steps, [&](size_t begin, size_t end) { Cut(step + 1, text.Part(begin, end)); });
  }

  [[gnu::noinline]] void EncodePiece(const TokenizerText& piece) {
    model_.Tokens(piece.bytes, [&](int32_t id, size_t begin, size_t end) { Emit(id, piece, begin, end); });
  }

  void Emit(int32_t id, const TokenizerText& text, size_t begin, size_t end) {
    if (static_cast<uint32_t>(id) >= s_.header.token_count) {
      throw PlanError("tokenizer section: a table gives id " + std::to_string(id) + ", the vocabulary has " +
                      std::to_string(s_.header.token_count));
    }
    out_.ids.push_back(id);
    if (offsets_) out_.offsets.push_back(text.Source(begin, end));
  }

  const Tokenizer& t_;
  const TokenizerSection& s_;
  AddedTokens raw_, normalized_;
  bool offsets_, track_ = false;
  Tokenizer::Work& work_;
  Encoding& out_;
  PieceEncoder model_;
  std::vector<Buffer> normalized_text_, cut_text_;  // one a step
  std::string_view original_;
  std::vector<SourceSpan> plain_;  // bytes in which no control token is read
  std::vector<SourceSpan> bare_;   // parts of the text in which no added token is read
};

Tokenizer::Tokenizer(std::string_view section)
    : section_(ReadTokenizerSection(section)),
      normalizers_(OpenSteps(section_.table(TokenizerTable::Normalizers), section_.table(TokenizerTable::StepData))),
      cuts_(OpenSteps(section_.table(TokenizerTable::Cuts), section_.table(TokenizerTable::StepData))) {
  for (const TextStep& step : normalizers_) {
    if (step.kind() == StepKind::Split) throw PlanError("tokenizer section: a split among the normalizers");
  }
}

bool Tokenizer::adds_bos() const {
  const std::string_view single = section_.table(TokenizerTable::Single);
  return bos_id() >= 0 && !single.empty() && LoadAt<TemplatePiece>(single, 0).id == bos_id();
}

Encoding Tokenizer::Run(std::span<const TextSegment> segments, bool offsets, Work& work) const {
  size_t bytes = 0;
  for (const TextSegment& segment : segments) bytes += segment.text.size();
  if (bytes > INT32_MAX)
    throw PlanError("prompt: " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(INT32_MAX));
  Encoding out;
  Encoder(*this, offsets, work, out).Encode(segments);
  return out;
}

// One text or two, with what the template says around them.
void Tokenizer::AddTemplate(std::span<const Encoding> texts, bool add_special, Encoding& out) const {
  const std::string_view table = section_.table(texts.size() == 1 ? TokenizerTable::Single : TokenizerTable::Pair);
  std::vector<TemplatePiece> pieces;
  for (size_t i = 0; i < table.size() / sizeof(TemplatePiece); ++i) pieces.push_back(LoadAt<TemplatePiece>(table, i));
  if (!add_special) std::erase_if(pieces, [](const TemplatePiece& piece) { return piece.id >= 0; });
  if (pieces.empty()) {
    pieces.push_back({kTemplateFirst, 0});
    if (texts.size() > 1) pieces.push_back({kTemplateSecond, 0});
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const TemplatePiece piece = pieces[i];
    if (piece.id >= 0) {
      const std::vector<int32_t>& first = texts[0].ids;
      if (i == 0 && piece.id == bos_id() && !first.empty() && first[0] == piece.id) continue;
      out.ids.push_back(piece.id);
      out.offsets.push_back({0, 0});
      out.types.push_back(piece.type);
      continue;
    }
    const size_t which = piece.id == kTemplateFirst ? 0 : 1;
    if (which >= texts.size()) continue;
    const Encoding& text = texts[which];
    out.ids.insert(out.ids.end(), text.ids.begin(), text.ids.end());
    out.offsets.insert(out.offsets.end(), text.offsets.begin(), text.offsets.end());
    out.types.insert(out.types.end(), text.ids.size(), piece.type);
  }
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  Work work;
  return Encode(text, options, work);
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options, Work& work) const {
  const TextSegment segment = {text, options.parse_special, options.parse_added};
  Encoding encoded = Run({&segment, 1}, false, work);
  if (!options.add_special || section_.table(TokenizerTable::Single).empty()) return std::move(encoded.ids);
  Encoding out;
  AddTemplate({&encoded, 1}, true, out);
  return std::move(out.ids);
}

std::vector<int32_t> Tokenizer::Encode(std::span<const TextSegment> segments, bool add_special) const {
  Work work;
  const Encoding encoded = Run(segments, false, work);
  Encoding out;
  AddTemplate({&encoded, 1}, add_special, out);
  return std::move(out.ids);
}

Encoding Tokenizer::EncodeWithOffsets(std::string_view text, const EncodeOptions& options) const {
  Work work;
  const TextSegment segment = {text, options.parse_special, options.parse_added};
  const Encoding encoded = Run({&segment, 1}, true, work);
  Encoding out;
  AddTemplate({&encoded, 1}, options.add_special, out);
  return out;
}

Encoding Tokenizer::EncodePair(std::string_view first, std::string_view second, const EncodeOptions& options) const {
  Work work;
  const std::array<TextSegment, 2> segments = {
      {{first, options.parse_special, options.parse_added}, {second, options.parse_special, options.parse_added}}};
  const std::array<Encoding, 2> texts = {Run({&segments[0], 1}, true, work), Run({&segments[1], 1}, true, work)};
  Encoding out;
  AddTemplate(texts, options.add_special, out);
  return out;
}

}  // namespace llmc
