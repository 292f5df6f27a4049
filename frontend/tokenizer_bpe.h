// What both sources of a byte-level BPE tokenizer come down to. Internal to the front end's tokenizer files.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/diag.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {

struct BpeAddedToken {
  std::string_view content;
  int64_t id = 0;
  uint32_t flags = 0;  // kAdded*
  bool normalized = false;
};

// A vocabulary in the byte alphabet: tokens are texts in which each byte stands as one printable character.
struct BpeSource {
  std::string file;  // for messages
  std::vector<std::pair<std::string_view, int64_t>> vocabulary;
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // by rank
  std::vector<BpeAddedToken> added;                                   // empty contents are passed over
  std::vector<TokenizerStep> steps;
  bool nfc = false, ignore_merges = false, fuse_unk = false, add_bos = false;
  int64_t bos = -1, eos = -1, unk = -1;
  int64_t vocab_rows = 0;
};
// Throws InputError when an id is out of bounds or taken, or a merge has a part that is no token.
std::string LowerBpe(const BpeSource& source);

// The bytes that a text in the byte alphabet stands for; false when a character is not in the alphabet.
bool BytesOfAlphabet(std::string_view text, std::string& bytes);

[[noreturn]] void FailUnsupportedTokenizer(Place place, const std::string& what);

}  // namespace llmc
