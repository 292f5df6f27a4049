// JSON as a template's values: dicts in order, integers of any size.
#pragma once
#include <string_view>

#include "runtime/template_run.h"

namespace llmc {

// Throws TemplateError "where: line:column: ..." for what isn't JSON, or is nested more than 200 levels deep.
TemplateValue ParseJsonValue(TemplateRun& run, std::string_view text, std::string_view where);
// Whether a text is one JSON value.
bool IsJson(std::string_view text);

}  // namespace llmc
