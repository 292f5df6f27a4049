// The values that a module's options may have (ir/options.def).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Of an option of the table.
const std::vector<std::string>& OptionValues(std::string_view option);
bool IsOptionValue(std::string_view option, std::string_view value);
// "f16 or f32", for messages.
std::string OptionValuesText(std::string_view option);

}  // namespace llmc
