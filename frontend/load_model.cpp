// LoadModel: the front end from MODEL to a module, its weights, and what else a plan keeps.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "frontend/build_module.h"
#include "frontend/chat_source.h"
#include "frontend/embedded.h"
#include "frontend/file.h"
#include "frontend/frontend.h"
#include "frontend/generation.h"
#include "frontend/model_source.h"
#include "frontend/pooling.h"
#include "frontend/report.h"
#include "frontend/tokenizer.h"
#include "ir/options.h"
#include "runtime/plan_hash.h"

namespace llmc {
namespace {

constexpr int64_t kDefaultContext = 8192;

// The longest context that the positions of any layer are made for.
int64_t LongestContext(const Description& d) {
  int64_t longest = d.model.max_context;
  for (const auto& [name, block] : d.blocks)
    longest = std::max(longest, block.position->LongestContext(d.model.max_context));
  return longest;
}

int64_t ContextOf(const ModelOptions& options, const OpenedModel& m) {
  if (options.context == 0) return std::min(m.description.model.max_context, kDefaultContext);
  int64_t longest = LongestContext(m.description);
  if (options.context < 1 || options.context > longest) {
    Fail(DiagKind::BadValue, {m.config_path, ""},
         fmt::format("--context {} is outside 1 to {}, the longest that the model is made for", options.context,
                     longest));
  }
  return options.context;
}

BuildOptions OptionsOf(const ModelOptions& options, const OpenedModel& m) {
  BuildOptions out;
  out.context = ContextOf(options, m);
  if (options.chunk < 1) throw UsageError(fmt::format("--chunk {}: at least 1", options.chunk));
  const bool whole = m.description.ends.output == ModelOutput::Hidden;
  out.chunk = whole ? out.context : std::min(options.chunk, out.context);
  const auto check = [](const char* flag, std::string_view option, const std::string& value) {
    if (!IsOptionValue(option, value))
      throw UsageError(fmt::format("{} {}: must be {}", flag, value, OptionValuesText(option)));
  };
  // Keys and values of an encoder are those of one call: there is no cache to keep small.
  const std::string kv_type = !options.kv_type.empty() ? options.kv_type : whole ? "f32" : "f16";
  check("--kv-type", "kv_type", kv_type);
  out.kv_type = *DTypeFromText(kv_type);
  if (!options.activations.empty()) check("--activations", "activations", options.activations);
  out.activations = options.activations;
  out.hidden = options.hidden && !whole;  // an encoder gives nothing else
  if (!options.quantize.empty()) {
    check("--quantize", "quantize", options.quantize);
    out.quantize = FindMixture(options.quantize);
  }
  out.absorb = options.absorb;
  out.random = m.random_seed;
  out.sink = options.sink;
  return out;
}

// The tokenizer's tables, and what it says about BOS and the ends of generation. In a directory its eos counts only
// where the configurations name none; a GGUF file's turn ends come on top of its eos.
void AddTokenizer(const OpenedModel& m, Model& model) {
  const int64_t vocab = m.description.model.vocab;
  std::optional<LoweredTokenizer> tokenizer;
  PlanGeneration& generation = model.generation;
  if (m.format == ModelFormat::Gguf) {
    const auto source = ReadGgufTokenizer(m.gguf->header, m.config_path);
    if (source) tokenizer = LowerGgufTokenizer(*source, m.config_path, vocab);
  } else {
    tokenizer = LoadHfTokenizer(m.directory, vocab, model.inputs);
  }
  if (!tokenizer) return;
  model.tokenizer = std::move(tokenizer->section);
  generation.bos_id = tokenizer->bos_id;
  generation.add_bos = tokenizer->add_bos;
  if (m.format == ModelFormat::Gguf || generation.stop_ids.empty()) generation.stop_ids = tokenizer->stop_ids;
}

}  // namespace

Model LoadModel(const ModelOptions& options) {
  OpenedModel m = OpenModel(options, NoWeights::Refuse);
  Model model;
  model.inputs = std::move(m.inputs);
  const int64_t width = m.description.model.d_model;
  const EmbeddingModules embedding = m.format == ModelFormat::Gguf
                                         ? GgufEmbedding(m.gguf, m.config_path, width)
                                         : HfEmbedding(m.directory, width, model.inputs, options.sink);
  model.pooling = embedding.pooling;
  BuildOptions build = OptionsOf(options, m);
  // A decoder that makes embeddings gives them.
  if (embedding.present) build.hidden = m.description.ends.output == ModelOutput::Logits;
  model.module = BuildModule(m.description, m.weights, build);
  model.weights = m.weights.source;
  AddProjection(model.module, embedding.dense, width, model.weights);
  int64_t vocab = m.description.model.vocab;
  if (m.format == ModelFormat::Gguf) {
    model.generation = GgufGeneration(m.gguf->header, m.config_path, vocab);
  } else {
    model.generation = HfGeneration(m.directory, m.config_path, vocab, options.sink);
    std::string path = JoinPath(m.directory, "generation_config.json");
    if (IsPresent(path)) model.inputs.push_back({"generation", path});
  }
  if (!options.no_tokenizer) AddTokenizer(m, model);
  if (!options.no_chat_template) {
    const ChatTemplateSources chat =
        m.format == ModelFormat::Gguf ? GgufChat(m.gguf->header, m.config_path) : HfChat(m.directory);
    model.chat = CompileTemplates(chat);
    for (const ChatTemplate& one : chat.templates) {
      if (one.name == "default") model.chat_template = one.text;
    }
  }
  return model;
}

std::string DescribeModel(const ModelOptions& options) {
  return PrintDescription(OpenModel(options, NoWeights::Allow).description);
}

std::string ReportModel(const ModelOptions& options, int64_t prefill, const std::function<void(Module&)>& prepare) {
  OpenedModel m = OpenModel(options, NoWeights::Allow);
  Module module = BuildModule(m.description, m.weights, OptionsOf(options, m));
  if (prepare) prepare(module);
  return ReportText(m.description, FiguresOf(m.description, m.weights, module, prefill));
}

std::string FrontendBuildId() {
  Xxh3 hash;
  for (const EmbeddedFile& file : EmbeddedFiles()) hash.Update(file.text.data(), file.text.size());
  return fmt::format("presets {:016x}", hash.Digest());
}

}  // namespace llmc
