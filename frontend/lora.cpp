// PEFT's adapters (https://huggingface.co/docs/peft, "Checkpoint format"). Of adapter_config.json only what changes
// numbers is read.
#include "frontend/lora.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/safetensors.h"

namespace llmc {
namespace {

constexpr JsonLimits kConfigLimits{uint64_t{1} << 20, uint64_t{1} << 16, 16};
constexpr int64_t kMaxRank = 4096;

double ScaleOf(const std::string& text, size_t at) {
  double scale = 0;
  const char* begin = text.data() + at;
  const char* end = text.data() + text.size();
  const auto [p, error] = std::from_chars(begin, end, scale);
  if (error != std::errc() || p != end || !std::isfinite(scale))
    throw UsageError(fmt::format("--lora {}: the scale must be a finite number", text));
  return scale;
}

[[noreturn]] void Refuse(const Json& value, std::string_view what) {
  Fail(DiagKind::Unsupported, value.place(), fmt::format("{} is not supported", what));
}

// The keys whose other values mean another function.
void CheckKind(const Json& config, const std::string& path) {
  const Json type = config.Find("peft_type");
  if (!type) Fail(DiagKind::MissingKey, {path, ""}, "peft_type is missing");
  if (type.AsString() != "LORA") Refuse(type, fmt::format("peft_type \"{}\"", type.AsString()));
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias"}) {
    const Json flag = config.Find(key);
    if (flag && !flag.is(JsonKind::Null) && flag.AsBool()) Refuse(flag, key);
  }
  const Json bias = config.Find("bias");
  if (bias && !bias.is(JsonKind::Null) && bias.AsString() != "none") Refuse(bias, "a bias");
  for (const char* key :
       {"rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication", "trainable_token_indices"}) {
    const Json value = config.Find(key);
    if (value && !value.is(JsonKind::Null) && value.size() > 0) Refuse(value, key);
  }
}

}  // namespace

LoraAdapter OpenLora(const std::string& text) {
  const size_t equals = text.rfind('=');
  const bool whole = equals == std::string::npos || IsDirectory(text);
  const std::string folder = whole ? text : text.substr(0, equals);
  LoraAdapter adapter;
  adapter.scale = whole ? 1 : ScaleOf(text, equals + 1);
  adapter.config_path = JoinPath(folder, "adapter_config.json");
  adapter.weights_path = JoinPath(folder, "adapter_model.safetensors");
  if (!IsRegularFile(adapter.config_path))
    Fail(DiagKind::FileError, {folder, ""}, "there is no adapter_config.json in the folder of --lora");
  const Json config =
      ParseJson(ReadTextFile(adapter.config_path, kConfigLimits.max_bytes), adapter.config_path, kConfigLimits);
  if (!config.is(JsonKind::Object))
    Fail(DiagKind::BadValue, config.place(), fmt::format("must be an object, is {}", JsonKindText(config.kind())));
  CheckKind(config, adapter.config_path);
  const Json rank = config.Find("r");
  const Json alpha = config.Find("lora_alpha");
  if (!rank || !alpha) Fail(DiagKind::MissingKey, {adapter.config_path, ""}, "r and lora_alpha must be there");
  adapter.rank = rank.AsInt();
  if (adapter.rank < 1 || adapter.rank > kMaxRank)
    Fail(DiagKind::BadValue, rank.place(), fmt::format("r is {}, must be 1 to {}", adapter.rank, kMaxRank));
  const double factor = alpha.AsDouble();
  if (!std::isfinite(factor)) Fail(DiagKind::BadValue, alpha.place(), "lora_alpha must be finite");
  const Json root = config.Find("use_rslora");
  const bool by_root = root && !root.is(JsonKind::Null) && root.AsBool();
  const auto r = static_cast<double>(adapter.rank);
  adapter.scale *= factor / (by_root ? std::sqrt(r) : r);
  adapter.set = std::make_shared<const TensorSet>(OpenSafetensors(adapter.weights_path));
  return adapter;
}

std::pair<const TensorInfo*, const TensorInfo*> LoraAdapter::Find(const std::string& name) const {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return {nullptr, nullptr};
  const std::string stem = "base_model.model." + name.substr(0, name.size() - kWeight.size());
  const TensorInfo* a = set->Find(stem + ".lora_A.weight");
  const TensorInfo* b = set->Find(stem + ".lora_B.weight");
  if ((a == nullptr) != (b == nullptr)) {
    const TensorInfo& one = a != nullptr ? *a : *b;
    Fail(DiagKind::MissingTensor, set->PlaceOf(one),
         fmt::format("its partner {} is missing", stem + (a != nullptr ? ".lora_B.weight" : ".lora_A.weight")));
  }
  return {a, b};
}

}  // namespace llmc
