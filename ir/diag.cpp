// Text of diagnostics, and the exceptions that carry them.
#include "ir/diag.h"

#include <utility>

namespace llmc {
namespace {

constexpr std::string_view kNames[] = {
#define DIAG(name) #name,
#include "ir/diag.def"
#undef DIAG
};
constexpr std::string_view kSeverities[] = {"error", "warning", "remark", "note"};

}  // namespace

std::string_view DiagName(DiagKind kind) { return kNames[static_cast<size_t>(kind)]; }

// Names come from files: what would end a message early, or do something to a terminal, is shown as \xNN.
static std::string Printable(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\t') {
      out += c;
    } else {
      out.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

std::string ToText(const Diag& diag) {
  std::string text = diag.place.file;
  if (!diag.place.at.empty()) {
    if (!text.empty()) text += ':';
    text += diag.place.at;
  }
  if (!text.empty()) text += ": ";
  text += kSeverities[static_cast<size_t>(diag.severity)];
  text += ": " + diag.message + " [";
  text += DiagName(diag.kind);
  text += ']';
  for (const std::string& note : diag.notes) text += "\nnote: " + note;
  return Printable(text);
}

void Fail(DiagKind kind, Place place, std::string message, std::vector<std::string> notes) {
  throw InputError({Severity::Error, kind, std::move(place), std::move(message), std::move(notes)});
}

InternalError::InternalError(const char* file, int line, std::string text)
    : text_("internal error at " + std::string(file) + ":" + std::to_string(line) + ": " + std::move(text)) {}

}  // namespace llmc
