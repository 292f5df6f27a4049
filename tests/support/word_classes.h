// Tables of the tokenizer that a test makes by hand, without the front end.
#pragma once
#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "runtime/plan_automaton.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {

// CodePointBytes: values of the first 256 code points, 0 for all others.
template <typename Value>
std::string Latin1Table(const Value& value) {
  std::string table(kCodeBlocks * 2, '\0');
  for (size_t block = 1; block < kCodeBlocks; ++block) table[block * 2] = 1;
  for (uint32_t c = 0; c < 256; ++c) table.push_back(static_cast<char>(static_cast<uint8_t>(value(c))));
  return table + std::string(256, '\0');
}

// Classes of ASCII alone.
inline std::string AsciiWordClasses() {
  return Latin1Table([](uint32_t c) -> uint8_t {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_') return kClassWord;
    return c == ' ' || (c >= 9 && c <= 13) ? kClassSpace : uint8_t{0};
  });
}

// The automaton of " ?[^ ]+| +": classes 0 other, 1 space, 2 end.
inline std::string WordsAutomaton() {
  const AutomatonHeader h = {kAutomatonChars, 5, 3, static_cast<uint32_t>(kCodeBlocks * 2 + 512)};
  constexpr uint16_t kMatch = kAutomatonMatch;
  const std::array<uint16_t, 15> transitions = {0,          0,          0,        //
                                                2,          3,          0,        // start
                                                kMatch | 2, kMatch,     kMatch,   // in a word
                                                2,          4,          kMatch,   // behind one space
                                                kMatch,     kMatch | 4, kMatch};  // behind more
  std::string out(reinterpret_cast<const char*>(&h), sizeof h);
  out += Latin1Table([](uint32_t c) -> uint8_t { return c == ' ' ? 1 : 0; });
  out.append(reinterpret_cast<const char*>(transitions.data()), sizeof transitions);
  return out;
}

}  // namespace llmc
