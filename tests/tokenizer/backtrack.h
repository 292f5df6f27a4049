// A backtracking matcher over a pattern's tree, as regular expression engines work: what the automata are held against.
// Unlimited repeats of what may match nothing are not for it. Exponential in the worst case; `budget` ends it.
#pragma once
#include <functional>
#include <optional>
#include <string_view>

#include "frontend/pattern.h"

namespace llmc {

class Backtracker {
 public:
  explicit Backtracker(std::string_view text, size_t budget = 200'000) : text_(text), budget_(budget) {}

  // End of the match of pattern that begins at `begin`; nothing: none. exhausted() tells whether it gave up.
  std::optional<size_t> Match(const PatternNode& pattern, size_t begin) {
    std::optional<size_t> end;
    Try(pattern, begin, [&](size_t at) {
      end = at;
      return true;
    });
    return end;
  }
  bool exhausted() const { return budget_ == 0; }

 private:
  using Then = std::function<bool(size_t)>;

  bool Try(const PatternNode& node, size_t at, const Then& then) {
    if (budget_ == 0) return false;
    --budget_;
    using Kind = PatternNode::Kind;
    switch (node.kind) {
      case Kind::Set: {
        if (at == text_.size()) return false;
        const CodePoint c = DecodeUtf8(text_, at);
        return node.set.Contains(c.value) && then(at + c.bytes);
      }
      case Kind::Condition:
        if (at == text_.size() ? !node.at_end : !node.set.Contains(DecodeUtf8(text_, at).value)) return false;
        return then(at);
      case Kind::Sequence: return TryParts(node, 0, at, then);
      case Kind::Choice:
        for (const PatternNode& part : node.parts) {
          if (Try(part, at, then)) return true;
        }
        return false;
      case Kind::Repeat: return TryRepeat(node, 0, at, then);
    }
    return false;
  }
  bool TryParts(const PatternNode& node, size_t part, size_t at, const Then& then) {
    if (part == node.parts.size()) return then(at);
    return Try(node.parts[part], at, [&, part](size_t next) { return TryParts(node, part + 1, next, then); });
  }
  bool TryRepeat(const PatternNode& node, uint32_t done, size_t at, const Then& then) {
    auto more = [&] {
      return done < node.max &&
             Try(node.parts[0], at, [&, done](size_t next) { return TryRepeat(node, done + 1, next, then); });
    };
    if (done < node.min) return more();
    return node.lazy ? then(at) || more() : more() || then(at);
  }

  std::string_view text_;
  size_t budget_;
};

}  // namespace llmc
