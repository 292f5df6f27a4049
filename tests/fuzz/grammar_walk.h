// A walk through a grammar that a fuzzer has found: wherever it stands, something can follow or the text can end.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "runtime/grammar_matcher.h"

namespace llmc {

// A text of at most `most` bytes along the grammar, chosen by `picks`; whole says whether it is one of the grammar's.
// Aborts when a place that isn't dead has no way on, and when forgetting changes what can follow.
inline std::string Walk(const Grammar& grammar, std::span<const uint8_t> picks, size_t most, bool& whole) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher::Place place = matcher.start();
  std::string text;
  const auto ways = [&](GrammarMatcher::Place at) {
    std::string bytes;
    for (const uint8_t byte : grammar.class_bytes) {
      if (matcher.Step(at, byte) != GrammarMatcher::kDead) bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
  };
  for (whole = matcher.Ends(place); text.size() < most; whole = matcher.Ends(place)) {
    const std::string bytes = ways(place);
    if (bytes.empty()) {
      // Texts that nest too deep aren't entered.
      if (!matcher.Ends(place) && text.size() < kMostGrammarDepth / 64) std::abort();
      if (matcher.Ends(place) && !matcher.Finished(place)) return text;
      break;
    }
    const uint8_t pick = picks.empty() ? 0 : picks[text.size() % picks.size()];
    const char byte = bytes[pick % bytes.size()];
    place = matcher.Step(place, static_cast<uint8_t>(byte));
    text.push_back(byte);
    if (pick % 8 != 7) continue;
    const std::string before = ways(place);
    const bool ends = matcher.Ends(place);
    place = matcher.Forget(place);
    if (ways(place) != before || matcher.Ends(place) != ends) std::abort();
  }
  return text;
}

}  // namespace llmc
