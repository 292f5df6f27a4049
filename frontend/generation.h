// Generation defaults of a model: generation_config.json beside it, then its config; the keys of a GGUF file.
#pragma once
#include <cstdint>
#include <string>

#include "frontend/frontend.h"
#include "frontend/gguf.h"

namespace llmc {

// directory: of generation_config.json, which may be absent. Stop ids are generation_config's eos_token_id (a number or
// a list), else config's; ids outside 0..vocab-1 are an error. Absent values are transformers': top_k is 50. A key that
// would change what is generated and has no effect here is a warning with its value.
PlanGeneration HfGeneration(const std::string& directory, const std::string& config_path, int64_t vocab,
                            const DiagSink& sink);
PlanGeneration GgufGeneration(const GgufHeader& header, const std::string& file, int64_t vocab);

}  // namespace llmc
