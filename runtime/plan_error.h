// PlanError: what the plan and runtime layers throw for input that is at fault (a damaged plan, a prompt over the
// context, a full disk).
#pragma once
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace llmc {

// what() is the whole message, "file:place: rule, values"; the program prints it and exits with status 1.
class PlanError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The pieces of a message one after another; out of line, since messages are most of what the checks consist of.
[[gnu::noinline]] inline std::string Joined(std::initializer_list<std::string_view> pieces) {
  std::string text;
  for (std::string_view piece : pieces) text += piece;
  return text;
}

}  // namespace llmc
