// The front end's whole surface: a model on disk (HF directory, config file, GGUF file, llmc's own description) becomes
// a module in the IR, a source of its weights and the tables of its tokenizer.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "ir/module.h"
#include "ir/weights.h"
#include "runtime/plan.h"

namespace llmc {

struct ModelOptions {
  std::string model;        // path: directory, *.json, *.gguf
  std::string weights;      // "": beside the description; PATH; "random:SEED"
  bool no_weights = false;  // for inspection only
  bool no_tokenizer = false;
  bool no_chat_template = false;
  int64_t context = 0;                     // 0: the smaller of the model's maximum and 8192
  int64_t chunk = 256;                     // largest prefill call
  std::string kv_type;                     // "": f16, of an encoder f32; f16 | f32 | q8_0
  std::string activations;                 // "": q8 for block weights, f32 for float weights; q8 | f32 | bf16
  bool hidden = false;                     // a phase that gives hidden rows, beside those of a decoder
  std::string quantize;                    // "": as stored; a mixture (quantize_mix.h) for float matrices
  bool absorb = true;                      // attention whose weights allow the absorbed form alone is no error
  std::vector<std::string> lora;           // adapters to merge: DIR or DIR=SCALE
  bool allow_nonfinite = false;            // weights that aren't finite are no error
  std::vector<std::string> allow_unknown;  // config keys to pass over
  DiagSink sink;                           // warnings
};

struct InputHash {
  std::string role;  // "config", "weights", "weights-00002", "tokenizer", ...: never a file name
  std::string path;  // for hashing at compile time; not stored
};

struct Model {
  Module module;                                // after = import
  std::shared_ptr<const WeightSource> weights;  // null with no_weights
  std::string tokenizer;                        // the plan's tokenizer section (runtime/plan_tokenizer.h); empty: none
  std::string chat_template;                    // the default one, as found; empty: none
  std::string chat;                             // the plan's section of compiled templates; empty: none
  PlanGeneration generation;
  PlanPooling pooling;  // kind none: the files say nothing of embeddings
  std::vector<InputHash> inputs;
};
Model LoadModel(const ModelOptions& options);

// The flat description (JSON, itself valid input), and the report (parameters by part, KV bytes per token,
// multiply-adds and bytes for decode and a prefill).
std::string DescribeModel(const ModelOptions& options);
// `prepare` changes the imported graph first, as the passes do that change what a plan keeps; it may be empty.
std::string ReportModel(const ModelOptions& options, int64_t prefill, const std::function<void(Module&)>& prepare = {});

// "presets HASH", over the presets and lists of keys that are built in: part of a plan's build id.
std::string FrontendBuildId();

}  // namespace llmc
