// What the commands say on stderr: progress, timings, remarks, warnings.
#pragma once
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace llmc {

// What can't be written there is lost, and changes nothing else.
template <typename... Arguments>
void Note(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace llmc
