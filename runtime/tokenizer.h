// The tokenizer of the loader, over the tables of a plan's tokenizer section, used where they lie.
//
// Text goes through these stages: added tokens are cut out of the raw text, the rest is normalised, added tokens are
// cut out of that, the rest is cut into pieces by patterns, and the model (BPE, Unigram or WordPiece) makes tokens of
// each piece. Bytes that are not UTF-8 count as U+FFFD, one for each maximal bad part, as bytes.decode('utf-8',
// 'replace') of Python makes them; byte-level BPE encodes the bytes themselves all the same, so decoding brings every
// byte back.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_tokenizer.h"
#include "runtime/plan_tokenizer_steps.h"

namespace llmc {

struct EncodeOptions {
  // Put what the tokenizer's template says around the text (BOS, EOS, [CLS], ..). A BOS that the text itself begins
  // with is not put in front again. Off for rendered chat templates.
  bool add_special = true;
  // Text that spells a control token becomes that token; off for text that must not (it is then ordinary text).
  bool parse_special = true;
  // The same of any added token, special or not.
  bool parse_added = true;
};

// A part of a text of which only some may be read as control tokens.
struct TextSegment {
  std::string_view text;
  bool parse_special = true;
  bool parse_added = true;
};

struct Encoding {
  std::vector<int32_t> ids;
  // Bytes of the given text that each token comes from, whole characters; 0, 0 for what a template added. A token that
  // is a part of a character has all of it. For a pair each in its own text.
  std::vector<SourceSpan> offsets;
  std::vector<uint32_t> types;  // token types of a template (BERT's segments)
};

class Tokenizer {
 public:
  // Borrows the section, which must outlive the tokenizer. Checks its headers. Throws PlanError.
  explicit Tokenizer(std::string_view section);

  int32_t size() const { return static_cast<int32_t>(section_.header.token_count); }
  int32_t bos_id() const { return section_.header.bos; }  // -1: none
  int32_t eos_id() const { return section_.header.eos; }
  bool adds_bos() const;  // the template begins with BOS

  // O(n log n) in time, about 60 bytes a byte of the longest piece in memory, no recursion. Throws PlanError for a text
  // of 2 GiB or more, and when damaged tables give an id outside the vocabulary.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The segments put together and encoded as one text, in which no control token is read from bytes of a segment whose
  // parse_special is false, and no added token where parse_added is.
  std::vector<int32_t> Encode(std::span<const TextSegment> segments, bool add_special) const;
  Encoding EncodeWithOffsets(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding EncodePair(std::string_view first, std::string_view second, const EncodeOptions& options = {}) const;

  // The bytes that a token stands for in the middle of a text; "" for ids outside the tokenizer (a model may have more
  // rows than the tokenizer has tokens).
  std::string_view TokenText(int32_t id) const { return section_.TokenBytes(id); }
  // The same of a token that is the first of a text; beside that, strip_first() spaces at the start of the text go.
  std::string_view FirstTokenText(int32_t id) const;
  bool HasFirstTexts() const { return !section_.table(TokenizerTable::FirstTexts).empty(); }
  uint32_t strip_first() const { return section_.header.strip_first; }
  bool IsSpecial(int32_t id) const { return (section_.TokenFlags(id) & kTokenSpecial) != 0; }
  // The text of all ids, what isn't UTF-8 replaced by U+FFFD: byte-level BPE one for each maximal bad part, byte
  // fallback one for each byte. Nothing is cleaned up.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Steps that Encode took: code points looked at, bytes compared, pairs looked up. For tests of its complexity.
  struct Work {
    uint64_t steps = 0;
  };
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options, Work& work) const;

 private:
  friend class Encoder;
  friend class StreamDecoder;
  Encoding Run(std::span<const TextSegment> segments, bool offsets, Work& work) const;
  void AddTemplate(std::span<const Encoding> texts, bool add_special, Encoding& out) const;

  TokenizerSection section_;
  std::vector<TextStep> normalizers_, cuts_;
};

// Decodes ids as they come and never splits a character: up to 3 bytes that may still become one are held back. What it
// has given out, put together, is Decode of the same ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(&tokenizer), skip_special_(skip_special), strip_(tokenizer.section_.header.strip_first) {}
  // The text that this id completes, possibly "".
  std::string Push(int32_t id);
  // At the end: a held-back rest as U+FFFD.
  std::string Finish();

 private:
  std::string Stripped(std::string text);

  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool first_ = true;
  uint32_t strip_;  // spaces that are still to go at the start of the text
  std::string held_;
};

}  // namespace llmc
