// Fields: set, got, compared and printed by type.
#include "frontend/field.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace llmc {
namespace {

std::string_view KindText(FieldValue::Kind kind) {
  static constexpr std::array<std::string_view, 4> kText = {"a boolean", "an integer", "a number", "a string"};
  return kText[static_cast<size_t>(kind)];
}

// Assigns by the member's type; one overload each.
struct Setter {
  std::string_view name;
  const FieldValue& v;

  [[noreturn]] void WrongType(std::string_view wanted) const {
    Fail(DiagKind::BadValue, v.place,
         fmt::format("{} must be {}, is {} ({})", name, wanted, v.shown, KindText(v.kind)));
  }
  void operator()(bool* out) const {
    if (v.kind != FieldValue::Kind::Bool) WrongType("true or false");
    *out = v.boolean;
  }
  void operator()(int64_t* out) const {
    if (v.kind != FieldValue::Kind::Int) WrongType("an integer");
    *out = v.integer;
  }
  void operator()(double* out) const {
    if (v.kind != FieldValue::Kind::Int && v.kind != FieldValue::Kind::Float) WrongType("a number");
    const double number = NumberOf(v);
    if (!std::isfinite(number))
      Fail(DiagKind::BadValue, v.place, fmt::format("{} must be a finite number, is {}", name, v.shown));
    *out = number;
  }
  void operator()(std::string* out) const {
    if (v.kind != FieldValue::Kind::Text) WrongType("a string");
    *out = v.text;
  }
  void operator()(const Field::Choice& out) const {
    if (v.kind != FieldValue::Kind::Text) WrongType("a string");
    auto it = std::find(out.texts.begin(), out.texts.end(), v.text);
    if (it == out.texts.end()) {
      Fail(DiagKind::Unsupported, v.place,
           fmt::format("{} = {} is not supported; supported: {}", name, v.shown, fmt::join(out.texts, ", ")));
    }
    *out.value = static_cast<uint8_t>(it - out.texts.begin());
  }
};

struct Getter {
  FieldValue v;

  void operator()(const bool* in) {
    v.kind = FieldValue::Kind::Bool;
    v.boolean = *in;
    v.shown = *in ? "true" : "false";
  }
  void operator()(const int64_t* in) {
    v.kind = FieldValue::Kind::Int;
    v.integer = *in;
    v.shown = std::to_string(*in);
  }
  void operator()(const double* in) {
    v.kind = FieldValue::Kind::Float;
    v.number = *in;
    v.shown = fmt::format("{}", *in);
  }
  void operator()(const std::string* in) {
    v.kind = FieldValue::Kind::Text;
    v.text = *in;
    v.shown = JsonQuote(*in);
  }
  void operator()(const Field::Choice& in) {
    v.kind = FieldValue::Kind::Text;
    v.text = in.texts[*in.value];
    v.shown = JsonQuote(v.text);
  }
};

void Write(JsonWriter& out, const FieldValue& v) {
  switch (v.kind) {
    case FieldValue::Kind::Bool: out.Bool(v.boolean); return;
    case FieldValue::Kind::Int: out.Int(v.integer); return;
    case FieldValue::Kind::Float: out.Double(v.number); return;
    case FieldValue::Kind::Text: out.String(v.text); return;
  }
}

}  // namespace

double NumberOf(const FieldValue& value) {
  return value.kind == FieldValue::Kind::Int ? static_cast<double>(value.integer) : value.number;
}

void SetField(const Field& field, std::string_view shown_name, const FieldValue& value) {
  std::visit(Setter{shown_name, value}, field.at);
}

FieldValue GetField(const Field& field) {
  Getter getter;
  std::visit([&](const auto& at) { getter(at); }, field.at);
  return getter.v;
}

const Field* FindField(const Fields& fields, std::string_view name) {
  auto it = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
  return it == fields.end() ? nullptr : &*it;
}

void WriteFields(JsonWriter& out, const Fields& fields) {
  for (const Field& f : fields) {
    const FieldValue v = GetField(f);
    // A number that nobody has given, of a part that nothing reads.
    if (v.kind == FieldValue::Kind::Float && std::isnan(v.number)) continue;
    out.Key(f.name);
    Write(out, v);
  }
}

bool SameFields(const Fields& a, const Fields& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Field& x, const Field& y) {
    return x.name == y.name && GetField(x).shown == GetField(y).shown;
  });
}

std::string NearestName(std::string_view name, const std::vector<std::string_view>& candidates) {
  name = name.substr(0, 64);
  std::string_view best;
  size_t best_distance = name.size() / 3 + 1;
  for (std::string_view candidate : candidates) {
    // Levenshtein's distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return std::string(best);
}

}  // namespace llmc
