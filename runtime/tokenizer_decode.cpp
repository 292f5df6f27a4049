// Decoding, all at once and id by id.
#include <algorithm>

#include "runtime/plan_load.h"
#include "runtime/tokenizer.h"

namespace llmc {

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  StreamDecoder stream(*this, skip_special);
  std::string out;
  for (const int32_t id : ids) out += stream.Push(id);
  return out + stream.Finish();
}

std::string_view Tokenizer::FirstTokenText(int32_t id) const {
  const TokenizerSection& s = section_;
  const std::string_view table = s.table(TokenizerTable::FirstTexts);
  size_t low = 0, high = table.size() / sizeof(llmc::FirstText);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const auto found = LoadAt<llmc::FirstText>(table, middle);
    if (found.id == id) {
      const std::string_view bytes = s.table(TokenizerTable::FirstTextBytes);
      return found.begin <= found.end && found.end <= bytes.size() ? bytes.substr(found.begin, found.end - found.begin)
                                                                   : std::string_view();
    }
    if (found.id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return s.TokenBytes(id);
}

std::string StreamDecoder::Stripped(std::string text) {
  if (strip_ == 0 || text.empty()) return text;
  size_t spaces = 0;
  while (spaces < text.size() && spaces < strip_ && text[spaces] == ' ') ++spaces;
  strip_ = spaces == text.size() ? strip_ - static_cast<uint32_t>(spaces) : 0;
  return text.substr(spaces);
}

std::string StreamDecoder::Push(int32_t id) {
  const TokenizerSection& s = tokenizer_->section_;
  if (static_cast<uint32_t>(id) >= s.header.token_count || (skip_special_ && tokenizer_->IsSpecial(id))) return {};
  const std::string_view text = first_ ? tokenizer_->FirstTokenText(id) : s.TokenBytes(id);
  first_ = false;
  const bool byte_level = s.header.model == TokenizerModel::ByteBpe;
  std::string out;
  if (!byte_level && (s.TokenFlags(id) & kTokenByte) == 0) {
    out = Finish();
    return out + Stripped(std::string(text));
  }
  held_ += text;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Prefix prefix = ClassifyUtf8(std::string_view(held_).substr(at));
    if (prefix.state == Utf8State::Incomplete) break;
    if (prefix.state == Utf8State::Complete) {
      out.append(held_, at, prefix.bytes);
    } else {
      for (uint32_t i = 0; i < (byte_level ? 1 : prefix.bytes); ++i) out += kReplacementText;
    }
    at += prefix.bytes;
  }
  held_.erase(0, at);
  return Stripped(std::move(out));
}

std::string StreamDecoder::Finish() {
  std::string out;
  const bool byte_level = tokenizer_->section_.header.model == TokenizerModel::ByteBpe;
  for (size_t i = 0; i < (byte_level ? std::min<size_t>(held_.size(), 1) : held_.size()); ++i) out += kReplacementText;
  held_.clear();
  return Stripped(std::move(out));
}

}  // namespace llmc
