// Chat templates: the Jinja of published templates becomes programs that the loader runs (runtime/plan_template.h).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan_template.h"

namespace llmc {

struct ChatTemplate {
  std::string name;  // "default", "tool_use", ..
  std::string text;  // as found
  std::string file;  // where, for messages
};

// What a model has for chat.
struct ChatTemplateSources {
  std::vector<ChatTemplate> templates;                         // names differ; empty: no chat
  std::vector<std::pair<std::string, std::string>> variables;  // special tokens: "bos_token", ..
  std::optional<std::vector<std::string>> control_tokens;      // tokenizer_config.json's chat_control_tokens
};

// Throws InputError "file:line: ..." for what jinja2 refuses, and by name for what is not supported.
TemplateProgram CompileTemplate(std::string_view source, const std::string& file);
// The plan's section; "" without templates.
std::string CompileTemplates(const ChatTemplateSources& chat);

}  // namespace llmc
