// Diagnostics: every message that a user can see has a kind (ir/diag.def), a place and a text that states the rule and
// the values.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

enum class DiagKind : uint16_t {
#define DIAG(name) name,
#include "ir/diag.def"
#undef DIAG
};
std::string_view DiagName(DiagKind kind);

// Where in the input: `file` as the user named it, `at` what helps there: "14:19" (line:column), a JSON pointer, "byte
// 48", "tensor NAME". Either may be empty.
struct Place {
  std::string file;
  std::string at;
};

enum class Severity : uint8_t { Error, Warning, Remark, Note };

struct Diag {
  Severity severity = Severity::Error;
  DiagKind kind{};
  Place place;
  std::string message;
  std::vector<std::string> notes;
};
// "file:place: error: message [Kind]" and a line "note: ..." for each note. No trailing newline.
std::string ToText(const Diag& diag);

// Input at fault: the program prints the diagnostic and exits with status 1.
class InputError : public std::exception {
 public:
  explicit InputError(Diag d) : diag_(std::move(d)), text_(ToText(diag_)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const Diag& diag() const { return diag_; }

 private:
  Diag diag_;
  std::string text_;
};
[[noreturn]] void Fail(DiagKind kind, Place place, std::string message, std::vector<std::string> notes = {});

// Wrong use of the command line or an option: exit status 2.
class UsageError : public std::exception {
 public:
  explicit UsageError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Receives warnings and remarks as they arise.
using DiagSink = std::function<void(const Diag&)>;

// A fault in llmc itself (exit status 3): thrown, so that output files are cleaned up on the way out.
class InternalError : public std::exception {
 public:
  InternalError(const char* file, int line, std::string text);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace llmc

// States that no input can reach. `message` is a std::string expression, evaluated only on failure.
#define LLMC_CHECK(condition, message)                                            \
  do {                                                                            \
    if (!(condition)) throw ::llmc::InternalError(__FILE__, __LINE__, (message)); \
  } while (false)
