// SentencePiece models (tokenizer.model), a protocol buffer: pieces, and what the trainer and the normalizer were told
// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

struct SentencePieceModel {
  enum class Type : uint8_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::Normal;
  };
  std::vector<Piece> pieces;  // by id
  int64_t model_type = 1;     // 1 Unigram, 2 BPE, 3 words, 4 characters
  bool byte_fallback = false;
  int64_t unk_id = 0, bos_id = 1, eos_id = 2;  // -1: none
  std::string unk_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>";
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  std::string charsmap;
};
// The largest published ones have about 5 MB.
inline constexpr uint64_t kMaxSentencePieceBytes = uint64_t{16} << 20;
// Of a field that is there several times the last counts. Throws InputError: BadFormat when the bytes are no such model
// or an id is outside, TooLarge beyond kMaxSentencePieceBytes or 2^20 pieces.
SentencePieceModel ParseSentencePiece(std::string_view bytes, const std::string& file);

}  // namespace llmc
