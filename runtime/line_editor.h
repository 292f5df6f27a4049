// One line from a terminal: editing, history, UTF-8. No library: termios alone.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace llmc {

class LineEditor {
 public:
  // in: a terminal; what is shown goes to out.
  LineEditor(int in, int out) : in_(in), out_(out) {}

  // Nothing at the end of input (Ctrl-D on an empty line, or the terminal is gone). Ctrl-C gives up the line:
  // `abandoned` is set and the result is "".
  std::optional<std::string> Read(const std::string& prompt);
  bool abandoned() const { return abandoned_; }

 private:
  enum class Key { Enter, End, Abandon, Other };
  Key Take();
  int Byte();  // -1: no more
  void Escape();
  void Insert(const std::string& character);
  void Move(bool right);
  void EraseBefore();
  void EraseAt();
  void Recall(bool older);
  void Draw(const std::string& prompt) const;

  int in_, out_;
  bool abandoned_ = false;
  std::string line_;
  size_t cursor_ = 0;  // byte in line_
  std::vector<std::string> history_;
  size_t recalled_ = 0;  // place in history_; its size: the new line, which is kept in draft_
  std::string draft_;
};

}  // namespace llmc
