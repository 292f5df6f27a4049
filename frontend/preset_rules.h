// Rules of presets (frontend/README.md, "Presets"): where the value of a field, of a local or of a layer's block comes
// from in a config.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/config_source.h"
#include "frontend/field.h"
#include "frontend/json.h"

namespace llmc {

// Evaluates rules against one config. Copies share the set of keys that rules have named.
class Rules {
 public:
  // maps: those that rules may name.
  Rules(const ConfigSource& config, std::string arch, std::map<std::string, Json, std::less<>> maps = {})
      : config_(&config), arch_(std::move(arch)), maps_(std::move(maps)) {}

  const ConfigSource& config() const { return *config_; }
  std::string KeyOf(const Json& key) const;

  // Whether the rule's "when" holds: each name that it lists has one of the values.
  bool Applies(const Json& rule) const;
  // The value that the rule gives `name`. Throws InputError with the place in the config.
  FieldValue Evaluate(const std::string& name, const Json& rule) const;
  // What "when", "var" and "compute" see under `name`.
  void Remember(const std::string& name, FieldValue value) { known_[name] = std::move(value); }

 private:
  Json MapOf(const Json& rule) const;
  FieldValue Raw(const std::string& name, const Json& rule) const;
  FieldValue RowsOf(const std::string& name, const std::string& tensor) const;
  FieldValue EntryOf(const Json& rule) const;
  FieldValue LayersWith(std::string_view tensor) const;
  FieldValue LengthOf(const std::string& name, const Json& keys) const;
  FieldValue FromKeys(const std::string& name, const Json& rule) const;
  FieldValue Nonzero(const std::string& key, const Json& rule, bool zeros) const;  // zeros: which don't count
  FieldValue Computed(const std::string& name, const Json& expression) const;
  double Number(const std::string& name, const Json& expression, Place& place) const;
  void RefuseBoth(std::string_view tensor, const Json& rule) const;
  void RefuseAnother(const std::vector<std::string>& keys, const std::string& used, const FieldValue& value) const;

  const ConfigSource* config_;
  std::string arch_;
  std::map<std::string, Json, std::less<>> maps_;
  std::map<std::string, FieldValue, std::less<>> known_;
};

// The block of each of n layers by the preset's list of rules; the first rule that applies decides. Throws InputError.
std::vector<std::string> LayerBlocks(const Rules& rules, const Json& list, int64_t n);

// Every key of a config that a rule names, anywhere in a preset's section, "{arch}" filled in.
void CollectKeys(const Json& rule, const std::string& arch, std::set<std::string>& keys);

// Every name that a rule reads: of "var", "when" and "compute".
void CollectNames(const Json& rule, std::set<std::string>& names);

}  // namespace llmc
