// Texts that end a generation, wherever tokens cut them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // More of the text; returns what can be given out: what may still become a stop string is held back. From the first
  // stop string on (the earliest; of two at one place either) nothing comes out any more.
  std::string Push(std::string_view piece);
  // At the end of the text: what was held back.
  std::string Finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace llmc
