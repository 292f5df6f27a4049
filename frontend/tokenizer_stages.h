// The stages of a tokenizer.json around its vocabulary. Internal to the front end's tokenizer files.
#pragma once
#include "frontend/json.h"
#include "frontend/tokenizer_source.h"

namespace llmc {

// Each reads one key of a tokenizer.json's root object, and refuses what it can't honour with InputError Unsupported.
void ReadHfNormalizer(const Json& root, TokenizerSource& out);     // normalizers
bool ReadHfPreTokenizer(const Json& root, TokenizerSource& out);   // cuts; whether it makes text bytes (ByteLevel)
void ReadHfPostProcessor(const Json& root, TokenizerSource& out);  // single, pair
void ReadHfDecoder(const Json& root, TokenizerSource& out);        // decode

}  // namespace llmc
