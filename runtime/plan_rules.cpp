// The text form of the rules.
#include "runtime/plan_rules.h"

#include <charconv>

#include "runtime/plan_error.h"

namespace llmc {
namespace {

template <class T>
std::string NumberText(T value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

std::string IdsText(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : ",") + NumberText(id);
  return text;
}

class Parser {
 public:
  explicit Parser(std::string_view where) : where_(where) {}

  template <class T>
  void Take(std::string_view text, T& value) const {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw PlanError(std::string(where_) + ": \"" + std::string(text) + "\" isn't a number");
  }
  void Take(std::string_view text, std::vector<int32_t>& ids) const {
    Split(text, ',', [&](std::string_view id) { Take(id, ids.emplace_back()); });
  }
  void Take(std::string_view text, std::vector<std::vector<int32_t>>& lists) const {
    Split(text, ';', [&](std::string_view list) { Take(list, lists.emplace_back()); });
  }

 private:
  template <class F>
  static void Split(std::string_view text, char separator, F f) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(separator, begin), text.size());
      f(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::string_view where_;
};

constexpr std::string_view kUnused = "unused: ";

// f(key, member) for each that has a value.
template <class Rules, class F>
void ForEachKey(Rules& rules, F f) {
  f("repetition_penalty", rules.repetition_penalty);
  f("typical_p", rules.typical_p);
  f("no_repeat_ngram_size", rules.no_repeat_ngram_size);
  f("min_new_tokens", rules.min_new_tokens);
  f("forced_eos_token_id", rules.forced_eos_token_id);
  f("suppress_tokens", rules.suppress_tokens);
  f("begin_suppress_tokens", rules.begin_suppress_tokens);
  f("bad_words_ids", rules.bad_words_ids);
}

std::string Text(float value) { return value == 1 ? "" : NumberText(value); }
std::string Text(uint32_t value) { return value == 0 ? "" : NumberText(value); }
std::string Text(const std::vector<int32_t>& ids) { return IdsText(ids); }
std::string Text(const std::vector<std::vector<int32_t>>& lists) {
  std::string text;
  for (const std::vector<int32_t>& list : lists) text += (text.empty() ? "" : ";") + IdsText(list);
  return text;
}

}  // namespace

std::string RulesText(const PlanRules& rules) {
  std::string text;
  ForEachKey(rules, [&](const char* key, const auto& value) {
    if (const std::string written = Text(value); !written.empty()) text += std::string(key) + " = " + written + "\n";
  });
  for (const std::string& line : rules.unused) text += std::string(kUnused) + line + "\n";
  return text;
}

PlanRules ParseRules(std::string_view text, std::string_view where) {
  PlanRules rules;
  const Parser parser(where);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with(kUnused)) {
      rules.unused.emplace_back(line.substr(kUnused.size()));
      continue;
    }
    bool known = false;
    ForEachKey(rules, [&](std::string_view key, auto& value) {
      if (!line.starts_with(key) || line.substr(key.size(), 3) != " = ") return;
      known = true;
      parser.Take(line.substr(key.size() + 3), value);
    });
    if (!known) throw PlanError(std::string(where) + ": the rule \"" + std::string(line) + "\" isn't known");
  }
  return rules;
}

void CheckRules(const PlanRules& rules, uint32_t vocab, std::string_view where) {
  const auto fail = [&](const std::string& what) { throw PlanError(std::string(where) + ": " + what); };
  if (!(rules.repetition_penalty > 0 && rules.repetition_penalty <= 1e6f)) fail("repetition_penalty is out of range");
  if (!(rules.typical_p >= 0 && rules.typical_p <= 1)) fail("typical_p is out of range");
  const auto check = [&](const char* key, const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
      if (id < 0 || static_cast<uint32_t>(id) >= vocab)
        fail(std::string(key) + " " + std::to_string(id) + " isn't in 0.." + std::to_string(vocab - 1));
    }
  };
  check("forced_eos_token_id", rules.forced_eos_token_id);
  check("suppress_tokens", rules.suppress_tokens);
  check("begin_suppress_tokens", rules.begin_suppress_tokens);
  for (const std::vector<int32_t>& word : rules.bad_words_ids) {
    check("bad_words_ids", word);
    if (word.empty()) fail("bad_words_ids has an empty list");
  }
  for (const std::string& line : rules.unused) {
    for (const char c : line)
      if (c < 0x20 || c == 0x7f) fail("an unused key isn't printable");
  }
}

}  // namespace llmc
