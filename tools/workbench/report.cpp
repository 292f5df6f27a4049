// Reports as text and as JSON.
#include "tools/workbench/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/json.h"
#include "tools/fold_text.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

std::string CellText(const Cell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{:.1f}", *real);
  if (const auto* list = std::get_if<std::vector<std::string>>(&cell)) return fmt::format("{}", fmt::join(*list, " "));
  return std::get<std::string>(cell);
}

constexpr char kBetween = '\x1f';  // cells of a row while it is one line

std::vector<std::vector<std::string>> TextRows(const ReportTable& table) {
  std::vector<std::string> lines;
  for (const std::vector<Cell>& row : table.rows) {
    std::string& line = lines.emplace_back();
    for (size_t c = 0; c < row.size(); ++c) line += (c == 0 ? "" : std::string(1, kBetween)) + CellText(row[c]);
  }
  if (table.fold) {
    std::vector<std::string> folded;
    for (FoldedLine& line : FoldLines(lines)) folded.push_back(std::move(line.text));
    lines = std::move(folded);
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : lines) {
    std::vector<std::string>& row = rows.emplace_back();
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(kBetween, begin), line.size());
      row.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return rows;
}

std::string TableText(const ReportTable& table) {
  std::vector<std::vector<std::string>> rows = TextRows(table);
  rows.insert(rows.begin(), table.columns);
  std::vector<size_t> widths(table.columns.size(), 0);
  std::vector<bool> right(table.columns.size(), !table.rows.empty());
  for (const std::vector<std::string>& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const std::vector<Cell>& row : table.rows)
    for (size_t c = 0; c < row.size(); ++c)
      right[c] = right[c] && (std::holds_alternative<int64_t>(row[c]) || std::holds_alternative<double>(row[c]));
  std::string text = table.name + "\n";
  for (const std::vector<std::string>& row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c)
      line += right[c] ? fmt::format(" {:>{}}", row[c], widths[c]) : fmt::format(" {:<{}}", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Key(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

void Write(JsonWriter& json, const Cell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    json.Int(*number);
  } else if (const auto* real = std::get_if<double>(&cell)) {
    json.Double(*real);
  } else if (const auto* list = std::get_if<std::vector<std::string>>(&cell)) {
    json.BeginArray();
    for (const std::string& item : *list) json.String(item);
    json.End();
  } else {
    json.String(std::get<std::string>(cell));
  }
}

}  // namespace

std::string ReportText(const Report& report) {
  size_t width = 0;
  for (const auto& [name, value] : report.facts) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : report.facts) text += fmt::format("{:<{}}  {}\n", name, width, CellText(value));
  for (const ReportTable& table : report.tables) text += (text.empty() ? "" : "\n") + TableText(table);
  return text;
}

std::string ReportJson(const Report& report) {
  JsonWriter json;
  json.BeginObject();
  for (const auto& [name, value] : report.facts) {
    json.Key(Key(name));
    Write(json, value);
  }
  for (const ReportTable& table : report.tables) {
    json.Key(Key(table.name)).BeginArray();
    for (const std::vector<Cell>& row : table.rows) {
      json.BeginObject();
      for (size_t c = 0; c < row.size(); ++c) {
        json.Key(Key(table.columns[c]));
        Write(json, row[c]);
      }
      json.End();
    }
    json.End();
  }
  json.End();
  return json.Finish();
}

void PrintReport(const Report& report, bool json) { WriteText("-", json ? ReportJson(report) : ReportText(report)); }

}  // namespace llmc
