// The JSON files of frontend/arch and frontend/config_keys.json, put into the program by frontend/embed.cmake.
#pragma once
#include <span>
#include <string_view>

namespace llmc {

struct EmbeddedFile {
  std::string_view name;  // "arch/NAME.json"
  std::string_view text;
};
std::span<const EmbeddedFile> EmbeddedFiles();

}  // namespace llmc
