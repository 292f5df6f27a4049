// Values of the plan's text form, written and read. Internal to the plan layer.
#pragma once
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/plan.h"

namespace llmc {

int HexDigit(char c);  // -1: not one
std::string Hex(std::string_view bytes);
std::string Hex64(uint64_t value);
std::string Quote(std::string_view text);
std::string FloatText(float value);  // the shortest text that reads back

// Values with commas between them; "none" when there are none.
template <typename T>
std::string ListText(std::span<const T> values) {
  std::string out;
  for (const T& value : values) {
    out += out.empty() ? "" : ",";
    if constexpr (std::is_same_v<T, float>) {
      out += FloatText(value);
    } else {
      out += std::to_string(value);
    }
  }
  return out.empty() ? "none" : out;
}
template <typename T>
std::string ListText(const std::vector<T>& values) {
  return ListText(std::span<const T>(values));
}

// Reads the text line by line, word by word. What isn't there as asked for is a PlanError with the line's number.
class PlanTextReader {
 public:
  explicit PlanTextReader(std::string_view text) : text_(text) {}

  [[noreturn]] void Fail(const std::string& rule) const;
  bool NextLine();     // takes the next line without its comment; false at the end of the text
  std::string Word();  // the next word of the line; empty at its end
  void End() const;    // of the line
  // The line begins with this word, which is taken.
  bool Take(std::string_view word);

  template <typename T>
  T Number(int base = 10) {
    return NumberOf<T>(Word(), base);
  }
  float Float32();
  std::string String();
  template <typename T>
  std::vector<T> List() {
    std::vector<T> values;
    const std::string word = Word();
    if (word == "none") return values;
    for (size_t at = 0; at <= word.size();) {
      const size_t comma = std::min(word.find(',', at), word.size());
      T value{};
      const auto [end, error] = std::from_chars(word.data() + at, word.data() + comma, value);
      if (error != std::errc() || end != word.data() + comma) Fail("\"" + word + "\" isn't a list of numbers");
      values.push_back(value);
      at = comma + 1;
    }
    return values;
  }
  Sha256Digest Digest();
  bool empty() const { return line_.empty(); }

 private:
  template <typename T>
  T NumberOf(const std::string& word, int base) const {
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      Fail("\"" + word + "\" isn't a number here");
    return value;
  }
  void Blank();

  std::string_view text_, line_;
  size_t next_ = 0;
  int number_ = 0;
};

// A step, behind the word `step` (StepText, plan_steps.h).
PlanStep ReadStep(PlanTextReader& in);

}  // namespace llmc
