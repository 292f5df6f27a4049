// What a command reports: named facts and tables, as text for people and as JSON for programs.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace llmc {

// A list is a text with spaces between, or an array; a double's text has one decimal, its JSON all.
using Cell = std::variant<std::string, int64_t, std::vector<std::string>, double>;

struct ReportTable {
  std::string name;  // of one table, and its key
  std::vector<std::string> columns = {};
  std::vector<std::vector<Cell>> rows = {};  // as many cells as columns
  bool fold = false;  // as text: rows that differ in the layer alone are one (tools/fold_text.h); JSON has them all
};

struct Report {
  std::vector<std::pair<std::string, Cell>> facts = {};  // names are unique
  std::vector<ReportTable> tables = {};
};

// Facts one a line; each table behind an empty line, its name, a line of columns, numbers to the right.
std::string ReportText(const Report& report);
// An object: facts by their names, tables as arrays of objects by columns. Spaces in names become underscores.
std::string ReportJson(const Report& report);
// The one or the other to stdout.
void PrintReport(const Report& report, bool json);

}  // namespace llmc
