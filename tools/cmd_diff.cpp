// llmc diff: what differs between two plans, two IR texts or two models; exit status 0 whether or not anything does.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/json.h"
#include "tools/cli.h"
#include "tools/workbench/diff.h"

namespace llmc {
namespace {

struct Change {
  std::string group, name, a, b;  // "": that side hasn't got it
};

std::vector<Change> Changes(const Facts& a, const Facts& b) {
  const auto find = [](const Facts& facts, const Facts::Fact& wanted) {
    const auto found = std::find_if(facts.facts.begin(), facts.facts.end(), [&](const Facts::Fact& fact) {
      return fact.group == wanted.group && fact.name == wanted.name;
    });
    return found == facts.facts.end() ? std::string() : found->value;
  };
  std::vector<Change> changes;
  for (const Facts::Fact& fact : a.facts)
    if (std::string other = find(b, fact); other != fact.value)
      changes.push_back({fact.group, fact.name, fact.value, std::move(other)});
  for (const Facts::Fact& fact : b.facts)
    if (find(a, fact).empty() && !fact.value.empty()) changes.push_back({fact.group, fact.name, "", fact.value});
  return changes;
}

}  // namespace

int CommandDiff(const DiffFlags& flags) {
  const Facts a = FactsOf(flags.a), b = FactsOf(flags.b);
  const std::vector<Change> changes = Changes(a, b);
  const std::string ir = DiffLines(a.ir, b.ir);
  if (flags.json) {
    std::string text;
    for (const Change& c : changes)
      text += fmt::format("{}\n    {{\"group\": {}, \"name\": {}, \"a\": {}, \"b\": {}}}", text.empty() ? "" : ",",
                          JsonQuote(c.group), JsonQuote(c.name), c.a.empty() ? "null" : JsonQuote(c.a),
                          c.b.empty() ? "null" : JsonQuote(c.b));
    fmt::print("{{\n  \"changes\": [{}\n  ],\n  \"ir\": {}\n}}\n", text, JsonQuote(ir));
    return 0;
  }
  if (changes.empty() && ir.empty()) {
    fmt::print("nothing differs\n");
    return 0;
  }
  for (const Change& c : changes) {
    fmt::print("{} {}: {}\n", c.group, c.name,
               c.a.empty()   ? "only in the second: " + c.b
               : c.b.empty() ? "only in the first: " + c.a
                             : fmt::format("{} -> {}", c.a, c.b));
  }
  if (!ir.empty()) fmt::print("{}{}", changes.empty() ? "" : "\n", ir);
  return 0;
}

}  // namespace llmc
