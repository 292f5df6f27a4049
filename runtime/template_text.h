// Python's operations on text: positions count code points, white space and case are Unicode's.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/template_value.h"

namespace llmc {

int64_t TextLength(const TemplateValue& text);  // in code points; remembered
int64_t CountPoints(std::string_view text);
// The byte at which code point `index` (0 .. length) begins.
size_t ByteOf(std::string_view text, int64_t index, bool ascii);
// text[start], text[start + step], ..: `length` code points.
std::string SlicePoints(std::string_view text, int64_t start, int64_t step, int64_t length, int64_t text_length);

// A code point as Python's repr escapes it: \xhh, \uhhhh or \Uhhhhhhhh.
std::string EscapedPoint(uint32_t code_point);

// The text with everything beyond ASCII escaped so.
std::string AsciiText(std::string_view text);

// Digits of a finite or non-finite float under conversion e, f or g, without sign; `alternate` keeps the point.
std::string FloatDigits(double value, char conversion, int precision, bool alternate);
constexpr int64_t kMostFormatWidth = 1 << 20;  // of a width or a precision

bool IsTextSpace(uint32_t code_point);  // str.isspace
bool IsLineEnd(uint32_t code_point);    // where str.splitlines cuts

std::string UpperText(const TextTables& tables, std::string_view text);
std::string LowerText(const TextTables& tables, std::string_view text);
std::string CapitalizedText(const TextTables& tables, std::string_view text);
std::string TitleText(const TextTables& tables, std::string_view text);
std::string SwappedCase(const TextTables& tables, std::string_view text);

enum class StripSide : uint8_t { Both, Left, Right };
// chars: the set to strip; null: white space.
std::string_view StripText(std::string_view text, StripSide side, const std::string* chars);
// At white space when separator is null. At most `limit` cuts, -1: all. from_right as rsplit. separator isn't empty.
std::vector<std::string> SplitText(std::string_view text, const std::string* separator, int64_t limit, bool from_right);
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);
// At most `limit` replacements, -1: all. Stops with length_error when the result would have more than `most` bytes.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t limit,
                        uint64_t most);

}  // namespace llmc
