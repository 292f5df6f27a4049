// llmc verify: a table of what each pass and the code did to the numbers; exit status 1 when something does not hold.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/json.h"
#include "tools/cli.h"
#include "tools/note.h"
#include "tools/workbench/verify.h"

namespace llmc {
namespace {

std::string Text(const VerifyReport& report) {
  std::vector<std::vector<std::string>> table = {{"", "kind", "bits", "max abs", "ulp", "NMSE", "", ""}};
  for (const VerifyRow& row : report.rows) {
    const Difference& d = row.difference;
    if (!row.changed) {
      table.push_back({row.what, row.kind, "no change", "", "", "", "holds"});
      continue;
    }
    table.push_back({row.what, row.kind, d.same() && row.holds ? "equal" : "differ", ShortNumber(d.max_abs),
                     std::to_string(d.max_ulp), ShortNumber(d.worst_nmse), row.holds ? "holds" : "BROKEN", row.note});
  }
  return Table(table);
}

std::string JsonText(const VerifyReport& report) {
  std::string rows;
  for (const VerifyRow& row : report.rows) {
    const Difference& d = row.difference;
    rows += fmt::format(
        "{}\n    {{\"what\": {}, \"kind\": \"{}\", \"changed\": {}, \"equal\": {}, \"max_abs\": {}, \"max_ulp\": {}, "
        "\"nmse\": {}, \"holds\": {}, \"note\": {}}}",
        rows.empty() ? "" : ",", JsonQuote(row.what), row.kind, row.changed, d.same(), JsonNumber(d.max_abs), d.max_ulp,
        JsonNumber(d.worst_nmse), row.holds, JsonQuote(row.note));
  }
  return fmt::format("{{\n  \"holds\": {},\n  \"layers\": [{}],\n  \"all_layers\": {},\n  \"rows\": [{}\n  ]\n}}\n",
                     report.holds(), fmt::join(report.layers, ", "), report.all_layers, rows);
}

}  // namespace

int CommandVerify(const VerifyFlags& flags) {
  const VerifyReport report = VerifyModel(flags.compile, flags.whole);
  if (static_cast<int>(report.layers.size()) != report.all_layers)
    Note(fmt::format("verify: layers {} of {}, one of each kind, with their true shapes and weights\n",
                     fmt::join(report.layers, ", "), report.all_layers));
  fmt::print("{}", flags.json ? JsonText(report) : Text(report));
  return report.holds() ? 0 : 1;
}

}  // namespace llmc
