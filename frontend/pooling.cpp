// Files by sentence-transformers: modules.json, the modules' own config.json, sentence_bert_config.json and
// config_sentence_transformers.json, in the spelling of versions 2 to 5.
#include "frontend/pooling.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/safetensors.h"
#include "ir/op.h"

namespace llmc {
namespace {

// "sentence_transformers.models.Pooling" and longer paths: the last word.
std::string_view LastWord(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view TextOf(const Json& object, std::string_view key) {
  const Json value = FindValue(object, key);
  return value ? value.AsString() : std::string_view();
}

[[noreturn]] void Unsupported(const Json& at, const std::string& what) {
  Fail(DiagKind::Unsupported, at.place(), what);
}

// A module's folder of modules.json: below the model's, no way out of it.
std::string FolderOf(const std::string& directory, const Json& module) {
  const std::string path(TextOf(module, "path"));
  if (path.starts_with("/") || path.find("..") != std::string::npos)
    Fail(DiagKind::BadValue, module.place(), fmt::format("path {} leads out of the model's folder", JsonQuote(path)));
  return path.empty() ? directory : JoinPath(directory, path);
}

Json ReadConfig(const std::string& path, const std::string& role, std::vector<InputHash>& inputs) {
  if (!IsPresent(path)) Fail(DiagKind::FileError, {path, ""}, "the file is missing, and modules.json asks for it");
  inputs.push_back({role, path});
  return ReadJsonObject(path);
}

void CheckWidth(const Json& config, std::initializer_list<std::string_view> keys, int64_t width) {
  for (const std::string_view key : keys) {
    const Json value = FindValue(config, key);
    if (value && value.AsInt() != width)
      Fail(DiagKind::ShapeMismatch, value.place(),
           fmt::format("{} is {}, the rows before it have {} numbers", key, value.AsInt(), width));
  }
}

// The one mode that is on: a text (`pooling_mode`), or a flag for each.
PoolingKind KindOf(const Json& config) {
  static constexpr std::array<std::pair<std::string_view, PoolingKind>, 3> kModes = {
      {{"mean", PoolingKind::Mean}, {"cls", PoolingKind::First}, {"lasttoken", PoolingKind::Last}}};
  const auto kind_of = [&](const Json& at, std::string_view name) {
    for (const auto& [mode, kind] : kModes) {
      if (mode == name) return kind;
    }
    Unsupported(at, fmt::format("pooling {} is not supported; supported: mean, cls, lasttoken", JsonQuote(name)));
  };
  const Json mode = FindValue(config, "pooling_mode");
  if (mode) return kind_of(mode, mode.AsString());
  constexpr std::string_view kPrefix = "pooling_mode_", kSuffix = "_tokens";
  PoolingKind found = PoolingKind::None;
  for (const auto& [key, value] : config.members()) {
    if (!key.starts_with(kPrefix) || !value.AsBool()) continue;
    std::string_view name = key.substr(kPrefix.size());
    for (const std::string_view end : {kSuffix, std::string_view("_token")}) {
      if (name.ends_with(end)) name.remove_suffix(end.size());
    }
    if (found != PoolingKind::None) Unsupported(value, "several poolings side by side are not supported");
    found = kind_of(value, name);
  }
  if (found == PoolingKind::None) Fail(DiagKind::MissingKey, config.place(), "no pooling_mode is on");
  return found;
}

void ReadPooling(const std::string& folder, int64_t width, PlanPooling& pooling, std::vector<InputHash>& inputs) {
  const Json config = ReadConfig(JoinPath(folder, "config.json"), "pooling", inputs);
  CheckWidth(config, {"word_embedding_dimension", "embedding_dimension"}, width);
  pooling.kind = KindOf(config);
  const Json prompt = FindValue(config, "include_prompt");
  if (prompt && !prompt.AsBool()) Unsupported(prompt, "include_prompt false is not supported");
}

DenseLayer ReadDense(const std::string& folder, size_t number, int64_t& width, std::vector<InputHash>& inputs) {
  const Json config = ReadConfig(JoinPath(folder, "config.json"), fmt::format("dense-{}", number), inputs);
  for (const auto& [key, value] : config.members()) {
    static constexpr std::array<std::string_view, 4> kKnown = {"in_features", "out_features", "bias",
                                                               "activation_function"};
    const bool named = (key == "module_input_name" || key == "module_output_name") && value.is(JsonKind::String) &&
                       value.AsString() == "sentence_embedding";
    if (!named && std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end() && !value.is(JsonKind::Null))
      Unsupported(value, fmt::format("{} of a dense layer is not supported", key));
  }
  CheckWidth(config, {"in_features"}, width);
  DenseLayer layer;
  const Json act = FindValue(config, "activation_function");
  const std::string_view name = act ? LastWord(act.AsString()) : "Tanh";  // the class's default
  if (name == "Tanh") {
    layer.act = "tanh";
  } else if (name != "Identity") {
    Unsupported(act, fmt::format("activation {} of a dense layer is not supported; supported: Identity, Tanh",
                                 JsonQuote(name)));
  }
  const std::string file = FindSafetensors(folder);
  if (file.empty()) Fail(DiagKind::FileError, {folder, ""}, "the dense layer has no model.safetensors");
  inputs.push_back({fmt::format("dense-{}-weights", number), file});
  const auto set = std::make_shared<const TensorSet>(OpenSafetensors(file));
  layer.set = set;
  layer.weight = set->Find("linear.weight");
  layer.bias = set->Find("linear.bias");
  if (layer.weight == nullptr) Fail(DiagKind::MissingTensor, {file, "tensor linear.weight"}, "the tensor is missing");
  const std::vector<int64_t>& dims = layer.weight->dims;
  if (dims.size() != 2 || dims[1] != width)
    Fail(DiagKind::ShapeMismatch, set->PlaceOf(*layer.weight),
         fmt::format("{}, must be [out_features, {}]", ShapeText(dims), width));
  if (layer.bias != nullptr && layer.bias->dims != std::vector<int64_t>{dims[0]})
    Fail(DiagKind::ShapeMismatch, set->PlaceOf(*layer.bias),
         fmt::format("{}, must be [{}]", ShapeText(layer.bias->dims), dims[0]));
  const Json bias = FindValue(config, "bias");
  if (bias && bias.AsBool() != (layer.bias != nullptr))
    Fail(DiagKind::MissingTensor, bias.place(),
         fmt::format("bias is {}, and {} linear.bias", bias.AsBool(),
                     layer.bias == nullptr ? "there is no" : "there is a"));
  for (const auto& [tensor, info] : set->tensors) {
    if (&info != layer.weight && &info != layer.bias)
      Fail(DiagKind::UnusedTensor, set->PlaceOf(info), "a dense layer has linear.weight and linear.bias alone");
  }
  CheckWidth(config, {"out_features"}, dims[0]);
  width = dims[0];
  return layer;
}

uint32_t Tokens(const Json& value) {
  const int64_t tokens = value.AsInt();
  if (tokens < 1 || tokens > std::numeric_limits<int32_t>::max())
    Fail(DiagKind::BadValue, value.place(), fmt::format("{} tokens", tokens));
  return static_cast<uint32_t>(tokens);
}

// Text alone, by its last hidden rows.
void CheckModality(const Json& config) {
  const Json text = FindValue(config, "text");
  if (!text || TextOf(text, "method") != "forward" || TextOf(text, "method_output_name") != "last_hidden_state")
    Unsupported(config, "a modality_config other than text by last_hidden_state is not supported");
}

// The longest text: max_seq_length of the transformer's own file, else what the tokenizer says, if that is a number of
// tokens and not "as many as you like".
uint32_t MostTokens(const std::string& folder, std::vector<InputHash>& inputs, const DiagSink& sink) {
  const std::string path = JoinPath(folder, "sentence_bert_config.json");
  if (IsPresent(path)) {
    const Json config = ReadConfig(path, "sentence-config", inputs);
    for (const auto& [key, value] : config.members()) {
      if (key == "max_seq_length") continue;
      if (key == "do_lower_case") {
        if (value.AsBool()) Unsupported(value, "do_lower_case true is not supported");
      } else if (key == "transformer_task") {
        if (value.AsString() != "feature-extraction")
          Unsupported(value, fmt::format("transformer_task {} is not supported", JsonQuote(value.AsString())));
      } else if (key == "module_output_name") {
        if (value.AsString() != "token_embeddings")
          Unsupported(value, fmt::format("module_output_name {} is not supported", JsonQuote(value.AsString())));
      } else if (key == "modality_config") {
        CheckModality(value);
      } else if (sink) {
        sink({Severity::Warning, DiagKind::UnknownKey, value.place(), fmt::format("{} is not read", key), {}});
      }
    }
    if (const Json most = FindValue(config, "max_seq_length")) return Tokens(most);
  }
  const Json most = FindValue(ReadJsonObject(JoinPath(folder, "tokenizer_config.json")), "model_max_length");
  if (!most || most.AsDouble() > std::numeric_limits<int32_t>::max()) return 0;
  return Tokens(most);
}

void ReadPrompts(const std::string& directory, PlanPooling& pooling, std::vector<InputHash>& inputs) {
  const std::string path = JoinPath(directory, "config_sentence_transformers.json");
  if (!IsPresent(path)) return;
  const Json config = ReadConfig(path, "prompts", inputs);
  if (const Json prompts = FindValue(config, "prompts")) {
    for (const auto& [name, text] : prompts.members())
      pooling.prompts.push_back({std::string(name), std::string(text.AsString())});
  }
  const Json name = FindValue(config, "default_prompt_name");
  if (!name) return;
  pooling.default_prompt = name.AsString();
  const bool known =
      std::any_of(pooling.prompts.begin(), pooling.prompts.end(),
                  [&](const PlanPooling::Prompt& prompt) { return prompt.name == pooling.default_prompt; });
  if (!known && !pooling.default_prompt.empty())
    Fail(DiagKind::BadValue, name.place(), fmt::format("there is no prompt {}", JsonQuote(pooling.default_prompt)));
}

// Weights of dense layers, in front of the model's.
class DenseWeights : public WeightSource {
 public:
  DenseWeights(std::shared_ptr<const WeightSource> model, std::map<Name, std::pair<DenseLayer, const TensorInfo*>> own)
      : model_(std::move(model)), own_(std::move(own)) {}
  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    const auto found = own_.find(weight.name);
    if (found == own_.end()) return model_->Read(weight, begin, end, out);
    const auto& [layer, tensor] = found->second;
    const auto row = tensor->dims.size() == 1 ? tensor->bytes : tensor->bytes / static_cast<uint64_t>(tensor->dims[0]);
    std::memcpy(out, layer.set->Data(*tensor) + static_cast<uint64_t>(begin) * row,
                static_cast<uint64_t>(end - begin) * row);
  }

 private:
  std::shared_ptr<const WeightSource> model_;
  std::map<Name, std::pair<DenseLayer, const TensorInfo*>> own_;
};

}  // namespace

EmbeddingModules HfEmbedding(const std::string& directory, int64_t width, std::vector<InputHash>& inputs,
                             const DiagSink& sink) {
  EmbeddingModules out;
  const std::string path = JoinPath(directory, "modules.json");
  if (!IsPresent(path)) return out;
  inputs.push_back({"modules", path});
  const Json list = ParseJson(ReadTextFile(path, JsonLimits{}.max_bytes), path);
  if (!list.is(JsonKind::Array)) Fail(DiagKind::BadValue, list.place(), "must be a list of modules");
  out.present = true;
  out.pooling.normalize = false;
  size_t stage = 0;  // of the order below
  static constexpr std::array<std::string_view, 4> kOrder = {"Transformer", "Pooling", "Dense", "Normalize"};
  for (const Json& module : list.items()) {
    const std::string_view type = LastWord(TextOf(module, "type"));
    const size_t at = static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), type) - kOrder.begin());
    if (at == kOrder.size())
      Unsupported(module, fmt::format("module {} is not supported; supported: {}", JsonQuote(type),
                                      "Transformer, Pooling, Dense, Normalize"));
    const bool follows = at < 2 ? stage == at : stage >= 2 && at + 1 >= stage;
    if (!follows) Unsupported(module, fmt::format("module {} in this place is not supported", JsonQuote(type)));
    stage = at + 1;
    const std::string folder = FolderOf(directory, module);
    if (at == 0) out.pooling.max_tokens = MostTokens(folder, inputs, sink);
    if (at == 1) ReadPooling(folder, width, out.pooling, inputs);
    if (at == 2) out.dense.push_back(ReadDense(folder, out.dense.size() + 1, width, inputs));
    if (at == 3) out.pooling.normalize = true;
  }
  if (stage < 2) Fail(DiagKind::MissingKey, list.place(), "there is no module Pooling");
  ReadPrompts(directory, out.pooling, inputs);
  return out;
}

EmbeddingModules GgufEmbedding(const std::shared_ptr<const GgufModel>& gguf, const std::string& file, int64_t width) {
  EmbeddingModules out;
  const GgufHeader& header = gguf->header;
  const GgufValue* arch = header.Find("general.architecture");
  if (arch == nullptr || !arch->String()) return out;
  for (const char* name : {"dense_2.weight", "dense_3.weight"}) {
    const TensorInfo* tensor = gguf->tensors.Find(name);
    if (tensor == nullptr) continue;
    const std::shared_ptr<const TensorSet> set(gguf, &gguf->tensors);
    if (tensor->dims.size() != 2 || tensor->dims[1] != width)
      Fail(DiagKind::ShapeMismatch, set->PlaceOf(*tensor),
           fmt::format("{}, must be [out, {}]", ShapeText(tensor->dims), width));
    out.dense.push_back({"", set, tensor, nullptr});
    width = tensor->dims[0];
  }
  const std::string key = std::string(*arch->String()) + ".pooling_type";
  const GgufValue* value = header.Find(key);
  if (value == nullptr) return out;
  const std::optional<int64_t> type = value->Int();
  const Place place{file, "key " + key};
  if (!type || *type < 0 || *type > 4) Fail(DiagKind::BadValue, place, "must be a pooling type, 0 to 4");
  if (*type == 4) Fail(DiagKind::Unsupported, place, "rank pooling (a reranker's head) is not supported");
  if (*type == 0) return out;
  out.present = true;
  out.pooling.kind = *type == 1 ? PoolingKind::Mean : *type == 2 ? PoolingKind::First : PoolingKind::Last;
  return out;
}

void AddProjection(Module& module, const std::vector<DenseLayer>& dense, int64_t width,
                   std::shared_ptr<const WeightSource>& weights) {
  if (dense.empty()) return;
  std::map<Name, std::pair<DenseLayer, const TensorInfo*>> own;
  const auto weight = [&](const DenseLayer& layer, const TensorInfo& tensor, const Name& name) {
    Global g;
    g.kind = GlobalKind::Weight;
    g.name = name;
    g.type.dtype = tensor.dtype;
    for (const int64_t n : tensor.dims) g.type.dims.emplace_back(n);
    own.emplace(name, std::pair(layer, &tensor));
    module.globals.push_back(std::move(g));
    return static_cast<int>(module.globals.size()) - 1;
  };
  Func func;
  func.name = "project";
  func.kind = EntryKind::Whole;
  func.output = EntryOutput::Hidden;
  func.dims = {{"S", 1, 1}};
  func.params = {AddValue(func, Name("hidden"), {DType::F32, {Dim("S"), Dim(width)}})};
  Operand x = Operand::Local(func.params[0]);
  for (size_t i = 0; i < dense.size(); ++i) {
    const DenseLayer& layer = dense[i];
    const std::string base = fmt::format("dense{}", i + 1);
    std::vector<Operand> operands = {x, Operand::OfGlobal(weight(layer, *layer.weight, Name(base)))};
    if (layer.bias != nullptr) {
      int bias = weight(layer, *layer.bias, Name(base + "_b"));
      if (layer.bias->dtype != DType::F32) {
        Global cast;
        cast.kind = GlobalKind::Const;
        cast.name = Name(base + "_b_f32");
        cast.type = module.globals[static_cast<size_t>(bias)].type;
        cast.type.dtype = DType::F32;
        cast.recipe = {RecipeKind::Cast, {bias}, {}};
        module.globals.push_back(std::move(cast));
        bias = static_cast<int>(module.globals.size()) - 1;
      }
      operands.push_back(Operand::OfGlobal(bias));
    }
    x = Operand::Local(Append(module, func, OpKind::Linear, std::move(operands), {}, {Name(base + "_out")})[0]);
    if (layer.act.empty()) continue;
    Attrs attrs;
    attrs.Set("kind", layer.act);
    x = Operand::Local(Append(module, func, OpKind::Act, {x}, attrs, {Name(base + "_act")})[0]);
  }
  func.returns = {x};
  module.funcs.push_back(std::move(func));
  if (weights) weights = std::make_shared<DenseWeights>(std::move(weights), std::move(own));
}

}  // namespace llmc
