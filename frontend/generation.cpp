// Sampling defaults, stop ids and the chat template.
#include "frontend/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"

namespace llmc {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{1} << 20;
constexpr size_t kMaxStopIds = 256;

Json ReadIfThere(const std::string& path) {
  if (!IsRegularFile(path)) return {};
  JsonLimits limits;
  Json root = ParseJson(ReadTextFile(path, limits.max_bytes), path, limits);
  if (!root.is(JsonKind::Object))
    Fail(DiagKind::BadValue, root.place(), fmt::format("must be an object, is {}", JsonKindText(root.kind())));
  return root;
}

// A member that is there and not null.
Json Member(const Json& object, std::string_view key) {
  Json v = object ? object.Find(key) : Json();
  return v && !v.is(JsonKind::Null) ? v : Json();
}

int32_t IdOf(const Json& value, int64_t vocab) {
  int64_t id = value.AsInt();
  if (id < 0 || id >= vocab)
    Fail(DiagKind::BadValue, value.place(), fmt::format("token id {} is outside the vocabulary of {}", id, vocab));
  return static_cast<int32_t>(id);
}

std::vector<int32_t> StopIds(const Json& value, int64_t vocab) {
  std::vector<int32_t> ids;
  if (!value) return ids;
  if (!value.is(JsonKind::Array)) return {IdOf(value, vocab)};
  if (value.size() > kMaxStopIds)
    Fail(DiagKind::TooLarge, value.place(), fmt::format("{} ids, at most {}", value.size(), kMaxStopIds));
  for (const Json& id : value.items()) ids.push_back(IdOf(id, vocab));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::optional<float> Number(const Json& object, std::string_view key) {
  Json v = Member(object, key);
  if (!v) return std::nullopt;
  double d = v.AsDouble();
  if (!std::isfinite(d) || d < 0 || d > 1e6)
    Fail(DiagKind::BadValue, v.place(), fmt::format("{} is {}, must be 0 to 1e6", key, v.source()));
  return static_cast<float>(d);
}

std::optional<int32_t> GgufId(const GgufHeader& header, const std::string& file, std::string_view key, int64_t vocab) {
  const GgufValue* v = header.Find(key);
  if (v == nullptr) return std::nullopt;
  auto id = v->Int();
  if (!id || *id < 0 || *id >= vocab) {
    Fail(DiagKind::BadValue, {file, fmt::format("key {}", key)},
         fmt::format("must be a token id below {}{}", vocab, id ? fmt::format(", is {}", *id) : ""));
  }
  return static_cast<int32_t>(*id);
}

}  // namespace

PlanGeneration HfGeneration(const std::string& directory, const std::string& config_path, int64_t vocab) {
  Json generation = ReadIfThere(JoinPath(directory, "generation_config.json"));
  Json config = ReadIfThere(config_path);
  PlanGeneration out;
  Json eos = Member(generation, "eos_token_id");
  out.stop_ids = StopIds(eos ? eos : Member(config, "eos_token_id"), vocab);
  out.temperature = Number(generation, "temperature");
  out.top_p = Number(generation, "top_p");
  out.min_p = Number(generation, "min_p");
  if (Json k = Member(generation, "top_k")) {
    int64_t n = k.AsInt();
    if (n < 0 || n > std::numeric_limits<int32_t>::max())
      Fail(DiagKind::BadValue, k.place(), fmt::format("top_k is {}, must not be negative", n));
    out.top_k = static_cast<int32_t>(n);
  }
  if (Json flag = Member(generation, "do_sample")) out.do_sample = flag.AsBool();
  return out;
}

PlanGeneration GgufGeneration(const GgufHeader& header, const std::string& file, int64_t vocab) {
  PlanGeneration out;
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (auto id = GgufId(header, file, key, vocab)) out.stop_ids.push_back(*id);
  }
  std::sort(out.stop_ids.begin(), out.stop_ids.end());
  out.stop_ids.erase(std::unique(out.stop_ids.begin(), out.stop_ids.end()), out.stop_ids.end());
  return out;
}

std::string HfChatTemplate(const std::string& directory) {
  std::string path = JoinPath(directory, "chat_template.jinja");
  if (IsRegularFile(path)) return ReadTextFile(path, kMaxTemplateBytes);
  Json v = Member(ReadIfThere(JoinPath(directory, "tokenizer_config.json")), "chat_template");
  if (!v) return "";
  if (!v.is(JsonKind::Array)) return std::string(v.AsString());
  for (const Json& named : v.items()) {
    Json name = named.Find("name");
    Json text = named.Find("template");
    if (name && text && name.AsString() == "default") return std::string(text.AsString());
  }
  return "";
}

std::string GgufChatTemplate(const GgufHeader& header) {
  const GgufValue* v = header.Find("tokenizer.chat_template");
  auto text = v == nullptr ? std::nullopt : v->String();
  return std::string(text.value_or(""));
}

}  // namespace llmc
