// Where a model's hyper-parameters stand: a HF config.json or the metadata of a GGUF file, behind one interface of
// dotted keys.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/description.h"
#include "frontend/gguf.h"
#include "frontend/json.h"

namespace llmc {

// A key that the source has.
struct ConfigValue {
  bool null = false;       // present without a value
  bool empty = false;      // null, false, "", [] or {}
  bool container = false;  // array or object: `value` has only `shown` and `place`
  FieldValue value;
};

class ConfigSource {
 public:
  virtual ~ConfigSource() = default;
  // JSON: "rope_scaling.factor" is a member of a member, to any depth, "limits.0" the first entry of a list. nullopt: not
  // there.
  virtual std::optional<ConfigValue> Find(std::string_view key) const = 0;
  // All keys in the order of the file; the members of an object stand there as "object.member", in its place, when
  // `nested` has the object's key, and the entries of a list as "list.0", ..
  struct Key {
    std::string text;
    ConfigValue value;
    bool member = false;  // of a nested object
    Place place;          // of the key
  };
  virtual std::vector<Key> Keys(const std::set<std::string>& nested) const = 0;
  // Elements of an array of strings; nullopt when the key is absent or null. Throws BadValue when it is something else.
  virtual std::optional<std::vector<std::string>> Strings(std::string_view key) const = 0;
  // Elements of an array of plain values; nullopt when the key is absent or null. Throws BadValue when it is something
  // else.
  virtual std::optional<std::vector<FieldValue>> Values(std::string_view key) const = 0;
  // The tensor table, where the format has one.
  virtual const TensorInfo* Tensor(std::string_view) const { return nullptr; }
  virtual const std::string& file() const = 0;
};

class HfConfig : public ConfigSource {
 public:
  HfConfig(Json root, std::string file) : root_(std::move(root)), file_(std::move(file)) {}
  std::optional<ConfigValue> Find(std::string_view key) const override;
  std::vector<Key> Keys(const std::set<std::string>& nested) const override;
  std::optional<std::vector<std::string>> Strings(std::string_view key) const override;
  std::optional<std::vector<FieldValue>> Values(std::string_view key) const override;
  const std::string& file() const override { return file_; }
  const Json& root() const { return root_; }

 private:
  Json Value(std::string_view key) const;
  Json root_;
  std::string file_;
};

class GgufConfig : public ConfigSource {
 public:
  // Both outlive this.
  GgufConfig(const GgufHeader& header, const TensorSet& tensors, std::string file)
      : header_(header), tensors_(tensors), file_(std::move(file)) {}
  std::optional<ConfigValue> Find(std::string_view key) const override;
  std::vector<Key> Keys(const std::set<std::string>& nested) const override;
  std::optional<std::vector<std::string>> Strings(std::string_view key) const override;
  std::optional<std::vector<FieldValue>> Values(std::string_view key) const override;
  const TensorInfo* Tensor(std::string_view name) const override { return tensors_.Find(name); }
  const std::string& file() const override { return file_; }

 private:
  ConfigValue Convert(const GgufKey& key) const;
  const GgufHeader& header_;
  const TensorSet& tensors_;
  std::string file_;
};

// A JSON value as the value of a field.
ConfigValue ToConfigValue(const Json& value);

}  // namespace llmc
