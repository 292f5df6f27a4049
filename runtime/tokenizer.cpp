// Encoding and decoding. Order of stages and all corner cases follow Hugging Face's tokenizers, which is the oracle of
// the tests.
#include "runtime/tokenizer.h"

#include <algorithm>
#include <functional>

#include "runtime/plan_error.h"
#include "runtime/plan_load.h"
#include "runtime/tokenizer_scan.h"

namespace llmc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// A code point that ends at `end` (> 0) of text.
CodePoint DecodeBefore(std::string_view text, size_t end) {
  for (size_t bytes = std::min<size_t>(end, 4); bytes > 1; --bytes) {
    const CodePoint c = DecodeUtf8(text, end - bytes);
    if (c.bytes == bytes) return c;
  }
  return DecodeUtf8(text.substr(0, end), end - 1);
}

// Added tokens of one stage, ascending by content.
class AddedTokens {
 public:
  AddedTokens(const TokenizerSection& s, TokenizerTable slots, TokenizerTable first)
      : slots_(s.table(slots)), first_(s.table(first)), bytes_(s.table(TokenizerTable::AddedBytes)) {}
  bool empty() const { return slots_.empty(); }
  AddedSlot slot(size_t index) const { return LoadAt<AddedSlot>(slots_, index); }
  // Index of the longest added token that begins at text[at], or -1.
  int64_t Find(std::string_view text, size_t at, uint64_t& steps) const;

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

// One call of Encode.
class Encoder {
 public:
  Encoder(const TokenizerSection& section, bool parse_special, Tokenizer::Work& work, std::vector<int32_t>& ids)
      : s_(section),
        raw_(section, TokenizerTable::AddedRaw, TokenizerTable::AddedRawFirst),
        normalized_(section, TokenizerTable::AddedNormalized, TokenizerTable::AddedNormalizedFirst),
        parse_special_(parse_special),
        work_(work),
        ids_(ids) {}

  void Encode(std::string_view text) {
    CutAdded(raw_, text, [this](std::string_view piece) {
      if ((s_.header.flags & kTokenizerNfc) != 0 && s_.unicode.NeedsNfc(piece)) {
        const std::string composed = s_.unicode.Nfc(piece);
        EncodeNormalized(composed);
      } else {
        EncodeNormalized(piece);
      }
    });
  }

 private:
  void EncodeNormalized(std::string_view text) {
    CutAdded(normalized_, text, [this](std::string_view piece) { Cut(0, piece); });
  }

  // Emits added tokens, and hands what lies between them to `rest`. A match that is refused (not a single word, special
  // where these are text) still hides matches that begin inside it; whitespace that a token strips may reach over later
  // matches, which keep their ids.
  template <typename Rest>
  void CutAdded(const AddedTokens& added, std::string_view text, const Rest& rest) {
    size_t done = 0;
    size_t blank_end = 0;  // end of the run of whitespace that was stripped last
    for (size_t at = 0; !added.empty() && at < text.size();) {
      const int64_t found = added.Find(text, at, work_.steps);
      if (found < 0) {
        ++at;
        continue;
      }
      const AddedSlot token = added.slot(static_cast<size_t>(found));
      size_t start = at;
      size_t stop = at + (token.end - token.begin);
      at = stop;
      if ((token.flags & kAddedSpecial) != 0 && !parse_special_) continue;
      if ((token.flags & kAddedSingleWord) != 0 && (IsWordBefore(text, start) || IsWordAt(text, stop))) continue;
      if ((token.flags & kAddedStripLeft) != 0) {
        while (start > done) {
          const CodePoint c = DecodeBefore(text, start);
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
      if (done < start) rest(text.substr(done, start - done));
      Emit(token.id);
      done = stop;
    }
    if (done < text.size()) rest(text.substr(done));
  }

  uint8_t Class(CodePoint c) {
    ++work_.steps;
    return s_.unicode.Class(c.value);
  }
  bool IsWordBefore(std::string_view text, size_t end) {
    return end > 0 && (Class(DecodeBefore(text, end)) & kClassWord) != 0;
  }
  bool IsWordAt(std::string_view text, size_t at) {
    return at < text.size() && (Class(DecodeUtf8(text, at)) & kClassWord) != 0;
  }

  // Pre-tokenizer step `step` and those behind it; at most kMaxTokenizerSteps deep.
  void Cut(uint32_t step, std::string_view text) {
    if (step == s_.header.step_count) {
      EncodePiece(text);
      return;
    }
    std::string prefixed;
    if (s_.header.steps[step].prefix_space != 0 && text[0] != ' ') {
      prefixed.reserve(text.size() + 1);
      prefixed = ' ';
      prefixed += text;
      text = prefixed;
    }
    const auto kind = static_cast<StepKind>(s_.header.steps[step].kind);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = PieceEnd(kind, s_.unicode, text, begin, work_.steps);
      Cut(step + 1, text.substr(begin, end - begin));
      begin = end;
    }
  }

  void EncodePiece(std::string_view piece) {
    if ((s_.header.flags & kTokenizerIgnoreMerges) != 0) {
      if (const int32_t id = FindToken(piece); id >= 0) return Emit(id);
    }
    MakeSymbols(piece);
    MergeSymbols();
    for (uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) Emit(symbols_[i].id);
  }

  struct Symbol {
    int32_t id;
    uint32_t bytes;  // of the piece; 0: merged into the one before
    uint32_t previous, next;
  };
  // A pair that may merge. Pairs are taken by rank, then from the left. The pair at a place only ever grows, so it is
  // the same one exactly if its bytes are.
  struct Candidate {
    uint32_t rank, at;
    int32_t result;
    uint32_t bytes;
    bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };

  void MakeSymbols(std::string_view piece) {
    symbols_.clear();
    bool unknown_before = false;
    for (const char c : piece) {
      int32_t id = LoadAt<int32_t>(s_.table(TokenizerTable::ByteIds), static_cast<uint8_t>(c));
      const bool unknown = id < 0;
      if (unknown) id = s_.header.unk;
      if (id < 0) continue;  // no token and no unk: dropped
      if (unknown && unknown_before && (s_.header.flags & kTokenizerFuseUnk) != 0) {
        ++symbols_.back().bytes;
        continue;
      }
      const auto index = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({id, 1, index - 1, index + 1});
      unknown_before = unknown;
    }
  }

  void AddCandidate(uint32_t at) {
    const Symbol& left = symbols_[at];
    if (left.next >= symbols_.size()) return;
    const Symbol& right = symbols_[left.next];
    const MergeSlot merge = FindMerge(left.id, right.id);
    if (merge.left >= 0) candidates_.push_back({merge.rank, at, merge.result, left.bytes + right.bytes});
  }

  void MergeSymbols() {
    candidates_.clear();
    const auto count = static_cast<uint32_t>(symbols_.size());
    for (uint32_t i = 0; i + 1 < count; ++i) AddCandidate(i);
    std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    auto push = [&](uint32_t at) {
      const size_t before = candidates_.size();
      AddCandidate(at);
      if (candidates_.size() != before) std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    };
    while (!candidates_.empty()) {
      ++work_.steps;
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      const Candidate top = candidates_.back();
      candidates_.pop_back();
      Symbol& left = symbols_[top.at];
      if (left.bytes == 0 || left.next >= count || left.bytes + symbols_[left.next].bytes != top.bytes)
        continue;  // changed since
      Symbol& right = symbols_[left.next];
      left.id = top.result;
      left.bytes = top.bytes;
      left.next = right.next;
      right.bytes = 0;
      if (left.next < count) symbols_[left.next].previous = top.at;
      if (left.previous < count) push(left.previous);
      push(top.at);
    }
  }

  // The slot of a pair, or one with left = -1.
  MergeSlot FindMerge(int32_t left, int32_t right) {
    const std::string_view table = s_.table(TokenizerTable::Merges);
    const size_t slots = table.size() / sizeof(MergeSlot);
    const size_t first = FirstSlot(HashPair(left, right), s_.merge_bits);
    for (size_t probe = 0; probe < std::min<size_t>(slots, kMaxProbes); ++probe) {
      ++work_.steps;
      const MergeSlot slot = LoadAt<MergeSlot>(table, (first + probe) & (slots - 1));
      if (slot.left < 0 || (slot.left == left && slot.right == right)) return slot;
    }
    return {-1, -1, 0, -1};
  }

  int32_t FindToken(std::string_view bytes) {
    if (bytes.size() > s_.header.longest_token) return -1;
    const std::string_view table = s_.table(TokenizerTable::Vocabulary);
    const size_t slots = table.size() / 4;
    const size_t first = FirstSlot(HashBytes(bytes), s_.vocabulary_bits);
    for (size_t probe = 0; probe < std::min<size_t>(slots, kMaxProbes); ++probe) {
      ++work_.steps;
      const auto id = LoadAt<int32_t>(table, (first + probe) & (slots - 1));
      if (id < 0 || TokenBytes(s_, id) == bytes) return id;
    }
    return -1;
  }

  void Emit(int32_t id) {
    if (static_cast<uint32_t>(id) >= s_.header.token_count) {
      throw PlanError("tokenizer section: a table gives id " + std::to_string(id) + ", the vocabulary has " +
                      std::to_string(s_.header.token_count));
    }
    ids_.push_back(id);
  }

 public:
  static std::string_view TokenBytes(const TokenizerSection& s, int32_t id) {
    if (static_cast<uint32_t>(id) >= s.header.token_count) return {};
    const std::string_view ends = s.table(TokenizerTable::TokenEnds);
    const std::string_view bytes = s.table(TokenizerTable::TokenBytes);
    const auto begin = LoadAt<uint32_t>(ends, static_cast<size_t>(id));
    const auto end = LoadAt<uint32_t>(ends, static_cast<size_t>(id) + 1);
    return begin <= end && end <= bytes.size() ? bytes.substr(begin, end - begin) : std::string_view();
  }

 private:
  const TokenizerSection& s_;
  AddedTokens raw_, normalized_;
  bool parse_special_;
  Tokenizer::Work& work_;
  std::vector<int32_t>& ids_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Tokenizer::Tokenizer(std::string_view section) : section_(ReadTokenizerSection(section)) {}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  Work work;
  return Encode(text, options, work);
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options, Work& work) const {
  if (text.size() > INT32_MAX)
    throw PlanError("prompt: " + std::to_string(text.size()) + " bytes, the limit is " + std::to_string(INT32_MAX));
  std::vector<int32_t> ids;
  Encoder(section_, options.parse_special, work, ids).Encode(text);
  if (options.add_bos && add_bos() && (ids.empty() || ids[0] != bos_id())) ids.insert(ids.begin(), bos_id());
  return ids;
}

std::string_view Tokenizer::TokenText(int32_t id) const { return Encoder::TokenBytes(section_, id); }

bool Tokenizer::IsSpecial(int32_t id) const {
  return static_cast<uint32_t>(id) < section_.header.token_count &&
         (static_cast<uint8_t>(section_.table(TokenizerTable::TokenFlags)[static_cast<size_t>(id)]) & kTokenSpecial) !=
             0;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  StreamDecoder stream(*this, skip_special);
  std::string out;
  for (const int32_t id : ids) out += stream.Push(id);
  return out + stream.Finish();
}

std::string StreamDecoder::Push(int32_t id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return {};
  held_ += tokenizer_->TokenText(id);
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Prefix prefix = ClassifyUtf8(std::string_view(held_).substr(at));
    if (prefix.state == Utf8State::Incomplete) break;
    out += prefix.state == Utf8State::Complete ? std::string_view(held_).substr(at, prefix.bytes) : kReplacement;
    at += prefix.bytes;
  }
  held_.erase(0, at);
  return out;
}

std::string StreamDecoder::Finish() {
  std::string out(held_.empty() ? std::string_view() : kReplacement);
  held_.clear();
  return out;
}

}  // namespace llmc
