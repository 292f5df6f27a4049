// Sorted tokens, one after another: each shares a beginning with the one before.
#include "runtime/token_trie.h"

#include <algorithm>
#include <string>

namespace llmc {

TokenTrie::TokenTrie(int32_t tokens, const std::function<std::string_view(int32_t id)>& bytes) {
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  sorted.reserve(static_cast<size_t>(tokens));
  for (int32_t id = 0; id < tokens; ++id) {
    const std::string_view text = bytes(id);
    if (!text.empty()) sorted.emplace_back(text, id);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> path;  // nodes of the token before
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (const auto& [text, id] : sorted) {
    size_t same = 0;
    while (same < std::min(before.size(), text.size()) && before[same] == text[same]) ++same;
    close(same);
    for (size_t i = same; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(i + 1), static_cast<uint8_t>(text[i])});
    }
    ids_.push_back(id);
    depth_ = std::max(depth_, static_cast<uint32_t>(text.size()));
    before = text;
  }
  close(0);
  nodes_.push_back({static_cast<uint32_t>(nodes_.size()), static_cast<uint32_t>(ids_.size()), 0, 0});
}

}  // namespace llmc
