// The fields by their numbers; protobuf's own reader takes the wire format apart, field by field, so that a file never
// takes more memory than what is kept of it. The only file with protobuf.
#include "frontend/sentencepiece.h"

#include <bit>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "ir/diag.h"

namespace llmc {
namespace {

constexpr size_t kMaxPieces = size_t{1} << 20;

// Of a tag's low three bits (https://protobuf.dev/programming-guides/encoding).
enum class WireType : uint8_t { Varint, Fixed64, Bytes, GroupStart, GroupEnd, Fixed32 };

// The fields of one message, in the order of the file.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& file, const char* message)
      : bytes_(bytes),
        file_(file),
        message_(message),
        in_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  // Goes to the next field; false at the end.
  bool Next() {
    if (in_.CurrentPosition() == static_cast<int>(bytes_.size())) return false;
    const uint32_t tag = in_.ReadTag();
    number_ = tag >> 3;
    type_ = static_cast<WireType>(tag & 7);
    uint32_t size = 0;
    bool read = number_ != 0;
    switch (type_) {
      case WireType::Varint: read = read && in_.ReadVarint64(&value_); break;
      case WireType::Fixed64: read = read && in_.ReadLittleEndian64(&value_); break;
      case WireType::Fixed32: read = read && in_.ReadLittleEndian32(&size); break;
      case WireType::Bytes: read = read && in_.ReadVarint32(&size) && size <= bytes_.size(); break;
      default: read = false;
    }
    if (read && type_ == WireType::Bytes) {
      payload_ = bytes_.substr(static_cast<size_t>(in_.CurrentPosition()), size);
      read = in_.Skip(static_cast<int>(size));
    }
    if (read && type_ == WireType::Fixed32) value_ = size;
    if (!read) Bad(message_, fmt::format("is no protocol buffer, at byte {} of the message", in_.CurrentPosition()));
    return true;
  }
  uint32_t number() const { return number_; }
  std::string_view Bytes(const char* what) const {
    if (type_ != WireType::Bytes) Bad(what, "a text or message is wanted");
    return payload_;
  }
  int64_t Int(const char* what) const {
    if (type_ != WireType::Varint) Bad(what, "an integer is wanted");
    return static_cast<int64_t>(value_);
  }
  float Float(const char* what) const {
    if (type_ != WireType::Fixed32) Bad(what, "a number of 4 bytes is wanted");
    return std::bit_cast<float>(static_cast<uint32_t>(value_));
  }
  [[noreturn]] void Bad(const char* what, const std::string& rule) const {
    Fail(DiagKind::BadFormat, {file_, what}, "SentencePiece model: " + rule);
  }

 private:
  std::string_view bytes_;
  const std::string& file_;
  const char* message_;
  google::protobuf::io::CodedInputStream in_;
  uint32_t number_ = 0;
  WireType type_ = WireType::Varint;
  uint64_t value_ = 0;
  std::string_view payload_;
};

SentencePieceModel::Piece ReadPiece(std::string_view bytes, const std::string& file, size_t number) {
  Fields fields(bytes, file, "pieces");
  SentencePieceModel::Piece piece;
  while (fields.Next()) {
    if (fields.number() == 1) piece.text = fields.Bytes("piece");
    if (fields.number() == 2) piece.score = fields.Float("score");
    if (fields.number() == 3) {
      const int64_t type = fields.Int("type");
      if (type < 1 || type > 6) fields.Bad("type", fmt::format("piece {} has the type {}", number, type));
      piece.type = static_cast<SentencePieceModel::Type>(type);
    }
  }
  return piece;
}

void ReadTrainer(std::string_view bytes, const std::string& file, SentencePieceModel& out) {
  Fields fields(bytes, file, "trainer_spec");
  while (fields.Next()) {
    switch (fields.number()) {
      case 3: out.model_type = fields.Int("model_type"); break;
      case 35: out.byte_fallback = fields.Int("byte_fallback") != 0; break;
      case 40: out.unk_id = fields.Int("unk_id"); break;
      case 41: out.bos_id = fields.Int("bos_id"); break;
      case 42: out.eos_id = fields.Int("eos_id"); break;
      case 45: out.unk_piece = fields.Bytes("unk_piece"); break;
      case 46: out.bos_piece = fields.Bytes("bos_piece"); break;
      case 47: out.eos_piece = fields.Bytes("eos_piece"); break;
      default: break;
    }
  }
}

void ReadNormalizer(std::string_view bytes, const std::string& file, SentencePieceModel& out) {
  Fields fields(bytes, file, "normalizer_spec");
  while (fields.Next()) {
    switch (fields.number()) {
      case 2: out.charsmap = fields.Bytes("precompiled_charsmap"); break;
      case 3: out.add_dummy_prefix = fields.Int("add_dummy_prefix") != 0; break;
      case 4: out.remove_extra_whitespaces = fields.Int("remove_extra_whitespaces") != 0; break;
      case 5: out.escape_whitespaces = fields.Int("escape_whitespaces") != 0; break;
      default: break;
    }
  }
}

}  // namespace

SentencePieceModel ParseSentencePiece(std::string_view bytes, const std::string& file) {
  if (bytes.size() > kMaxSentencePieceBytes) {
    Fail(DiagKind::TooLarge, {file, ""},
         fmt::format("SentencePiece model: {} bytes, the limit is {}", bytes.size(), kMaxSentencePieceBytes));
  }
  SentencePieceModel out;
  Fields fields(bytes, file, "");
  while (fields.Next()) {
    if (fields.number() == 1) {
      if (out.pieces.size() == kMaxPieces) {
        Fail(DiagKind::TooLarge, {file, "pieces"}, fmt::format("SentencePiece model: more than {} pieces", kMaxPieces));
      }
      out.pieces.push_back(ReadPiece(fields.Bytes("pieces"), file, out.pieces.size()));
    }
    if (fields.number() == 2) ReadTrainer(fields.Bytes("trainer_spec"), file, out);
    if (fields.number() == 3) ReadNormalizer(fields.Bytes("normalizer_spec"), file, out);
  }
  if (out.pieces.empty()) fields.Bad("pieces", "there are no pieces");
  const auto count = static_cast<int64_t>(out.pieces.size());
  for (const int64_t id : {out.unk_id, out.bos_id, out.eos_id}) {
    if (id < -1 || id >= count) fields.Bad("trainer_spec", fmt::format("the id {} is outside 0..{}", id, count));
  }
  return out;
}

}  // namespace llmc
