// Which block each layer is: by a list of types, a list of layers, a period, the first few, or all alike.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/preset_rules.h"

namespace llmc {
namespace {

using Blocks = std::vector<std::string>;

std::string TextAt(const Json& rule, std::string_view key) { return std::string(rule.Find(key).AsString()); }

// The blocks that a rule's "block" or "rest" says for all layers: one, or what other rules say.
Blocks BlocksAt(const Rules& rules, const Json& rule, std::string_view key, int64_t n) {
  const Json blocks = rule.Find(key);
  if (blocks.is(JsonKind::Array)) return LayerBlocks(rules, blocks, n);
  return Blocks(static_cast<size_t>(n), std::string(blocks.AsString()));
}
Blocks RestOf(const Rules& rules, const Json& rule, int64_t n) { return BlocksAt(rules, rule, "rest", n); }

int64_t IntegerOf(const Rules& rules, const Json& rule) {
  if (rule.is(JsonKind::Int)) return rule.AsInt();
  FieldValue v = rules.Evaluate("layers", rule);
  if (v.kind != FieldValue::Kind::Int)
    Fail(DiagKind::BadValue, v.place, fmt::format("must be an integer, is {}", v.shown));
  return v.integer;
}

// {"types": KEY, "map": {TYPE: BLOCK}}: one entry a layer. {"letters": KEY, "map": ..}: one character a layer.
Blocks ByTypes(const Rules& rules, const Json& rule, const std::string& key, const std::vector<FieldValue>& types,
               int64_t n) {
  const Place place = rules.config().Find(key)->value.place;
  if (static_cast<int64_t>(types.size()) != n)
    Fail(DiagKind::BadValue, place, fmt::format("{} has {} entries for {} layers", key, types.size(), n));
  Json map = rule.Find("map");
  std::vector<std::string_view> known;
  for (const auto& [type, block] : map.members()) known.push_back(type);
  Blocks out;
  for (size_t i = 0; i < types.size(); ++i) {
    const FieldValue& v = types[i];
    Json block = map.Find(v.kind == FieldValue::Kind::Text ? v.text : v.shown);
    if (!block) {
      Fail(DiagKind::Unsupported, place,
           fmt::format("{}: layer {} is {}; supported: {}", key, i, v.shown, fmt::join(known, ", ")));
    }
    out.emplace_back(block.AsString());
  }
  return out;
}

// {"listed": KEY, "base": 0 or 1, "block": .., "rest": ..}: the layers whose numbers the config lists.
Blocks ByList(const Rules& rules, const Json& rule, const std::string& key, const std::vector<FieldValue>& numbers,
              int64_t n) {
  Blocks out = RestOf(rules, rule, n);
  const Json base = rule.Find("base");
  for (const FieldValue& v : numbers) {
    int64_t at = v.integer - (base ? base.AsInt() : 0);
    if (v.kind != FieldValue::Kind::Int || at < 0 || at >= n) {
      Fail(DiagKind::BadValue, rules.config().Find(key)->value.place,
           fmt::format("{}: {} is no layer of {}", key, v.shown, n));
    }
    out[static_cast<size_t>(at)] = TextAt(rule, "block");
  }
  return out;
}

// {"zero": KEY, "block": .., "rest": ..}: the layers for which the config's list has 0.
Blocks ByZeros(const Rules& rules, const Json& rule, const std::string& key, const std::vector<FieldValue>& numbers,
               int64_t n) {
  if (static_cast<int64_t>(numbers.size()) != n)
    Fail(DiagKind::BadValue, rules.config().Find(key)->value.place,
         fmt::format("{} has {} entries for {} layers", key, numbers.size(), n));
  Blocks out = RestOf(rules, rule, n);
  const Blocks zero = BlocksAt(rules, rule, "block", n);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].kind == FieldValue::Kind::Int && numbers[i].integer == 0) out[i] = zero[i];
  }
  return out;
}

std::vector<FieldValue> Letters(const Rules& rules, const std::string& key) {
  std::vector<FieldValue> out;
  auto v = rules.config().Find(key);
  for (char c : v->value.text) {
    FieldValue letter;
    letter.kind = FieldValue::Kind::Text;
    letter.text = letter.shown = std::string(1, c);
    out.push_back(letter);
  }
  return out;
}

}  // namespace

std::vector<std::string> LayerBlocks(const Rules& rules, const Json& list, int64_t n) {
  for (const Json& rule : list.items()) {
    if (!rules.Applies(rule)) continue;
    if (Json types = rule.Find("types")) {
      std::string key = rules.KeyOf(types);
      if (auto values = rules.config().Values(key)) return ByTypes(rules, rule, key, *values, n);
    } else if (Json letters = rule.Find("letters")) {
      std::string key = rules.KeyOf(letters);
      auto v = rules.config().Find(key);
      if (v && v->value.kind == FieldValue::Kind::Text && !v->container && !v->null)
        return ByTypes(rules, rule, key, Letters(rules, key), n);
    } else if (Json listed = rule.Find("listed")) {
      std::string key = rules.KeyOf(listed);
      if (auto values = rules.config().Values(key)) return ByList(rules, rule, key, *values, n);
    } else if (Json zero = rule.Find("zero")) {
      std::string key = rules.KeyOf(zero);
      auto v = rules.config().Find(key);
      if (v && v->container) return ByZeros(rules, rule, key, *rules.config().Values(key), n);
    } else {
      Blocks out = BlocksAt(rules, rule, "block", n);
      if (Json every = rule.Find("every")) {
        // {"every": N, "at": K, "block": .., "rest": ..}: layers K, K + N, ..; K is N - 1 if not given.
        int64_t period = IntegerOf(rules, every);
        Json at = rule.Find("at");
        if (period < 1)
          Fail(DiagKind::BadValue, {rules.config().file(), ""}, fmt::format("a period of {} layers", period));
        int64_t first = at ? IntegerOf(rules, at) : period - 1;
        const Blocks rest = RestOf(rules, rule, n);
        for (int64_t i = 0; i < n; ++i) {
          if (i % period != first) out[static_cast<size_t>(i)] = rest[static_cast<size_t>(i)];
        }
      } else if (Json first = rule.Find("first")) {
        // {"first": N, "block": .., "rest": ..}
        const Blocks rest = RestOf(rules, rule, n);
        for (int64_t i = std::clamp<int64_t>(IntegerOf(rules, first), 0, n); i < n; ++i)
          out[static_cast<size_t>(i)] = rest[static_cast<size_t>(i)];
      }
      return out;
    }
  }
  throw InternalError(__FILE__, __LINE__, "the last rule for layers applies always");
}

}  // namespace llmc
