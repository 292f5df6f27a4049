// The steps of a tokenizer that change or cut text (StepKind), opened from a section and run. In the plan's layer,
// because the front end normalises added tokens with the very code that will normalise the text.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_automaton.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {

// A part of a text on its way through the steps, and where it comes from.
struct TokenizerText {
  std::string_view bytes;
  const SourceSpan* spans = nullptr;  // a byte's place in the original text; null: byte i is byte origin + i
  uint32_t origin = 0;
  bool first = true;  // nothing of the original text stands before it

  TokenizerText Part(size_t begin, size_t end) const {
    return {bytes.substr(begin, end - begin), spans == nullptr ? nullptr : spans + begin,
            origin + static_cast<uint32_t>(begin), first && begin == 0};
  }
  SourceSpan Source(size_t begin, size_t end) const {  // begin < end
    const auto at = [&](size_t i) { return static_cast<uint32_t>(origin + i); };
    return spans == nullptr ? SourceSpan{at(begin), at(end)} : SourceSpan{spans[begin].begin, spans[end - 1].end};
  }
};

class TextStep {
 public:
  // Borrows the section's bytes. Throws PlanError when its tables don't hold together.
  TextStep(const StepRecord& record, std::string_view step_data);

  StepKind kind() const { return kind_; }
  // For all but Split: puts the changed text into out (and, when track is true, where it comes from into spans); false
  // if nothing changes. steps counts characters looked at.
  bool Change(const TokenizerText& text, bool track, std::string& out, SourceSpans& spans, uint64_t& steps) const;
  // For Split: calls piece(begin, end) for each piece that stays, in order.
  template <typename Piece>
  void Cut(std::string_view text, uint64_t& steps, const Piece& piece) const;

 private:
  class Writer;
  void Replace(std::string_view text, Writer& out, uint64_t& steps) const;
  void Map(std::string_view text, Writer& out) const;
  void Strip(std::string_view text, Writer& out) const;
  void Charsmap(std::string_view text, Writer& out, uint64_t& steps) const;
  bool MapsTo(uint32_t code_point, std::optional<std::string_view>& text) const;
  std::optional<std::string_view> CharsmapText(std::string_view part) const;

  StepKind kind_;
  uint32_t flags_;
  std::string_view table_, text_;
  std::optional<Automaton> automaton_;
  std::optional<NormalFormTables> form_;
  std::array<bool, 128> plain_{};  // Charsmap: whether an ASCII character that another one follows stays as it is
};

std::vector<TextStep> OpenSteps(std::string_view records, std::string_view step_data);

template <typename Piece>
void TextStep::Cut(std::string_view text, uint64_t& steps, const Piece& piece) const {
  const auto behavior = static_cast<SplitBehavior>(flags_ >> kStepBehaviorShift & 0xFF);
  const bool invert = (flags_ & kStepInvert) != 0;
  Matcher matcher(*automaton_, text, steps);
  if (behavior == SplitBehavior::Isolated) {
    for (size_t at = 0; at < text.size();) {
      const Matcher::Match match = matcher.Next(at);
      if (at < match.begin) piece(at, match.begin);
      if (match.begin < match.end) piece(match.begin, match.end);
      at = match.end;
    }
    return;
  }
  // One piece is held back, since what follows may be merged into it.
  size_t held_begin = 0, held_end = 0;
  bool held_is_match = false;
  auto flush = [&] {
    if (held_begin < held_end) piece(held_begin, held_end);
  };
  auto take = [&](size_t begin, size_t end, bool is_match) {
    if (begin == end) return;
    bool merge = false;
    switch (behavior) {
      case SplitBehavior::Isolated: break;  // above
      case SplitBehavior::Removed:
        if (is_match) return;
        break;
      case SplitBehavior::MergedWithPrevious: merge = is_match && !held_is_match; break;
      case SplitBehavior::MergedWithNext: merge = !is_match && held_is_match; break;
      case SplitBehavior::Contiguous: merge = is_match == held_is_match; break;
    }
    if (!merge || held_begin == held_end) {
      flush();
      held_begin = begin;
    }
    held_end = end;
    held_is_match = is_match;
  };
  for (size_t at = 0; at < text.size();) {
    const Matcher::Match match = matcher.Next(at);
    take(at, match.begin, invert);
    take(match.begin, match.end, !invert);
    at = match.end;
  }
  flush();
}

}  // namespace llmc
