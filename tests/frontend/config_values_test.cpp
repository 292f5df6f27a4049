// Configs against transformers: what each key means when it is absent, null, false, zero or empty (CASES G02; the table
// is tools/golden/config_values.py's).
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/weight_list.h"
#include "tests/frontend/support.h"

namespace llmc {
namespace {

using test::kData;

// The object's text with the member at the dotted key set to `value`, or taken away where that is "".
std::string With(const Json& object, std::string_view key, std::string_view value) {
  const size_t dot = key.find('.');
  const std::string_view head = key.substr(0, dot);
  std::string out;
  bool found = false;
  auto add = [&](std::string_view name, std::string_view text) {
    out += std::string(out.empty() ? "" : ", ") + JsonQuote(name) + ": " + std::string(text);
  };
  for (const auto& [name, member] : object.members()) {
    if (name != head) {
      add(name, member.source());
      continue;
    }
    found = true;
    if (dot != std::string_view::npos) {
      add(name, With(member, key.substr(dot + 1), value));
    } else if (!value.empty()) {
      add(name, value);
    }
  }
  if (!found && !value.empty()) add(head, value);
  return "{" + out + "}";
}

int64_t ParametersOf(const Description& d) {
  int64_t total = 0;
  for (const WeightUse& use : WeightsOf(d)) {
    if (use.fused || use.part == WeightPart::Constant) continue;
    int64_t n = 1;
    for (int64_t dim : use.dims) n *= dim;
    total += n;
  }
  return total;
}

// A layer's field as a number, 0 where the layer has none such.
double NumberAt(const Description& d, int64_t layer, std::string_view field) {
  const auto v = GetField(d, d.BlockOf(layer), field);
  return v ? NumberOf(*v) : 0.0;
}

// What differs between a description and the facts; "": nothing.
std::string Difference(const Description& d, const Json& facts, const Json& changed) {
  for (const auto& [name, base] : facts.members()) {
    const Json other = changed ? changed.Find(name) : Json();
    const Json& want = other ? other : base;
    if (name == "parameters") {
      if (ParametersOf(d) != want.AsInt())
        return "parameters " + std::to_string(ParametersOf(d)) + ", not " + std::string(want.source());
      continue;
    }
    for (int64_t i = 0; i < d.model.n_layers; ++i) {
      if (!GetField(d, d.BlockOf(i), name)) continue;  // a layer without positions, or without attention
      const Json value = want.is(JsonKind::Array) ? want.items()[static_cast<size_t>(i)] : want;
      const double ours = NumberAt(d, i, name);
      if (std::abs(ours - value.AsDouble()) > 1e-12 * std::abs(ours))
        return std::string(name) + " of layer " + std::to_string(i) + " is " + std::to_string(ours) + ", not " +
               std::string(value.source());
    }
  }
  return "";
}

TEST(ConfigValues, AbsentNullFalseZeroAndEmptyAreFive) {
  const Json table = test::ReadJson(kData + "config_values.json");
  int accepted = 0;
  int refused = 0;
  for (const auto& [kind, family] : table.members()) {
    const Json config = test::ReadJson(kData + std::string(family.Find("base").AsString()) + "/config.json");
    const Json facts = family.Find("facts");
    EXPECT_EQ(Difference(test::Describe(std::string(config.source())), facts, {}), "") << kind;
    for (const auto& [key, cases] : family.Find("keys").members()) {
      for (const auto& [name, outcome] : cases.members()) {
        SCOPED_TRACE(std::string(kind) + ": " + std::string(key) + " " + std::string(name));
        const std::string text(name == "absent" ? "" : name);
        Description d;
        try {
          d = test::Describe(With(config, key, text));
        } catch (const InputError&) {
          ++refused;
          continue;
        }
        ++accepted;
        if (!outcome.is(JsonKind::String)) {
          EXPECT_EQ(Difference(d, facts, outcome), "");
        } else if (name != "null") {
          // The class refuses it: here it may be no more than nothing. (What null means the preset says: older classes
          // took it for more than an absent key.)
          EXPECT_EQ(PrintDescription(d), PrintDescription(test::Describe(With(config, key, ""))))
              << "refused by the class";
        }
      }
    }
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 300);
}

// Every preset's family is in the table, so that a new one cannot be left out.
TEST(ConfigValues, EveryFamilyIsThere) {
  const Json table = test::ReadJson(kData + "config_values.json");
  for (const auto& entry : std::filesystem::directory_iterator(std::string(LLMC_SOURCE_DIR) + "/frontend/arch")) {
    const Json hf = test::ReadJson(entry.path().string()).Find("hf");
    if (!hf || !hf.is(JsonKind::Object)) continue;
    bool any = false;
    for (const Json& type : hf.Find("model_types").items()) any = any || static_cast<bool>(table.Find(type.AsString()));
    // A family without a class in transformers has no golden of its own either.
    EXPECT_TRUE(any || entry.path().stem() == "minicpm") << entry.path();
  }
}

}  // namespace
}  // namespace llmc
