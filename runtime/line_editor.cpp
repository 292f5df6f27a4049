// Keys and drawing. The line is shown in one row, a window of it when it is longer.
#include "runtime/line_editor.h"

#include <algorithm>
#include <cerrno>

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/plan_unicode.h"

namespace llmc {
namespace {

constexpr size_t kMostLine = 1 << 20;

// The terminal gives keys one by one, unechoed, while this lives.
class RawMode {
 public:
  explicit RawMode(int fd) : fd_(fd) {
    if (tcgetattr(fd, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    set_ = tcsetattr(fd, TCSADRAIN, &raw) == 0;
  }
  ~RawMode() {
    if (set_) tcsetattr(fd_, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  int fd_;
  termios before_{};
  bool set_ = false;
};

void Write(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(fd, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the next read tells that the terminal is gone
    at += static_cast<size_t>(written);
  }
}

// Columns of a character: East Asian wide ones and emoji take two, marks that combine none.
size_t Columns(uint32_t c) {
  const bool combines = (c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200F) || (c >= 0xFE00 && c <= 0xFE0F);
  const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) ||
                    (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                    (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
  return combines ? 0 : wide ? 2 : 1;
}

bool Continues(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

int LineEditor::Byte() {
  unsigned char byte = 0;
  while (true) {
    const ssize_t got = read(in_, &byte, 1);
    if (got == 1) return byte;
    if (got < 0 && errno == EINTR) continue;
    return -1;
  }
}

void LineEditor::Insert(const std::string& character) {
  if (line_.size() + character.size() > kMostLine) return;
  line_.insert(cursor_, character);
  cursor_ += character.size();
}

void LineEditor::Move(bool right) {
  if (right && cursor_ < line_.size()) {
    do ++cursor_;
    while (cursor_ < line_.size() && Continues(line_[cursor_]));
  } else if (!right && cursor_ > 0) {
    do --cursor_;
    while (cursor_ > 0 && Continues(line_[cursor_]));
  }
}

void LineEditor::EraseBefore() {
  const size_t end = cursor_;
  Move(false);
  line_.erase(cursor_, end - cursor_);
}

void LineEditor::EraseAt() {
  const size_t begin = cursor_;
  Move(true);
  line_.erase(begin, cursor_ - begin);
  cursor_ = begin;
}

void LineEditor::Recall(bool older) {
  if (older ? recalled_ == 0 : recalled_ == history_.size()) return;
  if (recalled_ == history_.size()) draft_ = line_;
  recalled_ += older ? size_t{0} - 1 : 1;
  line_ = recalled_ == history_.size() ? draft_ : history_[recalled_];
  cursor_ = line_.size();
}

// ESC [ .. or ESC O .: arrows, Home, End, Delete; anything else is passed over.
void LineEditor::Escape() {
  const int kind = Byte();
  if (kind != '[' && kind != 'O') return;
  std::string parameters;
  int last = Byte();
  for (; last >= 0x20 && last < 0x40; last = Byte()) parameters.push_back(static_cast<char>(last));
  switch (last) {
    case 'A':
    case 'B': Recall(last == 'A'); break;
    case 'C':
    case 'D': Move(last == 'C'); break;
    case 'H': cursor_ = 0; break;
    case 'F': cursor_ = line_.size(); break;
    case '~':
      if (parameters == "3") EraseAt();
      if (parameters == "1" || parameters == "7") cursor_ = 0;
      if (parameters == "4" || parameters == "8") cursor_ = line_.size();
      break;
    default: break;
  }
}

LineEditor::Key LineEditor::Take() {
  const int byte = Byte();
  constexpr auto kControl = [](char letter) { return letter - 'A' + 1; };
  switch (byte) {
    case -1: return Key::End;
    case '\r':
    case '\n': return Key::Enter;
    case kControl('C'): return Key::Abandon;
    case kControl('D'):
      if (line_.empty()) return Key::End;
      EraseAt();
      break;
    case kControl('A'): cursor_ = 0; break;
    case kControl('E'): cursor_ = line_.size(); break;
    case kControl('B'):
    case kControl('F'): Move(byte == kControl('F')); break;
    case kControl('P'):
    case kControl('N'): Recall(byte == kControl('P')); break;
    case kControl('K'): line_.erase(cursor_); break;
    case kControl('U'):
      line_.erase(0, cursor_);
      cursor_ = 0;
      break;
    case kControl('W'):
      while (cursor_ > 0 && line_[cursor_ - 1] == ' ') EraseBefore();
      while (cursor_ > 0 && line_[cursor_ - 1] != ' ') EraseBefore();
      break;
    case kControl('H'):
    case 0x7F: EraseBefore(); break;
    case 0x1B: Escape(); break;
    default: {
      if (byte < 0x20 && byte != '\t') break;
      std::string character(1, static_cast<char>(byte));
      const size_t size = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 0;
      while (character.size() < size) {
        const int next = Byte();
        if (next < 0) return Key::End;
        character.push_back(static_cast<char>(next));
      }
      if (size > 0 && DecodeUtf8(character, 0).bytes == size && DecodeUtf8(character, 0).valid) Insert(character);
    }
  }
  return Key::Other;
}

void LineEditor::Draw(const std::string& prompt) const {
  winsize window{};
  const size_t width = ioctl(out_, TIOCGWINSZ, &window) == 0 && window.ws_col > 8 ? window.ws_col : 80;
  const size_t room = width - prompt.size() - 1;
  // The window begins so that the cursor lies inside, and ends where the row does.
  size_t begin = cursor_, before = 0;
  while (begin > 0) {
    size_t previous = begin;
    do --previous;
    while (previous > 0 && Continues(line_[previous]));
    const size_t columns = Columns(DecodeUtf8(line_, previous).value);
    if (before + columns >= room) break;
    before += columns;
    begin = previous;
  }
  size_t end = cursor_, shown = before;
  while (end < line_.size()) {
    const CodePoint c = DecodeUtf8(line_, end);
    if (shown + Columns(c.value) >= room) break;
    shown += Columns(c.value);
    end += c.bytes;
  }
  std::string text = line_.substr(begin, end - begin);
  std::replace(text.begin(), text.end(), '\t', ' ');
  std::string out = "\r" + prompt + text + "\x1b[K";
  if (shown > before) out += "\x1b[" + std::to_string(shown - before) + "D";
  Write(out_, out);
}

std::optional<std::string> LineEditor::Read(const std::string& prompt) {
  const RawMode raw(in_);
  line_.clear();
  draft_.clear();
  cursor_ = 0;
  recalled_ = history_.size();
  abandoned_ = false;
  while (true) {
    Draw(prompt);
    const Key key = Take();
    if (key == Key::Other) continue;
    cursor_ = line_.size();
    if (key == Key::Enter) Draw(prompt);
    Write(out_, "\r\n");
    if (key == Key::End) return std::nullopt;
    abandoned_ = key == Key::Abandon;
    if (abandoned_) return "";
    if (!line_.empty() && (history_.empty() || history_.back() != line_)) history_.push_back(line_);
    return line_;
  }
}

}  // namespace llmc
