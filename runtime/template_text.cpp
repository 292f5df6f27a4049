// Python's str, on UTF-8.
#include "runtime/template_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "runtime/plan_unicode.h"

namespace llmc {

int64_t CountPoints(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

std::string EscapedPoint(uint32_t code_point) {
  std::array<char, 16> buffer;
  std::snprintf(buffer.data(), buffer.size(),
                code_point < 0x100     ? "\\x%02x"
                : code_point < 0x10000 ? "\\u%04x"
                                       : "\\U%08x",
                code_point);
  return buffer.data();
}

int64_t TextLength(const TemplateValue& text) {
  const StrObject& object = text.As<StrObject>();
  if (object.points < 0) object.points = CountPoints(object.text);
  return object.points;
}

size_t ByteOf(std::string_view text, int64_t index, bool ascii) {
  if (ascii) return static_cast<size_t>(index);
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80 && index-- == 0) break;
  }
  return at;
}

std::string SlicePoints(std::string_view text, int64_t start, int64_t step, int64_t length, int64_t text_length) {
  if (length <= 0) return "";
  const bool ascii = text_length == static_cast<int64_t>(text.size());
  if (step == 1) {
    const size_t begin = ByteOf(text, start, ascii);
    return std::string(text.substr(begin, ByteOf(text.substr(begin), length, ascii)));
  }
  std::vector<uint32_t> starts;
  if (!ascii) {
    for (size_t at = 0; at < text.size(); ++at) {
      if ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80) starts.push_back(static_cast<uint32_t>(at));
    }
    starts.push_back(static_cast<uint32_t>(text.size()));
  }
  std::string result;
  for (int64_t i = 0; i < length; ++i) {
    const size_t index = static_cast<size_t>(start + i * step);
    if (ascii)
      result.push_back(text[index]);
    else
      result.append(text.substr(starts[index], starts[index + 1] - starts[index]));
  }
  return result;
}

bool IsTextSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsLineEnd(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

namespace {

using Case = TextTables::Case;
constexpr uint32_t kSigma = 0x3A3, kFinalSigma = 0x3C2, kSmallSigma = 0x3C3;

// The sigma at byte `at` ends a word: a cased letter before it and none behind it, case-ignorable ones aside.
bool EndsWord(const TextTables& tables, std::string_view text, size_t at, size_t next) {
  bool before = false;
  for (size_t i = at; i > 0 && !before;) {
    do --i;
    while (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80);
    const uint32_t bits = tables.Properties(DecodeUtf8(text, i).value);
    if ((bits & kTextIgnorable) != 0) continue;
    if ((bits & kTextCased) == 0) return false;
    before = true;
  }
  if (!before) return false;
  for (size_t i = next; i < text.size();) {
    const CodePoint c = DecodeUtf8(text, i);
    const uint32_t bits = tables.Properties(c.value);
    if ((bits & kTextIgnorable) == 0) return (bits & kTextCased) == 0;
    i += c.bytes;
  }
  return true;
}

void AppendLower(const TextTables& tables, std::string& out, std::string_view text, size_t at, CodePoint c) {
  if (c.value == kSigma)
    AppendUtf8(out, EndsWord(tables, text, at, at + c.bytes) ? kFinalSigma : kSmallSigma);
  else
    tables.AppendCase(out, c.value, Case::Lower);
}

template <typename Each>
std::string MapPoints(std::string_view text, const Each& each) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    each(out, at, c);
    at += c.bytes;
  }
  return out;
}

}  // namespace

std::string UpperText(const TextTables& tables, std::string_view text) {
  return MapPoints(text, [&](std::string& out, size_t, CodePoint c) { tables.AppendCase(out, c.value, Case::Upper); });
}

std::string LowerText(const TextTables& tables, std::string_view text) {
  return MapPoints(text, [&](std::string& out, size_t at, CodePoint c) { AppendLower(tables, out, text, at, c); });
}

std::string CapitalizedText(const TextTables& tables, std::string_view text) {
  return MapPoints(text, [&](std::string& out, size_t at, CodePoint c) {
    if (at == 0)
      tables.AppendCase(out, c.value, Case::Title);
    else
      AppendLower(tables, out, text, at, c);
  });
}

std::string TitleText(const TextTables& tables, std::string_view text) {
  bool cased_before = false;
  return MapPoints(text, [&](std::string& out, size_t at, CodePoint c) {
    if (cased_before)
      AppendLower(tables, out, text, at, c);
    else
      tables.AppendCase(out, c.value, Case::Title);
    cased_before = (tables.Properties(c.value) & kTextCased) != 0;
  });
}

std::string SwappedCase(const TextTables& tables, std::string_view text) {
  return MapPoints(text, [&](std::string& out, size_t at, CodePoint c) {
    const uint32_t bits = tables.Properties(c.value);
    if ((bits & kTextUpper) != 0)
      AppendLower(tables, out, text, at, c);
    else if ((bits & kTextLower) != 0)
      tables.AppendCase(out, c.value, Case::Upper);
    else
      AppendUtf8(out, c.value);
  });
}

std::string_view StripText(std::string_view text, StripSide side, const std::string* chars) {
  const auto strips = [&](std::string_view at, size_t bytes) {
    if (chars == nullptr) return IsTextSpace(DecodeUtf8(at, 0).value);
    for (size_t i = 0; i < chars->size();) {
      const size_t size = DecodeUtf8(*chars, i).bytes;
      if (std::string_view(*chars).substr(i, size) == at.substr(0, bytes)) return true;
      i += size;
    }
    return false;
  };
  if (side != StripSide::Right) {
    while (!text.empty()) {
      const size_t bytes = DecodeUtf8(text, 0).bytes;
      if (!strips(text, bytes)) break;
      text.remove_prefix(bytes);
    }
  }
  if (side != StripSide::Left) {
    while (!text.empty()) {
      size_t at = text.size() - 1;
      while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
      if (!strips(text.substr(at), text.size() - at)) break;
      text.remove_suffix(text.size() - at);
    }
  }
  return text;
}

std::vector<std::string> SplitText(std::string_view text, const std::string* separator, int64_t limit,
                                   bool from_right) {
  std::vector<std::string> parts;
  uint64_t left = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  if (separator == nullptr) {
    const StripSide side = from_right ? StripSide::Right : StripSide::Left;
    while (true) {
      text = StripText(text, side, nullptr);
      if (text.empty()) break;
      if (left-- == 0) {
        parts.emplace_back(text);
        break;
      }
      // A word reaches to the next white space.
      size_t begin = 0, end = text.size();
      if (from_right) {
        for (size_t at = text.size(); at > 0;) {
          const size_t behind = at;
          do --at;
          while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
          if (IsTextSpace(DecodeUtf8(text, at).value)) {
            begin = behind;
            break;
          }
        }
      } else {
        for (size_t at = 0; at < text.size();) {
          const CodePoint c = DecodeUtf8(text, at);
          if (IsTextSpace(c.value)) {
            end = at;
            break;
          }
          at += c.bytes;
        }
      }
      parts.emplace_back(text.substr(begin, end - begin));
      text = from_right ? text.substr(0, begin) : text.substr(end);
    }
  } else if (from_right) {
    for (size_t at; left > 0 && (at = text.rfind(*separator)) != std::string_view::npos; --left) {
      parts.emplace_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    parts.emplace_back(text);
  } else {
    for (size_t at; left > 0 && (at = text.find(*separator)) != std::string_view::npos; --left) {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator->size());
    }
    parts.emplace_back(text);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    size_t next = at + c.bytes;
    if (IsLineEnd(c.value)) {
      if (c.value == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.emplace_back(text.substr(begin, (keep_ends ? next : at) - begin));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t limit,
                        uint64_t most) {
  uint64_t left = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  std::string out;
  const auto add = [&](std::string_view part) {
    if (out.size() + part.size() > most) throw std::length_error("a text that is too long");
    out.append(part);
  };
  if (from.empty()) {  // between all characters
    for (size_t at = 0; left > 0; --left) {
      add(to);
      if (at == text.size()) return out;
      const size_t bytes = DecodeUtf8(text, at).bytes;
      add(text.substr(at, bytes));
      at += bytes;
      if (left == 1) {
        add(text.substr(at));
        return out;
      }
    }
    return std::string(text);
  }
  size_t at = 0;
  for (size_t found; left > 0 && (found = text.find(from, at)) != std::string_view::npos; --left) {
    add(text.substr(at, found - at));
    add(to);
    at = found + from.size();
  }
  add(text.substr(at));
  return out;
}

std::string FloatDigits(double value, char conversion, int precision, bool alternate) {
  value = std::fabs(value);
  const bool upper = conversion == 'E' || conversion == 'F' || conversion == 'G';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? "INF" : "inf";
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + conversion;
  std::string text(static_cast<size_t>(precision) + 350, '\0');
  const int size = std::snprintf(text.data(), text.size(), format.c_str(), precision, value);
  text.resize(static_cast<size_t>(size));
  return text;
}

std::string AsciiText(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    at += c.bytes;
    if (c.value < 0x80) {
      out.push_back(static_cast<char>(c.value));
      continue;
    }
    out += EscapedPoint(c.value);
  }
  return out;
}

}  // namespace llmc
