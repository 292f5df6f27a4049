// From sources to the section.
#include "frontend/template.h"

#include "frontend/template_codegen.h"
#include "frontend/template_parser.h"
#include "frontend/text_tables.h"

namespace llmc {

TemplateProgram CompileTemplate(std::string_view source, const std::string& file) {
  return GenerateTemplate(ParseTemplate(source, file), file);
}

std::string CompileTemplates(const ChatTemplateSources& chat) {
  if (chat.templates.empty()) return "";
  TemplateSection section;
  for (const ChatTemplate& one : chat.templates) {
    section.templates.push_back(CompileTemplate(one.text, one.file));
    section.templates.back().name = one.name;
  }
  section.variables = chat.variables;
  section.has_control_tokens = chat.control_tokens.has_value();
  section.control_tokens = chat.control_tokens.value_or(std::vector<std::string>());
  section.tables = BuiltinTextTables();
  return EncodeTemplates(section);
}

}  // namespace llmc
