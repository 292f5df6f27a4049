// Renders with marks around what may not become a control token, and encodes the parts between the marks.
#include "runtime/chat_prompt.h"

#include <algorithm>

#include "runtime/chat_template.h"
#include "runtime/plan_error.h"
#include "runtime/plan_tokenizer.h"
#include "runtime/tokenizer.h"

namespace llmc {
namespace {

ChatTemplates NeedTemplates(const Executable& executable) {
  if (executable.chat.empty())
    throw PlanError("the plan has no chat template, and none is guessed: give a prompt as text or ids");
  return {executable.chat, "plan"};
}

// Every added token with its id, and whether it is special.
struct Added {
  std::string text;
  int32_t id = 0;
  bool special = false;
};
std::vector<Added> AddedTokens(const Tokenizer& tokenizer, std::string_view section) {
  const std::string_view flags = ReadTokenizerSection(section).table(TokenizerTable::TokenFlags);
  std::vector<Added> added;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const uint8_t bits = static_cast<uint8_t>(flags[static_cast<size_t>(id)]);
    if ((bits & kTokenAdded) == 0 || tokenizer.TokenText(id).empty()) continue;
    added.push_back({std::string(tokenizer.TokenText(id)), id, (bits & kTokenSpecial) != 0});
  }
  std::stable_sort(added.begin(), added.end(),
                   [](const Added& a, const Added& b) { return a.text.size() > b.text.size(); });
  return added;
}

// encode_marked_chat of transformers. A piece that isn't the first is encoded behind a line end, whose ids are cut off
// again, where that leaves them apart.
class MarkedEncoder {
 public:
  MarkedEncoder(const Tokenizer& tokenizer, const std::vector<Added>& added) : tokenizer_(tokenizer), added_(added) {}

  std::vector<int32_t> Encode(std::string_view text) {
    size_t begin = 0;
    for (size_t at = 0; (at = text.find(kMarkBegin.substr(0, kMarkBegin.size() - 1), at)) != std::string_view::npos;) {
      const bool opens = text.substr(at).starts_with(kMarkBegin);
      if (!opens && !text.substr(at).starts_with(kMarkEnd)) {
        ++at;
        continue;
      }
      Piece(text.substr(begin, at - begin), nullptr);
      begin = at + kMarkBegin.size();
      const auto marked = std::find_if(added_.begin(), added_.end(), [&](const Added& token) {
        return opens && text.substr(begin).starts_with(token.text) &&
               text.substr(begin + token.text.size()).starts_with(kMarkEnd);
      });
      if (marked != added_.end()) {
        Piece(marked->text, &*marked);
        begin += marked->text.size() + kMarkEnd.size();
      }
      at = begin;
    }
    Piece(text.substr(begin), nullptr);
    return std::move(ids_);
  }

 private:
  std::vector<int32_t> Ids(const std::string& text, bool parse_added) const {
    const EncodeOptions options{false, parse_added, parse_added};  // nothing is put in front
    return tokenizer_.Encode(text, options);
  }
  // as_text: the piece spells this token and may not become it.
  void Piece(std::string_view piece, const Added* as_text) {
    const bool first = first_;
    first_ = false;
    if (piece.empty()) return;
    std::vector<int32_t> ids;
    if (first) {
      ids = Ids(std::string(piece), true);
    } else {
      const std::vector<int32_t> line_end = Ids("\n", true);
      ids = Ids("\n" + std::string(piece), as_text == nullptr);
      if (ids.size() >= line_end.size() && std::equal(line_end.begin(), line_end.end(), ids.begin()))
        ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(line_end.size()));
      else
        ids = Ids(std::string(piece), as_text == nullptr);
    }
    if (as_text != nullptr && std::find(ids.begin(), ids.end(), as_text->id) != ids.end())
      throw PlanError("a message spells \"" + as_text->text +
                      "\", which the tokenizer makes a control token of even as text (--parse-special lets it)");
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  const Tokenizer& tokenizer_;
  const std::vector<Added>& added_;
  bool first_ = true;
  std::vector<int32_t> ids_;
};

}  // namespace

std::string RenderChat(const Executable& executable, std::string_view request, std::string_view where) {
  return NeedTemplates(executable).Render(request, where);
}

std::vector<int32_t> EncodeChat(const Executable& executable, std::string_view request, std::string_view where,
                                bool parse_special) {
  const ChatTemplates templates = NeedTemplates(executable);
  if (executable.tokenizer.empty()) throw PlanError("the plan has no tokenizer: a conversation can't become ids");
  const Tokenizer tokenizer(executable.tokenizer);
  if (parse_special) return tokenizer.Encode(templates.Render(request, where), EncodeOptions{false});
  const std::vector<Added> added = AddedTokens(tokenizer, executable.tokenizer);
  std::vector<std::pair<std::string, bool>> texts;
  for (const Added& token : added) texts.emplace_back(token.text, token.special);
  RenderOptions options;
  options.control_tokens = templates.ControlTokens(texts, request, where);
  return MarkedEncoder(tokenizer, added).Encode(templates.Render(request, where, options));
}

}  // namespace llmc
