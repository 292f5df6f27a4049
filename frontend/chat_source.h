// Where a model's chat templates are: in a Hugging Face directory and in a GGUF file.
#pragma once
#include <string>

#include "frontend/gguf.h"
#include "frontend/template.h"

namespace llmc {

// Hugging Face's order: chat_template.jinja, with additional_chat_templates/*.jinja beside it; chat_template of
// tokenizer_config.json, a text or a list of {name, template}; that of processor_config.json; that of
// chat_template.json. Special tokens are those that tokenizer_config.json names; where it has no
// added_tokens_decoder, special_tokens_map.json comes first.
ChatTemplateSources HfChat(const std::string& directory);
// tokenizer.chat_template, and tokenizer.chat_template.NAME for each name of tokenizer.chat_templates.
ChatTemplateSources GgufChat(const GgufHeader& header, const std::string& file);

}  // namespace llmc
