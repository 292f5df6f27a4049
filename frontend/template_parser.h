// Parses a chat template: jinja2's grammar, with its extensions of loop controls and transformers' {% generation %}.
#pragma once
#include <string>
#include <string_view>

#include "frontend/template_ast.h"

namespace llmc {

// The statements of the template. Throws InputError "file:line: ..." for what jinja2 refuses, and for the statements of
// several files (extends, include, import, block) and autoescape, by name.
TemplateNodes ParseTemplate(std::string_view source, const std::string& file);

}  // namespace llmc
