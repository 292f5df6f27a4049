// JSON with places: a reader that knows line:column of every value, and a writer. Strict JSON in UTF-8 (RFC 8259);
// duplicate keys are refused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/diag.h"

namespace llmc {

// Float: a number with '.' or an exponent, or outside int64.
enum class JsonKind : uint8_t { Null, Bool, Int, Float, String, Array, Object };
std::string_view JsonKindText(JsonKind kind);

// Bounds on what a text may make us hold. Memory is at most about 40 bytes per value and twice the text.
struct JsonLimits {
  uint64_t max_bytes = uint64_t{4} << 20;
  uint64_t max_values = uint64_t{1} << 18;
  int max_depth = 64;
};

struct JsonTree;  // storage, in json.cpp

// A value in a parsed text: a handle that shares the tree, cheap to copy. Accessors throw InputError BadValue naming
// place, wanted and found kind.
class Json {
 public:
  Json() = default;  // no value: only operator bool may be asked
  explicit operator bool() const { return tree_ != nullptr; }
  JsonKind kind() const;
  bool is(JsonKind k) const { return kind() == k; }
  bool AsBool() const;
  int64_t AsInt() const;
  double AsDouble() const;            // Int or Float
  std::string_view AsString() const;  // valid while any handle of the tree lives
  // Elements of an array, members of an object, in the order of the text.
  size_t size() const;
  std::vector<Json> items() const;
  std::vector<std::pair<std::string_view, Json>> members() const;
  // A member by key, without a value when it is absent. Linear in the number of members.
  Json Find(std::string_view key) const;
  // "line:column" of the value (or of a member's key) in the file.
  Place place() const;
  Place key_place() const;
  // The text of this value as it stands in the file.
  std::string_view source() const;

 private:
  friend Json ParseJson(std::string, const std::string&, const JsonLimits&);
  Json(std::shared_ptr<const JsonTree> tree, uint32_t node) : tree_(std::move(tree)), node_(node) {}
  void Want(JsonKind kind) const;
  std::shared_ptr<const JsonTree> tree_;
  uint32_t node_ = 0;
};

// Throws InputError SyntaxError, DuplicateName or TooLarge with `file` and line:column.
Json ParseJson(std::string text, const std::string& file, const JsonLimits& limits = {});
// The object in a file. Nothing when there is no file; what is there must be readable. Throws InputError FileError,
// and BadValue for anything but an object.
Json ReadJsonObject(const std::string& path);
// A member that is there and not null; nothing of nothing.
Json FindValue(const Json& object, std::string_view key);

struct JsonOutput;  // what was written so far, in json.cpp

// Writes JSON with two spaces of indent. Calls nest as the text does.
class JsonWriter {
 public:
  JsonWriter();
  JsonWriter& BeginObject();
  JsonWriter& BeginArray();
  JsonWriter& End();  // of the innermost object or array
  JsonWriter& Key(std::string_view key);
  JsonWriter& Null();
  JsonWriter& Bool(bool v);
  JsonWriter& Int(int64_t v);
  JsonWriter& Double(double v);  // shortest text that reads back; always with '.' or 'e'
  JsonWriter& String(std::string_view v);
  // The text with a final newline; all objects and arrays are closed.
  std::string Finish();

 private:
  std::shared_ptr<JsonOutput> out_;
};

// A string as a JSON literal with quotes.
std::string JsonQuote(std::string_view text);

}  // namespace llmc
