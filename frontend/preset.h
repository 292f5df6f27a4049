// Presets: data files (frontend/arch/NAME.json, explained in frontend/README.md) that map a family's keys to fields of
// the description.
#pragma once
#include <string>
#include <vector>

#include "frontend/config_source.h"
#include "frontend/description.h"
#include "ir/diag.h"

namespace llmc {

struct PresetOptions {
  std::vector<std::string> allow_unknown;  // keys to pass over
  DiagSink sink;                           // warnings; may be empty
};

// Throws InputError UnknownArchitecture, MissingKey, BadValue, Unsupported or UnknownKey with the place in the config.
Description DescribeHf(const HfConfig& config, const PresetOptions& options);
Description DescribeGguf(const GgufConfig& config, const PresetOptions& options);

// Names of all presets, sorted.
std::vector<std::string> PresetNames();

}  // namespace llmc
