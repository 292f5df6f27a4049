// A template and a request, from source to text.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "frontend/template.h"
#include "ir/diag.h"
#include "runtime/chat_template.h"

namespace llmc {

struct Rendered {
  bool refused = false;  // by the compiler
  bool failed = false;   // when it ran
  std::string text;      // the rendering, or the message
};

inline Rendered RenderSource(const std::string& source, const std::string& request,
                             std::vector<std::pair<std::string, std::string>> variables,
                             const RenderOptions& options = {}) {
  std::string section;
  try {
    ChatTemplateSources chat;
    chat.templates.push_back({"default", source, "t.jinja"});
    chat.variables = std::move(variables);
    section = CompileTemplates(chat);
  } catch (const InputError& error) {
    return {true, false, error.what()};
  }
  try {
    return {false, false, ChatTemplates(section, "test").Render(request, "request", options)};
  } catch (const TemplateError& error) {
    return {false, true, error.what()};
  }
}

}  // namespace llmc
