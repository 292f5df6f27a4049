// A template's tree becomes its program.
#pragma once
#include <string>

#include "frontend/template_ast.h"

namespace llmc {

// Throws InputError "file:line: ...": what jinja2's compiler and Python's refuse, and what is not supported.
TemplateProgram GenerateTemplate(const TemplateNodes& body, const std::string& file);

}  // namespace llmc
