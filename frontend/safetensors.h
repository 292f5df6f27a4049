// safetensors files (https://huggingface.co/docs/safetensors, "Format"): one file, or several with an index.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "frontend/tensor_file.h"

namespace llmc {

// Parses and checks one file: 8-byte little-endian header length, JSON header, data. The tensors' ranges must cover the
// data exactly: no holes, no overlaps, nothing behind them; each range must have the size of its shape and type. Types
// F32, F16, BF16, and U8, whose tensors are `bytes_only`; others are refused by name. Throws InputError BadFormat, Unsupported, DuplicateName, SyntaxError or
// TooLarge.
std::vector<TensorInfo> ParseSafetensors(std::span<const std::byte> bytes, const std::string& file);

// Opens *.safetensors, or *.safetensors.index.json with every file that its weight_map names: a missing file, or a
// tensor that is not in the file that the map gives it, is an error (MissingTensor), and so is a tensor that the map
// does not name. Tensors of bytes are codes and exponents of mxfp4 (mxfp4_pairs.h) or refused.
TensorSet OpenSafetensors(const std::string& path);

// The weights beside a description: model.safetensors.index.json, else model.safetensors in `dir`; "" when there is
// neither.
std::string FindSafetensors(const std::string& dir);

}  // namespace llmc
