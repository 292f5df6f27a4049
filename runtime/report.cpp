// stdout, JSON, and the peak of resident memory.
#include "runtime/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>

#include "runtime/plan_error.h"

namespace llmc {
std::string JsonQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

void OpenStandardStreams() {
  // open takes the lowest free number.
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

void WriteOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw PlanError(std::string("stdout: can't write: ") + std::strerror(errno));
  }
}

JsonObject& JsonObject::Raw(std::string_view key, std::string_view json) {
  body_ += (body_.empty() ? "" : ", ") + JsonQuoted(key) + ": ";
  body_ += json;
  return *this;
}
JsonObject& JsonObject::Text(std::string_view key, std::string_view value) { return Raw(key, JsonQuoted(value)); }
JsonObject& JsonObject::Integer(std::string_view key, uint64_t value) { return Raw(key, std::to_string(value)); }
JsonObject& JsonObject::Number(std::string_view key, double value) {
  if (!(value - value == 0)) return Raw(key, "null");  // JSON has neither infinity nor NaN
  char text[64];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return Raw(key, text);
}

uint64_t PeakResidentBytes() {
  // Not getrusage: its peak survives exec, and then is the parent's.
  uint64_t kib = 0;
  if (FILE* file = std::fopen("/proc/self/status", "re")) {
    char line[256];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      unsigned long long value = 0;
      if (std::sscanf(line, "VmHWM: %llu kB", &value) == 1) kib = value;
    }
    std::fclose(file);
  }
  return kib * 1024;
}

}  // namespace llmc
