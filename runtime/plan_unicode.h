// Unicode for the tokenizer: UTF-8, a byte for each code point, and normal forms, over tables that lie in a plan.
// Shared by the loader, which encodes prompts, and the front end, which makes the tables and normalises added tokens
// with the very code that will read them.
//
// What lies in a table is not trusted: a bad index is 0 or no entry.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;
inline constexpr uint32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

// What Python's bytes.decode('utf-8', 'replace') sees: the maximal part of bad UTF-8 is one U+FFFD.
struct CodePoint {
  uint32_t value = 0;
  uint32_t bytes = 0;  // 1..4
  bool valid = true;
};
// The code point at text[at], at < text.size(). Surrogates, overlong forms and values over U+10FFFF are not valid.
CodePoint DecodeUtf8(std::string_view text, size_t at);
// The code point that ends at `end` (> 0) of text.
CodePoint DecodeUtf8Before(std::string_view text, size_t end);
void AppendUtf8(std::string& out, uint32_t code_point);
bool IsUtf8(std::string_view text);

// The longest start of `text` (not empty) that is one character, or can't become one, or may still become one.
enum class Utf8State : uint8_t { Complete, Invalid, Incomplete };
struct Utf8Prefix {
  Utf8State state = Utf8State::Invalid;
  uint32_t bytes = 0;  // Complete: the character; Invalid: the maximal bad prefix, which one U+FFFD replaces;
                       // Incomplete: all of text (at most 3)
};
Utf8Prefix ClassifyUtf8(std::string_view text);

// Where a byte of a changed text comes from: bytes [begin, end) of the text before.
struct SourceSpan {
  uint32_t begin, end;
};
using SourceSpans = std::vector<SourceSpan>;  // one a byte

// A byte a code point. Layout: u16 a block of 256 code points, the number of its page; then u8[256] a page.
inline constexpr size_t kCodeBlocks = (kMaxCodePoint + 1) / 256;
class CodePointBytes {
 public:
  CodePointBytes() = default;
  explicit CodePointBytes(std::string_view table) : table_(table) {}
  uint8_t At(uint32_t code_point) const;

 private:
  std::string_view table_;
};

// Bits of a code point's class, for added tokens.
inline constexpr uint8_t kClassSpace = 1;  // White_Space
inline constexpr uint8_t kClassWord = 2;   // Alphabetic, M*, Nd, Pc, Join_Control: not beside a single_word token

// A normal form of Unicode Standard Annex 15. Layout: NormalFormHeader, then the tables in its order:
//   check           CodePointBytes, 1: a text that holds none of these is in the form already
//   decompositions  {u32 code point, u32 first, u32 count}, ascending: its full decomposition in pool (Hangul is
//                   computed)
//   pool            u32 code points
//   combining       {u32 code point, u32 class}, ascending: canonical combining classes that are not 0
//   compositions    {u32 first, u32 second, u32 code point}, ascending by the pair: primary composites
struct NormalFormHeader {
  uint32_t compose;                                                     // 1: NFC, NFKC
  uint32_t check_bytes, decompositions, pool, combining, compositions;  // sizes: bytes, rows, ...
};
class NormalFormTables {
 public:
  // Throws PlanError when the sizes don't fit the table.
  explicit NormalFormTables(std::string_view table);
  bool MayChange(std::string_view text) const;
  // Appends the form of text. O(n log n), 24 bytes a code point. Bytes that are not UTF-8 stay as they are.
  void Apply(std::string_view text, std::string& out, SourceSpans* spans) const;

 private:
  struct Marked;
  void Decompose(uint32_t code_point, SourceSpan span, std::vector<Marked>& out) const;
  uint32_t CombiningClass(uint32_t code_point) const;
  uint32_t Compose(uint32_t first, uint32_t second) const;
  size_t ComposeAll(std::vector<Marked>& text) const;

  bool compose_ = false;
  CodePointBytes check_;
  std::string_view decompositions_, pool_, combining_, compositions_;
};

}  // namespace llmc
