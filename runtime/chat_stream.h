// What an answer looks like on a terminal: reasoning (between <think> and </think>) is dimmed.
#pragma once
#include <string>
#include <string_view>

namespace llmc {

// A prompt that ends with an open <think>: the answer begins inside.
bool OpensReasoning(std::string_view prompt);

class ChatStream {
 public:
  explicit ChatStream(bool color) : color_(color) {}
  void BeginReasoning() { inside_ = true; }
  // What to write for the next piece of the answer. The start of what may become a tag is held back.
  std::string Push(std::string_view piece);
  std::string Finish();

 private:
  std::string Styled(std::string_view text);
  bool color_, inside_ = false, dimmed_ = false;
  std::string held_;
};

}  // namespace llmc
