// Renders many: one JSON object a line on stdin, {"source", "request" (JSON as text), "variables": {name: text}}; on
// stdout one line each, {"text"}, {"failed"} or {"refused"}. For the scripts that compare with transformers.
#include <iostream>
#include <map>

#include "frontend/json.h"
#include "runtime/report.h"
#include "tests/template/support.h"

int main() {
  using namespace llmc;
  JsonLimits limits;
  limits.max_bytes = uint64_t{64} << 20;
  for (std::string line; std::getline(std::cin, line);) {
    const Json item = ParseJson(line, "stdin", limits);
    std::vector<std::pair<std::string, std::string>> variables;
    if (const Json given = item.Find("variables")) {
      for (const auto& [name, value] : given.members()) variables.emplace_back(name, value.AsString());
    }
    RenderOptions options;
    options.now = {1722006245, 678};
    const Rendered rendered = RenderSource(std::string(item.Find("source").AsString()),
                                           std::string(item.Find("request").AsString()), variables, options);
    JsonObject out;
    out.Text(rendered.refused ? "refused" : rendered.failed ? "failed" : "text", rendered.text);
    std::cout << out.Finish() << std::flush;
  }
  return 0;
}
