// Fields: named members of a record (a norm, an attention, the sizes of a model) that sources set by name and type.
// Reader, printer, hints, checks of the page in frontend/README.md: all go through a record's list of fields.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "frontend/json.h"
#include "ir/diag.h"

namespace llmc {

// A value for a field, from any source.
struct FieldValue {
  enum class Kind : uint8_t { Bool, Int, Float, Text } kind{};
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::string shown;  // as it stands in the source, for messages
  Place place;
};
inline constexpr size_t kShownBytes = 80;  // of `shown`
// Bool, Int, Float and String; nullopt for null and containers.
std::optional<FieldValue> ScalarOf(const Json& value);
// An Int or a Float as a number; 0 for the other kinds.
double NumberOf(const FieldValue& value);

// A number that nobody has given: Complete() derives it. (NaN: SetField refuses it.)
inline constexpr double kDerived = std::numeric_limits<double>::quiet_NaN();

// A choice is an enum of uint8_t; TextsOf(value) gives the spellings in the order of its enumerators:
//   enum class NormKind : uint8_t { Rms };
//   inline constexpr std::array<std::string_view, 1> kNormKinds = {"rms"};
//   inline std::span<const std::string_view> TextsOf(NormKind) { return kNormKinds; }
template <class T>
  requires std::is_enum_v<T>
std::string_view ChoiceText(T value) {
  return TextsOf(value)[static_cast<size_t>(value)];
}

// One member of a record. The record outlives it.
struct Field {
  struct Choice {
    uint8_t* value;
    std::span<const std::string_view> texts;
  };
  std::string_view name;
  std::variant<bool*, int64_t*, double*, std::string*, Choice> at;

  template <class T>
  static std::variant<bool*, int64_t*, double*, std::string*, Choice> To(T& member) {
    if constexpr (std::is_enum_v<T>) {
      static_assert(sizeof(T) == 1);
      return Choice{reinterpret_cast<uint8_t*>(&member), TextsOf(member)};
    } else {
      return &member;
    }
  }
  template <class T>
  Field(std::string_view field_name, T& member) : name(field_name), at(To(member)) {}
};
using Fields = std::vector<Field>;

// Sets the field. Throws InputError BadValue at the value's place for a value of the wrong type, Unsupported for a
// choice that there is not (the alternatives are listed). `shown_name`: as messages call it ("attention.n_heads").
void SetField(const Field& field, std::string_view shown_name, const FieldValue& value);
FieldValue GetField(const Field& field);
// The field called `name`; nullptr: none.
const Field* FindField(const Fields& fields, std::string_view name);
void WriteFields(JsonWriter& out, const Fields& fields);
bool SameFields(const Fields& a, const Fields& b);

// The candidate with the smallest edit distance, if that is at most a third of the name's length; "" otherwise.
std::string NearestName(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace llmc
