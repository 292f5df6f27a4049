// Tags in a stream of text.
#include "runtime/chat_stream.h"

#include <algorithm>

namespace llmc {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

}  // namespace

bool OpensReasoning(std::string_view prompt) {
  while (!prompt.empty() && (prompt.back() == '\n' || prompt.back() == ' ')) prompt.remove_suffix(1);
  return prompt.ends_with(kOpen);
}

std::string ChatStream::Styled(std::string_view text) {
  std::string out;
  if (text.empty()) return out;
  if (inside_ != dimmed_) out += inside_ ? "\x1b[2m" : "\x1b[0m";
  dimmed_ = inside_;
  return out.append(text);
}

std::string ChatStream::Push(std::string_view piece) {
  if (!color_) return std::string(piece);
  held_ += piece;
  std::string out;
  while (true) {
    const std::string_view tag = inside_ ? kClose : kOpen;
    const size_t at = held_.find(tag);
    if (at != std::string::npos) {
      // The tags are dimmed as well.
      const size_t end = at + tag.size();
      if (inside_) {
        out += Styled(std::string_view(held_).substr(0, end));
        inside_ = false;
      } else {
        out += Styled(std::string_view(held_).substr(0, at));
        inside_ = true;
        out += Styled(tag);
      }
      held_.erase(0, end);
      continue;
    }
    // The longest end that may become the tag stays.
    size_t keep = std::min(tag.size() - 1, held_.size());
    while (keep > 0 && !tag.starts_with(std::string_view(held_).substr(held_.size() - keep))) --keep;
    out += Styled(std::string_view(held_).substr(0, held_.size() - keep));
    held_.erase(0, held_.size() - keep);
    return out;
  }
}

std::string ChatStream::Finish() {
  std::string out = Styled(held_);
  held_.clear();
  if (dimmed_) out += "\x1b[0m";
  dimmed_ = false;
  return out;
}

}  // namespace llmc
