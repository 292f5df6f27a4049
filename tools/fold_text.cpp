// Lines as items that fold.
#include "tools/fold_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ir/repeat.h"

namespace llmc {
namespace {

// `b12.` behind the sigil of a name is a layer; other numbers may grow with it.
RepeatItem ItemOf(const std::string& text) {
  RepeatItem item;
  const auto digit = [&](size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (digit(end)) ++end;
    if (end == at || end - at > 9) {
      end = std::max(end, at + 1);
      item.Text(std::string_view(text).substr(at, end - at));
    } else {
      const int value = std::stoi(text.substr(at, end - at));
      const bool layer = at >= 2 && text[at - 1] == 'b' && (text[at - 2] == '$' || text[at - 2] == '%') &&
                         end < text.size() && text[end] == '.';
      if (!layer) {
        item.Int(value);
      } else {
        item.Layer(value);
        if (item.layer < 0) item.layer = value;
      }
    }
    at = end;
  }
  // What all layers have in common names it.
  for (const RepeatToken& token : item.tokens) item.key += token.kind == RepeatToken::Kind::Text ? token.text : "#";
  return item;
}

}  // namespace

std::vector<FoldedLine> FoldLines(const std::vector<std::string>& lines) {
  std::vector<RepeatItem> items;
  items.reserve(lines.size());
  std::map<std::pair<int, std::string>, int> seen;
  for (const std::string& line : lines) {
    items.push_back(ItemOf(line));
    RepeatItem& item = items.back();
    item.key += std::to_string(seen[{item.layer, item.key}]++);  // unique in its layer
  }
  std::vector<FoldedLine> folded;
  for (const RepeatBlock& block : FindRepeats(items)) {
    for (size_t k = 0; k < block.items; ++k) {
      FoldedLine& line = folded.emplace_back(FoldedLine{block.begin + k, lines[block.begin + k]});
      if (block.count == 1) continue;
      const int end = block.first_layer + static_cast<int>(block.count) * block.period;
      line.text = fmt::format("{}, i = {}..{}{}", ItemText(items, block, k), block.first_layer, end,
                              block.period > 1 ? fmt::format(" by {}", block.period) : "");
    }
  }
  return folded;
}

}  // namespace llmc
