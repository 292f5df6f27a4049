// Presets: data files (frontend/arch/NAME.json, explained in frontend/README.md) that map a family's keys to fields of
// the description.
#pragma once
#include <optional>
#include <string>
#include <string_view>
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

// What transformers' AutoTokenizer registers for a model_type: the class of its tokenizer ("": none), which counts where
// the files declare none, or `always`. Nothing when no preset says so.
struct RegisteredTokenizer {
  std::string name;
  bool always = false;
};
std::optional<RegisteredTokenizer> FindRegisteredTokenizer(std::string_view model_type);

// Names of all presets, sorted.
std::vector<std::string> PresetNames();

}  // namespace llmc
