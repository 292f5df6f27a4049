// Unicode for the tokenizer: UTF-8, classes of code points and composition (NFC), all over tables that lie in a plan.
// Shared by the loader, which encodes prompts, and the front end, which makes the tables and normalises added tokens
// with the very code that will read them.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

// Bits of a code point's class.
inline constexpr uint8_t kClassLetter = 1;  // general category L*
inline constexpr uint8_t kClassNumber = 2;  // N*
inline constexpr uint8_t kClassSpace = 4;   // White_Space
inline constexpr uint8_t kClassMark = 8;    // M*
inline constexpr uint8_t kClassWord =
    16;  // Alphabetic, M*, Nd, Pc, Join_Control: what may not touch a single_word token
inline constexpr uint8_t kClassNfcCheck =
    32;  // NFC_Quick_Check is not Yes, or combining class is not 0: text without such is in NFC already

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;
// DecodeUtf8 gives a byte that is not part of valid UTF-8 as kBadByte + its value; class 0, and written back as that
// byte.
inline constexpr uint32_t kBadByte = 0x110000;

struct CodePoint {
  uint32_t value = 0;
  uint32_t bytes = 0;  // 1..4
};
// The code point at text[at], at < text.size(). Surrogates, overlong forms and values over U+10FFFF are bad bytes, one
// at a time.
CodePoint DecodeUtf8(std::string_view text, size_t at);
void AppendUtf8(std::string& out, uint32_t code_point);

// The longest start of `text` (not empty) that is one character, or can't become one, or may still become one.
enum class Utf8State : uint8_t { Complete, Invalid, Incomplete };
struct Utf8Prefix {
  Utf8State state = Utf8State::Invalid;
  uint32_t bytes = 0;  // Complete: the character; Invalid: the maximal bad prefix, which one U+FFFD replaces;
                       // Incomplete: all of text (at most 3)
};
Utf8Prefix ClassifyUtf8(std::string_view text);

// Views of tables, little-endian, at any alignment. Contents are not trusted: a bad index is class 0 or no entry.
//   class_index     u16 a block of 256 code points: number of its page; code points beyond the table have class 0
//   class_pages     u8[256] a page
//   decompositions  {u32 code point, u32 first, u32 second or 0}, ascending: one step of canonical decomposition
//   (Hangul is computed) compositions    {u32 first, u32 second, u32 code point}, ascending by the pair: primary
//   composites combining       {u32 code point, u32 class}, ascending: canonical combining classes that are not 0
struct UnicodeTables {
  std::string_view class_index, class_pages, decompositions, compositions, combining;

  uint8_t Class(uint32_t code_point) const;
  // Whether the text may differ from its NFC form.
  bool NeedsNfc(std::string_view text) const;
  // Normalization form C. O(n log n), 12 bytes a code point. Bad bytes stay as they are.
  std::string Nfc(std::string_view text) const;
};

}  // namespace llmc
