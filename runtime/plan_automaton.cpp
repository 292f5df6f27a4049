// The scanner over automaton tables.
#include "runtime/plan_automaton.h"

#include <cstring>
#include <string>
#include <vector>

#include "runtime/plan_error.h"
#include "runtime/plan_load.h"

namespace llmc {
namespace {

// Characters behind the last match from which on a scan remembers where it has been, and every how many.
constexpr size_t kLookAhead = 64, kLandmark = 16;

}  // namespace

Automaton::Automaton(std::string_view table) {
  AutomatonHeader h{};
  auto fail = [&] {
    throw PlanError("tokenizer section: an automaton of " + std::to_string(h.states) + " states and " +
                    std::to_string(h.classes) + " classes doesn't fit its " + std::to_string(table.size()) + " bytes");
  };
  if (table.size() < sizeof h) fail();
  std::memcpy(&h, table.data(), sizeof h);
  bytes_ = h.kind == kAutomatonBytes;
  const uint64_t transitions = uint64_t{h.states} * h.classes * 2;
  if (h.kind > kAutomatonBytes || h.states < 2 || h.states >= kAutomatonMatch || h.classes == 0 || h.classes > 256 ||
      (bytes_ ? h.map_bytes != 256 : h.map_bytes < kCodeBlocks * 2) ||
      transitions + h.map_bytes + sizeof h > table.size()) {
    fail();
  }
  states_ = h.states;
  classes_ = h.classes;
  map_ = table.substr(sizeof h, h.map_bytes);
  transitions_ = table.substr(sizeof h + h.map_bytes, transitions);
  for (uint32_t c = 0; c < 128; ++c) {
    ascii_[c] = bytes_ ? static_cast<uint8_t>(map_[c]) : CodePointBytes(map_).At(c);
    begins_[c] = ascii_[c] < classes_ && LoadAt<uint16_t>(transitions_, size_t{classes_} + ascii_[c]) != 0;
  }
}

inline uint16_t Matcher::Step(uint32_t state, uint32_t type) const {
  return type < a_.classes_ ? LoadAt<uint16_t>(a_.transitions_, size_t{state} * a_.classes_ + type) : uint16_t{0};
}

inline CodePoint Matcher::Read(size_t at, uint32_t& type) const {
  const auto byte = static_cast<uint8_t>(text_[at]);
  if (byte < 0x80) {
    type = a_.ascii_[byte];
    return {byte, 1};
  }
  if (a_.bytes_) {
    type = static_cast<uint8_t>(a_.map_[byte]);
    return {byte, 1};
  }
  const CodePoint c = DecodeUtf8(text_, at);
  type = CodePointBytes(a_.map_).At(c.value);
  return c;
}

size_t Matcher::End(size_t begin) {
  const char* const text = text_.data();
  const size_t size = text_.size();
  const char* const transitions = a_.transitions_.data();
  const uint32_t classes = a_.classes_, states = a_.states_;
  uint32_t state = 1;
  size_t last = begin, at = begin;
  while (at < size) {
    uint32_t type = 0, bytes = 1;
    if (const auto byte = static_cast<uint8_t>(text[at]); byte < 0x80) {
      type = a_.ascii_[byte];
    } else {
      bytes = Read(at, type).bytes;
    }
    uint16_t next = 0;
    if (type < classes) std::memcpy(&next, transitions + 2 * (size_t{state} * classes + type), 2);
    if ((next & kAutomatonMatch) != 0) last = at;
    state = next & (kAutomatonMatch - 1U);
    if (state == 0 || state >= states) {
      steps_ += at - begin + 1;
      return last;
    }
    at += bytes;
    if (at - last > kLookAhead) {
      steps_ += at - begin;
      return LongEnd(at, state, last);
    }
  }
  steps_ += at - begin + 1;
  return (Step(state, a_.classes_ - 1) & kAutomatonMatch) != 0 ? at : last;
}

// End, once the scan is far behind the last match.
size_t Matcher::LongEnd(size_t at, uint32_t state, size_t last) {
  std::vector<uint64_t> passed;  // since the last match
  while (at < text_.size()) {
    const uint64_t here = uint64_t{at} << 16 | state;
    if (at % kLandmark < 4) {  // a character has at most 4 bytes, so one begins here
      if (hopeless_.contains(here)) break;
      passed.push_back(here);
    }
    uint32_t type = 0;
    const CodePoint c = Read(at, type);
    ++steps_;
    const uint16_t next = Step(state, type);
    if ((next & kAutomatonMatch) != 0) {
      last = at;
      passed.clear();
    }
    state = next & (kAutomatonMatch - 1U);
    if (state == 0 || state >= a_.states_) break;
    at += c.bytes;
    if (at == text_.size() && (Step(state, a_.classes_ - 1) & kAutomatonMatch) != 0) return at;
  }
  hopeless_.insert(passed.begin(), passed.end());
  return last;
}

Matcher::Match Matcher::Next(size_t from) {
  for (size_t at = from; at < text_.size();) {
    if (const auto byte = static_cast<uint8_t>(text_[at]); byte < 0x80 && !a_.begins_[byte]) {
      ++at;
      ++steps_;
      continue;
    }
    if (const size_t end = End(at); end != at) return {at, end};
    uint32_t type = 0;
    at += Read(at, type).bytes;
  }
  return {text_.size(), text_.size()};
}

}  // namespace llmc
