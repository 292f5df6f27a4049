// A model's chat templates: a conversation becomes the text that the model continues, as transformers'
// apply_chat_template gives it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan_template.h"
#include "runtime/template_run.h"

namespace llmc {

// Around a control token that a message's text spells, as transformers marks them.
inline constexpr std::string_view kMarkBegin = "\xF3\xB0\x80\x80", kMarkEnd = "\xF3\xB0\x80\x81";  // U+F0000, U+F0001

struct RenderOptions {
  // Spellings that are to be marked in all texts of the request: longest first.
  std::vector<std::string> control_tokens;
  std::optional<std::pair<int64_t, int64_t>> now;  // for strftime_now: seconds since 1970, microseconds
  TemplateLimits limits;
};

class ChatTemplates {
 public:
  // The plan's section. Throws PlanError.
  ChatTemplates(std::string_view section, std::string_view where) : section_(DecodeTemplates(section, where)) {}

  // request: JSON, an array of messages or an object with `messages`, and if wanted `tools`, `documents`,
  // `add_generation_prompt` (true), `continue_final_message` (false; true or a key), `chat_template` (a name) and
  // variables of the template. where: names it in messages.
  // As transformers does: keys of messages whose value is null are dropped, reasoning is given under its three names.
  // Throws TemplateError.
  std::string Render(std::string_view request, std::string_view where, const RenderOptions& options = {}) const;

  // The added tokens that a message may not spell: special ones, and those that chat_control_tokens or, without such a
  // list, the template's own text names. added: text, is it special. For the template that the request takes.
  std::vector<std::string> ControlTokens(const std::vector<std::pair<std::string, bool>>& added,
                                         std::string_view request, std::string_view where) const;

 private:
  const TemplateProgram& Choose(const DictObject& request, TemplateRun& run) const;
  TemplateSection section_;
};

// The messages of a conversation (as a request has them), each as JSON.
std::vector<std::string> ReadMessages(std::string_view request, std::string_view where);

}  // namespace llmc
