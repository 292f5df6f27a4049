// What transformers' apply_chat_template and render_jinja_template do around a template.
#include "runtime/chat_template.h"

#include <algorithm>

#include "runtime/template_json.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

constexpr const char* kReasoning[] = {"reasoning_content", "thinking", "reasoning"};
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";

class Request {
 public:
  Request(TemplateRun& run, std::string_view text, std::string_view where) : run_(run), where_(where) {
    const TemplateValue parsed = ParseJsonValue(run, text, where);
    if (parsed.Is(ValueKind::Dict)) {
      dict_ = &parsed.As<DictObject>();
    } else {
      dict_ = run.NewDict();
      dict_->Set(run.Str("messages"), parsed);
    }
  }
  DictObject& dict() { return *dict_; }
  [[noreturn]] void Fail(const std::string& rule) const { throw TemplateError(std::string(where_) + ": " + rule); }

  // Null or absent: nothing.
  const TemplateValue* Find(std::string_view key) const {
    const TemplateValue* value = dict_->Find(key);
    return value == nullptr || value->Is(ValueKind::None) ? nullptr : value;
  }
  bool Flag(std::string_view key, bool absent) const {
    const TemplateValue* value = Find(key);
    return value == nullptr ? absent : Truth(*value);
  }

  // Messages without keys that are null.
  TemplateValue Messages() const {
    const TemplateValue* messages = Find("messages");
    if (messages == nullptr || !messages->Is(ValueKind::List))
      Fail("wants an array of messages, or an object with an array `messages`");
    if (messages->items().empty()) Fail("an empty conversation: at least one message is needed");
    std::vector<TemplateValue> kept;
    for (const TemplateValue& message : messages->items()) {
      if (!message.Is(ValueKind::Dict))
        Fail("message " + std::to_string(kept.size()) + " is no object but " + TypeName(message));
      DictObject* copy = run_.NewDict();
      for (const auto& [key, value] : message.As<DictObject>().items) {
        if (!value.Is(ValueKind::None)) copy->Set(key, value);
      }
      kept.push_back(TemplateValue::Of(ValueKind::Dict, copy));
    }
    return run_.List(std::move(kept));
  }

 private:
  TemplateRun& run_;
  std::string_view where_;
  DictObject* dict_ = nullptr;
};

// A copy with every text marked; keys stay.
TemplateValue Marked(TemplateRun& run, const TemplateValue& value, const std::vector<std::string>& tokens) {
  const TemplateRun::Deeper deeper(run);
  switch (value.kind) {
    case ValueKind::Str: {
      const std::string text =
          ReplaceText(ReplaceText(value.str(), kMarkBegin, "", -1, UINT64_MAX), kMarkEnd, "", -1, UINT64_MAX);
      std::string out;
      for (size_t at = 0; at < text.size();) {
        const auto found = std::find_if(tokens.begin(), tokens.end(), [&](const std::string& token) {
          return !token.empty() && std::string_view(text).substr(at).starts_with(token);
        });
        if (found == tokens.end()) {
          out.push_back(text[at++]);
          continue;
        }
        out.append(kMarkBegin).append(*found).append(kMarkEnd);
        at += found->size();
      }
      run.Step(text.size() * (tokens.size() + 1) / 64);
      return run.Str(std::move(out));
    }
    case ValueKind::List: {
      std::vector<TemplateValue> items;
      for (const TemplateValue& item : value.items()) items.push_back(Marked(run, item, tokens));
      return run.List(std::move(items));
    }
    case ValueKind::Dict: {
      DictObject* dict = run.NewDict();
      for (const auto& [key, item] : value.As<DictObject>().items) dict->Set(key, Marked(run, item, tokens));
      return TemplateValue::Of(ValueKind::Dict, dict);
    }
    default: return value;
  }
}

// `reasoning_content` from its older names, and `thinking` for templates that read that.
TemplateValue WithReasoning(TemplateRun& run, const TemplateValue& messages) {
  std::vector<TemplateValue> result;
  for (const TemplateValue& message : messages.items()) {
    const DictObject& given = message.As<DictObject>();
    const TemplateValue* reasoning = nullptr;
    for (const char* key : kReasoning) reasoning = reasoning != nullptr ? reasoning : given.Find(key);
    DictObject* dict = run.NewDict();
    if (reasoning != nullptr) dict->Set(run.Str("thinking"), *reasoning);
    for (const auto& [key, value] : given.items) dict->Set(key, value);
    if (reasoning != nullptr) dict->Set(run.Str("reasoning_content"), *reasoning);
    result.push_back(TemplateValue::Of(ValueKind::Dict, dict));
  }
  return run.List(std::move(result));
}

// Puts a tag behind the text that is to be continued; returns that text.
std::string TagFinalMessage(TemplateRun& run, const Request& request, const TemplateValue& messages,
                            const std::string& field, const TemplateProgram& program) {
  DictObject& last = messages.items().back().As<DictObject>();
  const TemplateValue* content = last.Find(field);
  if (content == nullptr)
    request.Fail("continue_final_message is set but the final message has no \"" + field + "\" to continue!");
  std::vector<std::string> fields{field};
  if (std::find(std::begin(kReasoning), std::end(kReasoning), field) != std::end(kReasoning)) {
    fields.clear();
    for (const char* key : kReasoning) {
      const TemplateValue* copy = last.Find(key);
      if (copy != nullptr && Equal(run, *copy, *content)) fields.emplace_back(key);
    }
  }
  const auto reads = [&](const std::string& name) {
    return std::any_of(program.constants.begin(), program.constants.end(),
                       [&](const TemplateConst& constant) { return constant.text.find(name) != std::string::npos; });
  };
  if (std::none_of(fields.begin(), fields.end(), reads))
    request.Fail("continue_final_message is set to \"" + field +
                 "\" but this is not an accepted field in the chat_template");
  if (content->Is(ValueKind::List)) {
    for (size_t i = content->items().size(); i-- > 0;) {
      const TemplateValue& block = content->items()[i];
      const TemplateValue* text = block.Is(ValueKind::Dict) ? block.As<DictObject>().Find("text") : nullptr;
      if (text == nullptr || !text->Is(ValueKind::Str)) continue;
      const std::string found = text->str();
      block.As<DictObject>().Set(run.Str("text"), run.Str(found + std::string(kTag)));
      return found;
    }
    request.Fail("continue_final_message is set but we could not find any text to continue in the final message!");
  }
  if (!content->Is(ValueKind::Str)) request.Fail("continue_final_message: \"" + field + "\" is no text");
  const std::string found = content->str();
  for (const std::string& name : fields) last.Set(run.Str(name), run.Str(found + std::string(kTag)));
  return found;
}

std::string CutAtTag(const Request& request, std::string rendered, const std::string& final_text) {
  const std::string_view bare = StripText(kTag, StripSide::Both, nullptr);
  const size_t at = rendered.rfind(bare);
  if (rendered.find(StripText(final_text, StripSide::Both, nullptr)) == std::string::npos || at == std::string::npos)
    request.Fail(
        "continue_final_message is set but the final message does not appear in the chat after applying the "
        "chat template");
  const bool whole = std::string_view(rendered).substr(at).starts_with(kTag);
  rendered.resize(at);
  return whole ? rendered : std::string(StripText(rendered, StripSide::Right, nullptr));
}

}  // namespace

const TemplateProgram& ChatTemplates::Choose(const DictObject& request, TemplateRun& run) const {
  const auto find = [&](std::string_view name) {
    const auto found = std::find_if(section_.templates.begin(), section_.templates.end(),
                                    [&](const TemplateProgram& program) { return program.name == name; });
    return found == section_.templates.end() ? nullptr : &*found;
  };
  const auto given = [&](std::string_view key) {
    const TemplateValue* value = request.Find(key);
    return value == nullptr || value->Is(ValueKind::None) ? nullptr : value;
  };
  std::string names;
  for (const TemplateProgram& program : section_.templates) names += (names.empty() ? "" : ", ") + program.name;
  if (const TemplateValue* wanted = given("chat_template")) {
    const TemplateProgram* named = wanted->Is(ValueKind::Str) ? find(wanted->str()) : nullptr;
    if (named == nullptr)
      throw TemplateError("no chat template is called " + Repr(run, *wanted) + ": the model has " + names);
    return *named;
  }
  if (given("tools") != nullptr && find("tool_use") != nullptr) return *find("tool_use");
  if (const TemplateProgram* program = find("default")) return *program;
  throw TemplateError("the model has several chat templates and none of them is the default: name one of " + names +
                      " by the request's `chat_template`");
}

std::string ChatTemplates::Render(std::string_view text, std::string_view where, const RenderOptions& options) const {
  // The request chooses the program, so it is read by a run of the first one.
  TemplateRun reader(section_.templates.at(0), section_.tables, options.limits);
  const TemplateProgram& program = Choose(Request(reader, text, where).dict(), reader);
  TemplateRun run(program, section_.tables, options.limits);
  run.now = options.now;
  Request request(run, text, where);
  TemplateValue messages = request.Messages();
  const TemplateValue* continued = request.Find("continue_final_message");
  const bool continues = continued != nullptr && Truth(*continued);
  if (continues && request.Flag("add_generation_prompt", false))
    request.Fail("continue_final_message and add_generation_prompt are not compatible");
  const auto mark = [&](const TemplateValue& value) {
    return options.control_tokens.empty() ? value : Marked(run, value, options.control_tokens);
  };
  messages = WithReasoning(run, mark(messages));
  std::string final_text;
  if (continues) {
    const std::string field = continued->Is(ValueKind::Str) ? continued->str() : "content";
    final_text = TagFinalMessage(run, request, messages, field, program);
  }
  for (const auto& [name, token] : section_.variables) run.SetVariable(name, run.Str(token));
  for (const auto& [key, value] : request.dict().items) {
    const std::string& name = key.str();
    if (name == "messages" || name == "tools" || name == "documents" || name == "add_generation_prompt" ||
        name == "continue_final_message" || name == "chat_template")
      continue;
    run.SetVariable(name, mark(value));
  }
  for (const char* name : {"tools", "documents"}) {
    const TemplateValue* list = request.Find(name);
    if (list != nullptr) {
      const bool objects =
          list->Is(ValueKind::List) && std::all_of(list->items().begin(), list->items().end(),
                                                   [](const TemplateValue& v) { return v.Is(ValueKind::Dict); });
      if (!objects) request.Fail(std::string("`") + name + "` must be an array of objects");
    }
    run.SetVariable(name, list == nullptr ? TemplateValue::None() : mark(*list));
  }
  run.SetVariable("messages", messages);
  run.SetVariable("add_generation_prompt", TemplateValue::Bool(request.Flag("add_generation_prompt", !continues)));
  std::string rendered = run.Render();
  return continues ? CutAtTag(request, std::move(rendered), final_text) : rendered;
}

std::vector<std::string> ReadMessages(std::string_view text, std::string_view where) {
  const TemplateProgram none;
  const TextTables tables;
  TemplateRun run(none, tables, {});
  std::vector<std::string> messages;
  for (const TemplateValue& message : Request(run, text, where).Messages().items())
    messages.push_back(ToJson(run, message, {}));
  return messages;
}

std::vector<std::string> ChatTemplates::ControlTokens(const std::vector<std::pair<std::string, bool>>& added,
                                                      std::string_view text, std::string_view where) const {
  TemplateRun reader(section_.templates.at(0), section_.tables, {});
  const TemplateProgram& program = Choose(Request(reader, text, where).dict(), reader);
  const auto writes = [&](const std::string& token) {
    return std::any_of(program.constants.begin(), program.constants.end(), [&](const TemplateConst& constant) {
      return constant.literal && constant.text.find(token) != std::string::npos;
    });
  };
  std::vector<std::string> tokens;
  for (const auto& [token, special] : added) {
    if (token.empty()) continue;
    const bool named = section_.has_control_tokens
                           ? std::find(section_.control_tokens.begin(), section_.control_tokens.end(), token) !=
                                 section_.control_tokens.end()
                           : !StripText(token, StripSide::Both, nullptr).empty() && writes(token);
    if (special || named) tokens.push_back(token);
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const std::string& a, const std::string& b) { return CountPoints(a) > CountPoints(b); });
  return tokens;
}

}  // namespace llmc
