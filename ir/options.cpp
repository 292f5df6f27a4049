// The table of options' values.
#include "ir/options.h"

#include <algorithm>
#include <utility>

#include "ir/diag.h"

namespace llmc {
namespace {

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> values;
  for (;;) {
    const size_t comma = list.find(',');
    values.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return values;
    list.remove_prefix(comma + 2);
  }
}

}  // namespace

const std::vector<std::string>& OptionValues(std::string_view option) {
  static const std::pair<std::string_view, std::vector<std::string>> all[] = {
#define OPTION_VALUES(name, values) {#name, Split(values)},
#include "ir/options.def"
#undef OPTION_VALUES
  };
  for (const auto& [name, values] : all) {
    if (name == option) return values;
  }
  LLMC_CHECK(false, "no option is called " + std::string(option));
}

bool IsOptionValue(std::string_view option, std::string_view value) {
  const std::vector<std::string>& values = OptionValues(option);
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::string OptionValuesText(std::string_view option) {
  const std::vector<std::string>& values = OptionValues(option);
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i + 1 == values.size() ? " or " : ", ";
    text += values[i];
  }
  return text;
}

}  // namespace llmc
