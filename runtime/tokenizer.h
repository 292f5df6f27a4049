// The tokenizer of the loader: byte-level BPE over the tables of a plan's tokenizer section, used where they lie.
//
// Text goes through five stages: added tokens are cut out of the raw text, the rest is brought to NFC if the tokenizer
// wants it, added tokens are cut out of that, the rest is cut into pieces by the family's pattern, and each piece
// becomes bytes that are merged by rank. Bytes that are not UTF-8 count as characters of no class, so every byte string
// can be encoded, and decoding gives its bytes back (up to NFC, and to characters without a token).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_tokenizer.h"

namespace llmc {

struct EncodeOptions {
  // Put BOS in front if the tokenizer asks for it, and the text doesn't begin with it already. Off for rendered chat
  // templates.
  bool add_bos = true;
  // Text that spells a control token becomes that token; off for text that must not (it is then ordinary text).
  bool parse_special = true;
};

class Tokenizer {
 public:
  // Borrows the section, which must outlive the tokenizer. Checks its header alone. Throws PlanError.
  explicit Tokenizer(std::string_view section);

  int32_t size() const { return static_cast<int32_t>(section_.header.token_count); }
  int32_t bos_id() const { return section_.header.bos; }  // -1: none
  int32_t eos_id() const { return section_.header.eos; }
  bool add_bos() const { return (section_.header.flags & kTokenizerAddBos) != 0; }

  // O(n log n) in time, about 60 bytes a byte of the longest piece in memory, no recursion. Throws PlanError for a text
  // of 2 GiB or more, and when damaged tables give an id outside the vocabulary.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes that a token stands for; "" for ids outside the tokenizer (a model may have more rows than the tokenizer
  // has tokens).
  std::string_view TokenText(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  // The text of all ids, each maximal part that isn't UTF-8 replaced by U+FFFD. Nothing is trimmed or cleaned up.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Steps that Encode took: code points looked at, bytes compared, pairs looked up. For tests of its complexity.
  struct Work {
    uint64_t steps = 0;
  };
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options, Work& work) const;

 private:
  TokenizerSection section_;
};

// Decodes ids as they come and never splits a character: up to 3 bytes that may still become one are held back. What it
// has given out, put together, is Decode of the same ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}
  // The text that this id completes, possibly "".
  std::string Push(int32_t id);
  // At the end: a held-back rest as one U+FFFD.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;
};

}  // namespace llmc
