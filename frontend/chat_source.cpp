// Sources of chat templates.
#include "frontend/chat_source.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"

namespace llmc {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{1} << 20;
constexpr size_t kMaxTemplates = 64;
constexpr std::string_view kSpecial[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token"};

void Add(ChatTemplateSources& chat, std::string name, std::string text, const std::string& file) {
  const bool known = std::any_of(chat.templates.begin(), chat.templates.end(),
                                 [&](const ChatTemplate& other) { return other.name == name; });
  if (known) Fail(DiagKind::DuplicateName, {file, ""}, fmt::format("two chat templates are called \"{}\"", name));
  if (chat.templates.size() >= kMaxTemplates)
    Fail(DiagKind::TooLarge, {file, ""}, fmt::format("more than {} chat templates", kMaxTemplates));
  if (text.size() > kMaxTemplateBytes)
    Fail(DiagKind::TooLarge, {file, ""},
         fmt::format("a chat template of {} bytes, at most {}", text.size(), kMaxTemplateBytes));
  chat.templates.push_back({std::move(name), std::move(text), file});
}

// chat_template of a JSON file: a text, or a list of {name, template}. Whether there is one.
bool AddFromJson(ChatTemplateSources& chat, const std::string& path) {
  const Json value = FindValue(ReadJsonObject(path), "chat_template");
  if (!value) return false;
  const std::string file = path + ", chat_template";
  if (!value.is(JsonKind::Array)) {
    Add(chat, "default", std::string(value.AsString()), file);
    return true;
  }
  for (const Json& one : value.items()) {
    const Json name = FindValue(one, "name"), text = FindValue(one, "template");
    if (!name || !text) Fail(DiagKind::MissingKey, one.place(), "a named chat template needs `name` and `template`");
    Add(chat, std::string(name.AsString()), std::string(text.AsString()),
        fmt::format("{} \"{}\"", file, name.AsString()));
  }
  return true;
}

bool AddFromJinja(ChatTemplateSources& chat, const std::string& directory) {
  const std::string path = JoinPath(directory, "chat_template.jinja");
  if (IsPresent(path)) Add(chat, "default", ReadTextFile(path, kMaxTemplateBytes), path);
  std::error_code none;
  std::vector<std::filesystem::path> more;
  for (const auto& entry :
       std::filesystem::directory_iterator(JoinPath(directory, "additional_chat_templates"), none)) {
    if (entry.path().extension() == ".jinja") more.push_back(entry.path());
  }
  std::sort(more.begin(), more.end());
  for (const auto& file : more)
    Add(chat, file.stem().string(), ReadTextFile(file.string(), kMaxTemplateBytes), file.string());
  return !chat.templates.empty();
}

}  // namespace

ChatTemplateSources HfChat(const std::string& directory) {
  ChatTemplateSources chat;
  const std::string tokenizer_config = JoinPath(directory, "tokenizer_config.json");
  const bool found = AddFromJinja(chat, directory) || AddFromJson(chat, tokenizer_config) ||
                     AddFromJson(chat, JoinPath(directory, "processor_config.json")) ||
                     AddFromJson(chat, JoinPath(directory, "chat_template.json"));
  if (!found) return chat;
  const Json config = ReadJsonObject(tokenizer_config);
  const Json map = ReadJsonObject(JoinPath(directory, "special_tokens_map.json"));
  // As for the tokenizer: the map's keys stand for the configuration's where that has no added_tokens_decoder.
  const bool older = map && !(config && config.Find("added_tokens_decoder"));
  for (const std::string_view name : kSpecial) {
    Json token = older ? map.Find(name) : Json();
    if (!token) token = FindValue(config, name);
    if (!token) continue;
    const Json content = token.is(JsonKind::Object) ? FindValue(token, "content") : token;
    if (content && content.is(JsonKind::String)) chat.variables.emplace_back(name, content.AsString());
  }
  if (const Json tokens = FindValue(config, "chat_control_tokens")) {
    chat.control_tokens.emplace();
    for (const Json& token : tokens.items()) chat.control_tokens->emplace_back(token.AsString());
  }
  return chat;
}

ChatTemplateSources GgufChat(const GgufHeader& header, const std::string& file) {
  ChatTemplateSources chat;
  const std::string key = "tokenizer.chat_template";
  const auto text = [&](const std::string& name) -> std::optional<std::string> {
    const GgufValue* value = header.Find(name);
    if (value == nullptr) return std::nullopt;
    const auto found = value->String();
    if (!found) Fail(DiagKind::BadValue, {file, "key " + name}, "must be a text");
    return std::string(*found);
  };
  if (auto found = text(key)) Add(chat, "default", std::move(*found), file + ", " + key);
  if (const GgufValue* names = header.Find("tokenizer.chat_templates")) {
    for (const std::string_view name : names->Strings()) {
      const std::string named = fmt::format("{}.{}", key, name);
      auto found = text(named);
      if (!found) Fail(DiagKind::MissingKey, {file, "key " + named}, "tokenizer.chat_templates names it");
      Add(chat, std::string(name), std::move(*found), fmt::format("{}, {}", file, named));
    }
  }
  if (chat.templates.empty()) return chat;
  // Ids of special tokens, as the format names them, and the variables of templates.
  constexpr std::pair<std::string_view, std::string_view> kIds[] = {
      {"bos", "bos_token"},     {"eos", "eos_token"}, {"unknown", "unk_token"}, {"seperator", "sep_token"},
      {"padding", "pad_token"}, {"cls", "cls_token"}, {"mask", "mask_token"}};
  const GgufValue* tokens = header.Find("tokenizer.ggml.tokens");
  const std::vector<std::string_view> texts = tokens == nullptr ? std::vector<std::string_view>() : tokens->Strings();
  for (const auto& [id_name, variable] : kIds) {
    const GgufValue* id = header.Find(fmt::format("tokenizer.ggml.{}_token_id", id_name));
    const auto number = id == nullptr ? std::nullopt : id->Int();
    if (number && *number >= 0 && static_cast<uint64_t>(*number) < texts.size())
      chat.variables.emplace_back(variable, texts[static_cast<size_t>(*number)]);
  }
  return chat;
}

}  // namespace llmc
