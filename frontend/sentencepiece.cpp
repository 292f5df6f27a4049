// The fields by their numbers; protobuf's own reader takes the wire format apart. The only file with protobuf.
#include "frontend/sentencepiece.h"

#include <bit>
#include <limits>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include "ir/diag.h"

namespace llmc {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr size_t kMaxPieces = size_t{1} << 20;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  void Parse(std::string_view bytes, const char* what, UnknownFieldSet& fields) const {
    if (bytes.size() > std::numeric_limits<int>::max() ||
        !fields.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      Bad(what, "is no protocol buffer");
    }
  }
  [[noreturn]] void Bad(const char* what, const std::string& rule) const {
    Fail(DiagKind::BadFormat, {file_, what}, "SentencePiece model: " + rule);
  }
  std::string_view Bytes(const UnknownField& field, const char* what) const {
    if (field.type() != UnknownField::TYPE_LENGTH_DELIMITED) Bad(what, "a text or message is wanted");
    return field.length_delimited();
  }
  int64_t Int(const UnknownField& field, const char* what) const {
    if (field.type() != UnknownField::TYPE_VARINT) Bad(what, "an integer is wanted");
    return static_cast<int64_t>(field.varint());
  }
  float Float(const UnknownField& field, const char* what) const {
    if (field.type() != UnknownField::TYPE_FIXED32) Bad(what, "a number of 4 bytes is wanted");
    return std::bit_cast<float>(field.fixed32());
  }

 private:
  const std::string& file_;
};

void ReadPiece(const Reader& reader, std::string_view bytes, SentencePieceModel& out) {
  if (out.pieces.size() == kMaxPieces) reader.Bad("pieces", fmt::format("more than {} pieces", kMaxPieces));
  UnknownFieldSet fields;
  reader.Parse(bytes, "pieces", fields);
  SentencePieceModel::Piece piece;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == 1) piece.text = reader.Bytes(field, "piece");
    if (field.number() == 2) piece.score = reader.Float(field, "score");
    if (field.number() == 3) {
      const int64_t type = reader.Int(field, "type");
      if (type < 1 || type > 6) reader.Bad("type", fmt::format("piece {} has the type {}", out.pieces.size(), type));
      piece.type = static_cast<SentencePieceModel::Type>(type);
    }
  }
  out.pieces.push_back(std::move(piece));
}

void ReadTrainer(const Reader& reader, std::string_view bytes, SentencePieceModel& out) {
  UnknownFieldSet fields;
  reader.Parse(bytes, "trainer_spec", fields);
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    switch (field.number()) {
      case 3: out.model_type = reader.Int(field, "model_type"); break;
      case 24: out.whitespace_as_suffix = reader.Int(field, "treat_whitespace_as_suffix") != 0; break;
      case 35: out.byte_fallback = reader.Int(field, "byte_fallback") != 0; break;
      case 40: out.unk_id = reader.Int(field, "unk_id"); break;
      case 41: out.bos_id = reader.Int(field, "bos_id"); break;
      case 42: out.eos_id = reader.Int(field, "eos_id"); break;
      case 45: out.unk_piece = reader.Bytes(field, "unk_piece"); break;
      case 46: out.bos_piece = reader.Bytes(field, "bos_piece"); break;
      case 47: out.eos_piece = reader.Bytes(field, "eos_piece"); break;
      default: break;
    }
  }
}

void ReadNormalizer(const Reader& reader, std::string_view bytes, SentencePieceModel& out) {
  UnknownFieldSet fields;
  reader.Parse(bytes, "normalizer_spec", fields);
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    switch (field.number()) {
      case 2: out.charsmap = reader.Bytes(field, "precompiled_charsmap"); break;
      case 3: out.add_dummy_prefix = reader.Int(field, "add_dummy_prefix") != 0; break;
      case 4: out.remove_extra_whitespaces = reader.Int(field, "remove_extra_whitespaces") != 0; break;
      case 5: out.escape_whitespaces = reader.Int(field, "escape_whitespaces") != 0; break;
      default: break;
    }
  }
}

}  // namespace

SentencePieceModel ParseSentencePiece(std::string_view bytes, const std::string& file) {
  const Reader reader(file);
  UnknownFieldSet fields;
  reader.Parse(bytes, "", fields);
  SentencePieceModel out;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == 1) ReadPiece(reader, reader.Bytes(field, "pieces"), out);
    if (field.number() == 2) ReadTrainer(reader, reader.Bytes(field, "trainer_spec"), out);
    if (field.number() == 3) ReadNormalizer(reader, reader.Bytes(field, "normalizer_spec"), out);
  }
  if (out.pieces.empty()) reader.Bad("pieces", "there are no pieces");
  const auto count = static_cast<int64_t>(out.pieces.size());
  for (const int64_t id : {out.unk_id, out.bos_id, out.eos_id}) {
    if (id < -1 || id >= count) reader.Bad("trainer_spec", fmt::format("the id {} is outside 0..{}", id, count));
  }
  return out;
}

}  // namespace llmc
