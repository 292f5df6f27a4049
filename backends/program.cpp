// Which calls share a function.
#include "backends/program.h"

#include <map>
#include <string_view>
#include <tuple>

namespace llmc {

std::vector<std::vector<std::string>> FunctionNames(const Program& program) {
  std::map<std::tuple<std::string_view, bool, std::vector<std::optional<int64_t>>>, std::string> known;
  std::map<std::string_view, int> count;
  std::vector<std::vector<std::string>> names;
  for (const Phase& phase : program.phases) {
    std::vector<std::string>& calls = names.emplace_back();
    for (const KernelCall& call : phase.calls) {
      if (call.product) {
        calls.emplace_back();
        continue;
      }
      const auto [it, fresh] = known.try_emplace({call.kernel, call.one_row, call.constants});
      if (fresh) it->second = call.kernel + "." + std::to_string(count[call.kernel]++);
      calls.push_back(it->second);
    }
  }
  return names;
}

}  // namespace llmc
