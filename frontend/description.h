// The typed description of a model (fields: frontend/description.def): what every source format is turned into, and
// what the graph is built from. llmc's own JSON form of it is read and printed here.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontend/json.h"
#include "ir/diag.h"

namespace llmc {

// Choices: enum class NormKind { Rms }; and the spellings of each.
#define ALT(name, text) name,
#define CHOICES(type, ...) enum class type : uint8_t { __VA_ARGS__ };
#include "frontend/description.def"
#undef ALT

// Spellings of a choice in the order of its enumerators.
template <class T>
struct ChoiceTexts;
#define ALT(name, text) std::string_view(text),
#define CHOICES(type, ...)                              \
  template <>                                           \
  struct ChoiceTexts<type> {                            \
    static constexpr std::array kTexts = {__VA_ARGS__}; \
  };
#include "frontend/description.def"
#undef ALT
template <class T>
std::string_view ChoiceText(T value) {
  return ChoiceTexts<T>::kTexts[static_cast<size_t>(value)];
}

// Groups: struct NormSpec { NormKind kind; double eps; }.
#define GROUP(type, key, doc) struct type {
#define FIELD(type, name, otherwise, doc) type name = otherwise;
#define END_GROUP(type)                         \
  bool operator==(const type&) const = default; \
  }                                             \
  ;
#include "frontend/description.def"

// VisitFields(spec, visit): calls visit(name, member, doc) for each field, in order.
#define GROUP(type, key, doc)                             \
  template <class G, class V>                             \
    requires std::is_same_v<std::remove_const_t<G>, type> \
  void VisitFields(G& spec, V&& visit) {
#define FIELD(type, name, otherwise, doc) visit(std::string_view(#name), spec.name, std::string_view(doc));
#define END_GROUP(type) }
#include "frontend/description.def"

struct Block {
  NormSpec norm;
  AttentionSpec attention;
  PositionSpec position;
  FfnSpec ffn;
  WiringSpec wiring;
  bool operator==(const Block&) const = default;
};
// visit(key, group) for each group of a block; keys as in description.def.
template <class B, class V>
  requires std::is_same_v<std::remove_const_t<B>, Block>
void VisitGroups(B& block, V&& visit) {
  visit(std::string_view("norm"), block.norm);
  visit(std::string_view("attention"), block.attention);
  visit(std::string_view("position"), block.position);
  visit(std::string_view("ffn"), block.ffn);
  visit(std::string_view("wiring"), block.wiring);
}

// Where a weight of the graph comes from.
struct TensorRule {
  std::string from;  // name in the file; "{i}" stands for the layer
  double add = 0;    // norm gains: added to the stored value
  bool operator==(const TensorRule&) const = default;
};

struct Description {
  ModelSpec model;
  std::vector<std::pair<std::string, Block>> blocks;  // named; at least one
  std::vector<int> layers;                            // layers[i]: index of its block
  EndsSpec ends;
  // By the graph's name: "embed", "b{i}.wq" (weight_list.h). A weight without a rule has its graph's name in the file
  // too: "b0.wq".
  std::map<std::string, TensorRule> tensors;
  // Patterns of tensors that a file may hold and the graph does not need; "{i}" stands for a number.
  std::vector<std::string> ignored_tensors;
  std::string weights;  // path as given, relative to the description; "": beside it
  const Block& BlockOf(int64_t layer) const {
    return blocks[static_cast<size_t>(layers[static_cast<size_t>(layer)])].second;
  }
};

// Fills in derived sizes and checks every rule that fields must keep among each other. Throws InputError BadValue or
// MissingKey naming the field in `file`.
void Complete(Description& d, const std::string& file);

// True for a JSON text in llmc's own form: an object with the key "llmc".
bool IsDescription(const Json& root);
// Reads llmc's own form (frontend/README.md); Complete()d. Unknown keys are errors with the nearest known name.
Description ReadDescription(const Json& root, const std::string& file);
// Prints it; flat: every field of every block stands there. ReadDescription gives an equal description back.
std::string PrintDescription(const Description& d);

// Sets a field by its dotted name ("attention.n_heads", "vocab") in a block, the model or the ends, from text, integer,
// number or boolean. Throws InputError BadValue at `place` for a value of the wrong type, Unsupported for a choice that
// there is not (the alternatives are listed).
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
void SetField(Description& d, Block& block, std::string_view field, const FieldValue& value);

// The candidate with the smallest edit distance, if that is at most a third of the name's length; "" otherwise.
std::string NearestName(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace llmc
