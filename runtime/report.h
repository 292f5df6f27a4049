// Output of llmc-run: checked writes to stdout, and flat JSON objects.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

// For the start of a program: a standard stream that is closed is held open (and refuses writes), so that no file that
// is opened later gets its number and with it what is meant for stdout or stderr.
void OpenStandardStreams();

// Writes to stdout and flushes; throws PlanError when that fails.
void WriteOut(std::string_view text);

// A JSON string, with its quotes. text: UTF-8.
std::string JsonQuoted(std::string_view text);

// {"key": value, ...} in the order of the calls; text is valid UTF-8.
class JsonObject {
 public:
  JsonObject& Text(std::string_view key, std::string_view value);
  JsonObject& Number(std::string_view key, double value);
  JsonObject& Integer(std::string_view key, uint64_t value);
  JsonObject& Raw(std::string_view key, std::string_view json);
  std::string Finish() const { return "{" + body_ + "}\n"; }

 private:
  std::string body_;
};

// The most memory this process has had resident, in bytes.
uint64_t PeakResidentBytes();

}  // namespace llmc
