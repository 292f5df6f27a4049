// From a conversation to the ids that the model continues.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executable.h"

namespace llmc {

// The text that the plan's template makes of a request (runtime/chat_template.h). Throws PlanError for a plan without a
// template, and what rendering throws.
std::string RenderChat(const Executable& executable, std::string_view request, std::string_view where);

// Its ids. parse_special false: as transformers' apply_chat_template(sanitize_control_tokens=True): control tokens that
// the request's texts spell are encoded as text, only those of the template itself are tokens. True: as with False, the
// rendered text is encoded as it is.
std::vector<int32_t> EncodeChat(const Executable& executable, std::string_view request, std::string_view where,
                                bool parse_special);

}  // namespace llmc
