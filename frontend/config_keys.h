// The rule for keys that no preset maps (DESIGN section 5; the lists are data: frontend/config_keys.json).
#pragma once
#include <set>
#include <string>

#include "frontend/config_source.h"
#include "frontend/preset.h"

namespace llmc {

// Checks every key of `config` that is not in `mapped`: known harmless ones pass, and any with a value that changes
// nothing ("neutral", else null, false, "", [] and {}); refused ones, and listed ones with another value, are errors
// (Unsupported); of the rest, a member of a mapped object or a name with a stem of arithmetic is an
// error (UnknownKey), others a warning. section: "hf" or "gguf". arch: what "{arch}" stands for in the lists.
void CheckKeys(const ConfigSource& config, const std::string& section, const std::string& arch,
               const std::set<std::string>& mapped, const PresetOptions& options);

// `text` with "{arch}" filled in.
std::string WithArch(std::string_view text, const std::string& arch);

}  // namespace llmc
