// MODEL and --weights: directories, config files, descriptions and GGUF files.
#include "frontend/model_source.h"

#include <charconv>

#include <fmt/format.h>

#include "frontend/checked_weights.h"
#include "frontend/config_source.h"
#include "frontend/preset.h"
#include "frontend/safetensors.h"

namespace llmc {
namespace {

constexpr std::string_view kRandomPrefix = "random:";
constexpr JsonLimits kConfigLimits{uint64_t{4} << 20, uint64_t{1} << 17, 64, true};

// By its magic, whatever it is called; by its name where it can't be read, so that reading says why.
bool IsGguf(const std::string& path) { return StartsWith(path, "GGUF") || path.ends_with(".gguf"); }

int64_t SeedOf(const std::string& weights) {
  int64_t seed = 0;
  const char* begin = weights.data() + kRandomPrefix.size();
  const char* end = weights.data() + weights.size();
  auto [p, error] = std::from_chars(begin, end, seed);
  if (error != std::errc() || p != end || begin == end || seed < 0) {
    throw UsageError(fmt::format("--weights {}: the seed must be an integer from 0 to 2^63 - 1", weights));
  }
  return seed;
}

void ReadGguf(OpenedModel& m, const std::string& path, const PresetOptions& options) {
  m.format = ModelFormat::Gguf;
  m.config_path = path;
  m.directory = DirOf(path);
  auto gguf = std::make_shared<GgufModel>(OpenGguf(path));
  m.description = DescribeGguf(GgufConfig(gguf->header, gguf->tensors, path), options);
  m.gguf = std::move(gguf);
}

void ReadJson(OpenedModel& m, const std::string& path, const PresetOptions& options) {
  m.config_path = path;
  m.directory = DirOf(path);
  Json root = ParseJson(ReadTextFile(path, kConfigLimits.max_bytes), path, kConfigLimits);
  if (!root.is(JsonKind::Object))
    Fail(DiagKind::BadValue, root.place(),
         fmt::format("a model's description must be an object, is {}", JsonKindText(root.kind())));
  if (IsDescription(root)) {
    m.format = ModelFormat::Own;
    m.description = ReadDescription(root, path);
    CheckTensorNames(m.description, path);
  } else {
    m.format = ModelFormat::Hf;
    m.description = DescribeHf(HfConfig(root, path), options);
  }
  m.inputs.push_back({"config", path});
}

// The file that holds the weights: as named, beside the description, or "".
std::string WeightsPath(const OpenedModel& m, const std::string& named) {
  std::string path = named;
  if (path.empty() && !m.description.weights.empty()) path = JoinPath(m.directory, m.description.weights);
  if (path.empty()) return m.format == ModelFormat::Gguf ? m.config_path : FindSafetensors(m.directory);
  if (!IsDirectory(path)) return path;
  std::string found = FindSafetensors(path);
  if (found.empty())
    Fail(DiagKind::FileError, {path, ""},
         "there is neither model.safetensors nor model.safetensors.index.json in the folder");
  return found;
}

// One set of tensors per model: the role numbers follow the order of the files' names.
void NoteInputs(OpenedModel& m, const TensorSet& set, const std::string& path) {
  if (path.ends_with(".index.json")) m.inputs.push_back({"weights-index", path});
  for (size_t i = 0; i < set.files.size(); ++i) {
    m.inputs.push_back({set.files.size() == 1 ? "weights" : fmt::format("weights-{:05}", i + 1), set.files[i]->path()});
  }
}

std::shared_ptr<const TensorSet> OpenTensors(const OpenedModel& m, const std::string& path) {
  if (!IsGguf(path)) {
    if (m.format == ModelFormat::Gguf)
      throw UsageError(fmt::format("--weights {}: a GGUF model takes weights from a GGUF file", path));
    return std::make_shared<const TensorSet>(OpenSafetensors(path));
  }
  if (m.format == ModelFormat::Hf)
    throw UsageError(fmt::format("--weights {}: a GGUF file brings its own description; name it as MODEL", path));
  if (m.gguf != nullptr && path == m.config_path) return {m.gguf, &m.gguf->tensors};
  auto gguf = std::make_shared<const GgufModel>(OpenGguf(path));
  return {gguf, &gguf->tensors};
}

void ReadWeights(OpenedModel& m, const ModelOptions& options, NoWeights missing) {
  bool random = options.weights.starts_with(kRandomPrefix);
  if (options.no_weights && !options.weights.empty())
    throw UsageError("--no-weights and --weights contradict one another");
  if (random) m.random_seed = SeedOf(options.weights);
  // A GGUF file's table of tensors gives every weight its type even when the numbers are not wanted.
  bool wants_files = !random && !options.no_weights;
  std::string path = wants_files ? WeightsPath(m, options.weights) : m.format == ModelFormat::Gguf ? m.config_path : "";
  if (path.empty()) {
    if (wants_files && missing == NoWeights::Refuse) {
      Fail(DiagKind::FileError, {m.config_path, ""},
           "no weights: there is neither model.safetensors nor model.safetensors.index.json beside it; name them with "
           "--weights, or take --no-weights");
    }
    if (!options.lora.empty()) throw UsageError("--lora needs the model's weights");
    m.weights = UnboundWeights(m.description);
  } else {
    std::shared_ptr<const TensorSet> set = OpenTensors(m, path);
    std::vector<LoraAdapter> adapters;
    for (const std::string& text : options.lora) {
      if (m.format == ModelFormat::Gguf)
        throw UsageError(fmt::format("--lora {}: adapters go with models of safetensors, not with a GGUF file", text));
      const LoraAdapter& adapter = adapters.emplace_back(OpenLora(text));
      m.inputs.push_back({fmt::format("lora-{}-config", adapters.size()), adapter.config_path});
      m.inputs.push_back({fmt::format("lora-{}-weights", adapters.size()), adapter.weights_path});
    }
    m.weights = BindWeights(m.description, set, adapters, options.sink);
    if (!options.allow_nonfinite) m.weights.source = CheckedWeights(m.weights.source, m.weights.places);
    if (wants_files || m.format == ModelFormat::Gguf) NoteInputs(m, *set, path);
  }
  if (random) m.weights.source = WithValues(m.weights, RandomWeights(static_cast<uint64_t>(*m.random_seed)));
  if (options.no_weights) m.weights.source = nullptr;
}

}  // namespace

OpenedModel OpenModel(const ModelOptions& options, NoWeights missing) {
  OpenedModel m;
  PresetOptions preset{options.allow_unknown, options.sink};
  if (IsDirectory(options.model)) {
    std::string path = JoinPath(options.model, "config.json");
    if (!IsPresent(path)) Fail(DiagKind::FileError, {options.model, ""}, "there is no config.json in the folder");
    ReadJson(m, path, preset);
  } else if (IsGguf(options.model)) {
    ReadGguf(m, options.model, preset);
  } else if (options.model.ends_with(".json")) {
    ReadJson(m, options.model, preset);
  } else {
    const MappedFile other(options.model);  // says why it can't be opened, or that it is a pointer
    Fail(DiagKind::FileError, {options.model, ""}, "a model is a folder with config.json, a *.json or a GGUF file");
  }
  ReadWeights(m, options, missing);
  return m;
}

}  // namespace llmc
