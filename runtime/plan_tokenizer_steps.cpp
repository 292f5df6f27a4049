// The steps of a tokenizer that change text.
#include "runtime/plan_tokenizer_steps.h"

#include "runtime/plan_error.h"
#include "runtime/plan_load.h"

namespace llmc {
namespace {

// What a grapheme cluster may have at most to be looked up as a whole in a charsmap, as in Hugging Face's tokenizers.
constexpr size_t kMaxClusterBytes = 5;

std::string_view At(std::string_view data, const TableRange& range) {
  if (range.offset > data.size() || range.size > data.size() - range.offset)
    throw PlanError("tokenizer section: a step's table is beyond the section's tables");
  return data.substr(range.offset, range.size);
}

}  // namespace

// Collects the changed text and where it comes from.
class TextStep::Writer {
 public:
  Writer(const TokenizerText& from, bool track, std::string& out, SourceSpans& spans)
      : from_(from), track_(track), out_(out), spans_(spans) {}
  // Bytes of the text before, as they are.
  void Keep(size_t begin, size_t end) {
    out_.append(from_.bytes, begin, end - begin);
    if (!track_) return;
    for (size_t i = begin; i < end; ++i) spans_.push_back(from_.Source(i, i + 1));
  }
  // Other bytes in the place of those.
  void Put(std::string_view bytes, size_t begin, size_t end) {
    out_ += bytes;
    if (track_) spans_.insert(spans_.end(), bytes.size(), from_.Source(begin, end));
    changed_ = true;
  }
  void Drop() { changed_ = true; }
  bool changed() const { return changed_; }

 private:
  const TokenizerText& from_;
  bool track_, changed_ = false;
  std::string& out_;
  SourceSpans& spans_;
};

TextStep::TextStep(const StepRecord& record, std::string_view step_data)
    : kind_(record.kind), flags_(record.flags), table_(At(step_data, record.table)), text_(At(step_data, record.text)) {
  switch (kind_) {
    case StepKind::Charsmap:  // a grapheme cluster of ASCII is one character, or CR and LF
      for (size_t c = 0; c < plain_.size(); ++c) {
        const auto character = static_cast<char>(c);
        plain_[c] = c != '\r' && !CharsmapText({&character, 1});
      }
      [[fallthrough]];
    case StepKind::Replace: automaton_.emplace(table_); break;
    case StepKind::Split:
      automaton_.emplace(table_);
      if ((flags_ >> kStepBehaviorShift & 0xFF) > static_cast<uint32_t>(SplitBehavior::Contiguous))
        throw PlanError("tokenizer section: a split of unknown behavior");
      break;
    case StepKind::Map:
      if (table_.size() < sizeof(CodePointMapHeader)) throw PlanError("tokenizer section: a map without its header");
      {
        const auto h = LoadAt<CodePointMapHeader>(table_, 0);
        if (table_.size() - sizeof h != kCodeBlocks * 2 + uint64_t{h.pages} * 1024 + h.text_bytes)
          throw PlanError("tokenizer section: a map's sizes don't fit");
      }
      break;
    case StepKind::Form: form_.emplace(table_); break;
    case StepKind::Prepend:
    case StepKind::Strip: break;
    default: throw PlanError("tokenizer section: unknown step " + std::to_string(static_cast<uint32_t>(kind_)));
  }
}

bool TextStep::Change(const TokenizerText& text, bool track, std::string& out, SourceSpans& spans,
                      uint64_t& steps) const {
  out.clear();
  spans.clear();
  const std::string_view bytes = text.bytes;
  steps += bytes.size();
  if (bytes.empty()) return false;
  Writer writer(text, track, out, spans);
  switch (kind_) {
    case StepKind::Replace: Replace(bytes, writer, steps); break;
    case StepKind::Map: Map(bytes, writer); break;
    case StepKind::Strip: Strip(bytes, writer); break;
    case StepKind::Charsmap: Charsmap(bytes, writer, steps); break;
    case StepKind::Prepend:
      if ((flags_ & kStepUnlessThere) != 0 && bytes.starts_with(text_)) return false;
      if ((flags_ & kStepFirstOnly) != 0 && !text.first) return false;
      writer.Put(text_, 0, DecodeUtf8(bytes, 0).bytes);
      writer.Keep(0, bytes.size());
      break;
    case StepKind::Form:
      if (!form_->MayChange(bytes)) return false;
      form_->Apply(bytes, out, track ? &spans : nullptr);
      for (SourceSpan& span : spans) span = text.Source(span.begin, span.end);
      return true;
    case StepKind::Split: return false;
  }
  return writer.changed();
}

void TextStep::Replace(std::string_view text, Writer& out, uint64_t& steps) const {
  Matcher matcher(*automaton_, text, steps);
  for (size_t at = 0; at < text.size();) {
    const Matcher::Match match = matcher.Next(at);
    out.Keep(at, match.begin);
    if (match.begin < match.end) out.Put(text_, match.begin, match.end);
    at = match.end;
    if (match.begin < match.end && text_.empty()) out.Drop();
  }
}

// Whether a code point changes; text is what it becomes, nothing: itself with spaces around.
bool TextStep::MapsTo(uint32_t code_point, std::optional<std::string_view>& text) const {
  const auto h = LoadAt<CodePointMapHeader>(table_, 0);
  const std::string_view index = table_.substr(sizeof h, kCodeBlocks * 2);
  const std::string_view pages = table_.substr(sizeof h + index.size(), size_t{h.pages} * 1024);
  const auto page = LoadAt<uint16_t>(index, code_point >> 8);
  if (page >= h.pages) return false;
  const auto entry = LoadAt<uint32_t>(pages, size_t{page} * 256 + (code_point & 0xFF));
  if (entry == 0) return false;
  text.reset();
  if (entry == kMapSpaced) return true;
  const std::string_view texts = table_.substr(sizeof h + index.size() + pages.size());
  if (entry > texts.size()) return false;
  const std::string_view from = texts.substr(entry - 1);
  text = from.substr(0, from.find('\0'));
  return true;
}

void TextStep::Map(std::string_view text, Writer& out) const {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    const size_t end = at + c.bytes;
    std::optional<std::string_view> becomes;
    if (!c.valid || !MapsTo(c.value, becomes)) {
      out.Keep(at, end);
    } else if (becomes) {
      out.Put(*becomes, at, end);
    } else {
      out.Put(" ", at, end);
      out.Keep(at, end);
      out.Put(" ", at, end);
    }
    at = end;
  }
}

void TextStep::Strip(std::string_view text, Writer& out) const {
  const CodePointBytes space(table_);
  size_t begin = 0, end = text.size();
  while ((flags_ & kStepLeft) != 0 && begin < end) {
    const CodePoint c = DecodeUtf8(text, begin);
    if (space.At(c.value) == 0) break;
    begin += c.bytes;
  }
  while ((flags_ & kStepRight) != 0 && begin < end) {
    const CodePoint c = DecodeUtf8Before(text, end);
    if (space.At(c.value) == 0) break;
    end -= c.bytes;
  }
  if (begin != 0 || end != text.size()) out.Drop();
  out.Keep(begin, end);
}

// SentencePiece's charsmap: u32 size of a double array (Darts-clone), the array, NUL-terminated texts. As Hugging
// Face's tokenizers read it: a short grapheme cluster is looked up first, then each character; of the entries that
// begin the part the shortest counts, and all of the part becomes its text.
std::optional<std::string_view> TextStep::CharsmapText(std::string_view part) const {
  if (text_.size() < 4) return std::nullopt;
  const size_t trie_bytes = LoadAt<uint32_t>(text_, 0);
  if (trie_bytes > text_.size() - 4) return std::nullopt;
  const std::string_view trie = text_.substr(4, trie_bytes);
  const std::string_view texts = text_.substr(4 + trie_bytes);
  const size_t units = trie.size() / 4;
  if (units == 0) return std::nullopt;
  auto unit = [&](size_t at) { return at < units ? LoadAt<uint32_t>(trie, at) : 0U; };
  auto offset = [](uint32_t u) -> size_t { return u >> 10 << ((u & 0x200U) >> 6); };
  size_t node = offset(unit(0));
  for (const char c : part) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) return std::nullopt;
    node ^= byte;
    const uint32_t u = unit(node);
    if ((u & 0x800000FFU) != byte) return std::nullopt;
    node ^= offset(u);
    if ((u >> 8 & 1U) == 0) continue;
    const size_t begin = unit(node) & 0x7FFFFFFFU;
    if (begin > texts.size()) return std::nullopt;
    return texts.substr(begin, texts.find('\0', begin) - begin);
  }
  return std::nullopt;
}

void TextStep::Charsmap(std::string_view text, Writer& out, uint64_t& steps) const {
  Matcher clusters(*automaton_, text, steps);
  const auto is_ascii = [&](size_t at) { return at >= text.size() || static_cast<uint8_t>(text[at]) < 0x80; };
  for (size_t begin = 0; begin < text.size();) {
    size_t same = begin;
    while (same < text.size() && is_ascii(same) && plain_[static_cast<uint8_t>(text[same])] && is_ascii(same + 1))
      ++same;
    if (same != begin) {
      out.Keep(begin, same);
      steps += same - begin;
      begin = same;
      continue;
    }
    const size_t end = std::max(clusters.End(begin), begin + 1);
    if (end - begin <= kMaxClusterBytes) {
      if (const auto becomes = CharsmapText(text.substr(begin, end - begin))) {
        out.Put(*becomes, begin, end);
        begin = end;
        continue;
      }
    }
    for (size_t at = begin; at < end;) {
      const size_t next = at + DecodeUtf8(text, at).bytes;
      if (const auto becomes = CharsmapText(text.substr(at, next - at))) {
        out.Put(*becomes, at, next);
      } else {
        out.Keep(at, next);
      }
      at = next;
    }
    begin = end;
  }
}

std::vector<TextStep> OpenSteps(std::string_view records, std::string_view step_data) {
  std::vector<TextStep> out;
  for (size_t i = 0; i < records.size() / sizeof(StepRecord); ++i)
    out.emplace_back(LoadAt<StepRecord>(records, i), step_data);
  return out;
}

}  // namespace llmc
