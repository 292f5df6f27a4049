// The JSON reader's storage and accessors: a flat list of nodes in text order, each with its byte position, and one
// pool of unescaped strings. The grammar is nlohmann's; this is the only file that sees it. Its SAX events carry no
// positions, so a cursor walks the same text beside them.
#include "frontend/json.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "frontend/file.h"

namespace llmc {

// Node 0 is the root. A container's children follow it; `next` is the node after the whole subtree.
struct JsonNode {
  JsonKind kind{};
  uint32_t begin = 0, end = 0;  // bytes of the text
  uint32_t key = 0, key_size = 0, key_begin = 0;
  uint32_t next = 0;
  union {
    bool boolean;
    int64_t integer;
    double number;
    struct {
      uint32_t at, size;
    } text;
    uint64_t count = 0;  // children
  };
};

struct JsonTree {
  std::string file;
  std::string text;
  std::string pool;
  std::vector<JsonNode> nodes;

  std::vector<size_t> lines = {};  // where each line begins; ascending, so that a place costs a search

  void SetText(std::string t) {
    text = std::move(t);
    lines = {0};
    for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) lines.push_back(at + 1);
  }
  Place At(size_t pos) const {
    pos = std::min(pos, text.size());
    const auto line = std::upper_bound(lines.begin(), lines.end(), pos) - lines.begin();
    return {file, fmt::format("{}:{}", line, pos - lines[static_cast<size_t>(line - 1)] + 1)};
  }
};

namespace {

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(JsonTree& tree, const JsonLimits& limits) : tree_(tree), limits_(limits) {
    if (tree.text.starts_with("\xEF\xBB\xBF")) cursor_ = 3;
  }

  bool null() override {
    return Scalar(JsonKind::Null, [](JsonNode&) {});
  }
  bool boolean(bool v) override {
    return Scalar(JsonKind::Bool, [&](JsonNode& n) { n.boolean = v; });
  }
  bool number_integer(number_integer_t v) override {
    return Scalar(JsonKind::Int, [&](JsonNode& n) { n.integer = v; });
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (v <= static_cast<uint64_t>(INT64_MAX)) return number_integer(static_cast<int64_t>(v));
    return Scalar(JsonKind::Float, [&](JsonNode& n) { n.number = static_cast<double>(v); });
  }
  bool number_float(number_float_t v, const string_t&) override {
    return Scalar(JsonKind::Float, [&](JsonNode& n) { n.number = v; });
  }
  bool string(string_t& v) override {
    return Scalar(JsonKind::String, [&](JsonNode& n) {
      n.text.at = static_cast<uint32_t>(tree_.pool.size());
      n.text.size = static_cast<uint32_t>(v.size());
      tree_.pool += v;
    });
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(JsonKind::Object); }
  bool start_array(std::size_t) override { return Open(JsonKind::Array); }
  bool end_object() override {
    RefuseDuplicates(open_.back());
    return Close();
  }
  bool end_array() override { return Close(); }
  bool key(string_t& v) override {
    key_begin_ = SkipToToken();
    key_ = static_cast<uint32_t>(tree_.pool.size());
    key_size_ = static_cast<uint32_t>(v.size());
    tree_.pool += v;
    cursor_ = TokenEnd(key_begin_);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& ex) override {
    std::string_view what = ex.what();
    size_t at = what.find("syntax error");
    if (at == std::string_view::npos) at = what.find("] ") == std::string_view::npos ? 0 : what.find("] ") + 2;
    Fail(DiagKind::SyntaxError, tree_.At(position == 0 ? 0 : position - 1), fmt::format("JSON: {}", what.substr(at)));
  }

 private:
  // Position of the next token: only white space, ',' and ':' can stand before it, the parser has checked.
  uint32_t SkipToToken() const {
    size_t p = cursor_;
    while (p < tree_.text.size() && std::string_view(" \t\r\n,:").find(tree_.text[p]) != std::string_view::npos) ++p;
    return static_cast<uint32_t>(p);
  }
  uint32_t TokenEnd(size_t p) const {
    const std::string& s = tree_.text;
    if (p < s.size() && s[p] == '"') {
      for (++p; p < s.size() && s[p] != '"'; ++p) p += s[p] == '\\' ? 1 : 0;
      return static_cast<uint32_t>(std::min(p + 1, s.size()));
    }
    if (p < s.size() && std::string_view("[]{}").find(s[p]) != std::string_view::npos)
      return static_cast<uint32_t>(p + 1);
    while (p < s.size() && std::string_view(" \t\r\n,:]}").find(s[p]) == std::string_view::npos) ++p;
    return static_cast<uint32_t>(p);
  }
  JsonNode& Add(JsonKind kind) {
    uint32_t begin = SkipToToken();
    if (tree_.nodes.size() >= limits_.max_values) {
      Fail(DiagKind::TooLarge, tree_.At(begin), fmt::format("JSON: more than {} values", limits_.max_values));
    }
    if (!open_.empty()) ++tree_.nodes[open_.back()].count;
    JsonNode& n = tree_.nodes.emplace_back();
    n.kind = kind;
    n.begin = begin;
    n.end = TokenEnd(begin);
    n.key = key_;
    n.key_size = key_size_;
    n.key_begin = key_begin_;
    n.next = static_cast<uint32_t>(tree_.nodes.size());
    cursor_ = n.end;
    key_ = key_size_ = key_begin_ = 0;
    return n;
  }
  template <class F>
  bool Scalar(JsonKind kind, F set) {
    set(Add(kind));
    return true;
  }
  bool Open(JsonKind kind) {
    JsonNode& n = Add(kind);
    open_.push_back(static_cast<uint32_t>(tree_.nodes.size() - 1));
    if (open_.size() > static_cast<size_t>(limits_.max_depth)) {
      Fail(DiagKind::TooLarge, tree_.At(n.begin), fmt::format("JSON: nested deeper than {}", limits_.max_depth));
    }
    return true;
  }
  bool Close() {
    JsonNode& n = tree_.nodes[open_.back()];
    n.end = cursor_ = TokenEnd(SkipToToken());
    n.next = static_cast<uint32_t>(tree_.nodes.size());
    open_.pop_back();
    return true;
  }
  void RefuseDuplicates(uint32_t object) const {
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    keys.reserve(tree_.nodes[object].count);
    for (uint32_t i = object + 1; i < tree_.nodes.size(); i = tree_.nodes[i].next) {
      const JsonNode& n = tree_.nodes[i];
      keys.emplace_back(std::string_view(tree_.pool).substr(n.key, n.key_size), n.key_begin);
    }
    std::sort(keys.begin(), keys.end());
    for (size_t i = 1; i < keys.size(); ++i) {
      if (keys[i].first != keys[i - 1].first) continue;
      Fail(DiagKind::DuplicateName, tree_.At(keys[i].second),
           fmt::format("JSON: key {} stands twice in one object, first at {}", JsonQuote(keys[i].first),
                       tree_.At(keys[i - 1].second).at));
    }
  }

  JsonTree& tree_;
  const JsonLimits& limits_;
  uint32_t cursor_ = 0;
  uint32_t key_ = 0, key_size_ = 0, key_begin_ = 0;
  std::vector<uint32_t> open_;
};

}  // namespace

std::string_view JsonKindText(JsonKind kind) {
  static constexpr std::array<std::string_view, 7> kText = {"null",     "a boolean", "an integer", "a number",
                                                            "a string", "an array",  "an object"};
  return kText[static_cast<size_t>(kind)];
}

Json ParseJson(std::string text, const std::string& file, const JsonLimits& limits) {
  if (text.size() > std::min<uint64_t>(limits.max_bytes, UINT32_MAX)) {
    Fail(DiagKind::TooLarge, {file, ""}, fmt::format("JSON: {} bytes; at most {}", text.size(), limits.max_bytes));
  }
  auto tree = std::make_shared<JsonTree>();
  tree->file = file;
  tree->SetText(std::move(text));
  Builder builder(*tree, limits);
  const char* begin = tree->text.data();
  bool ok = nlohmann::json::sax_parse(begin, begin + tree->text.size(), &builder);
  LLMC_CHECK(ok, "the JSON parser stopped without an error");
  return Json(std::move(tree), 0);
}

Json ReadJsonObject(const std::string& path) {
  if (!IsPresent(path)) return {};
  JsonLimits limits;
  Json root = ParseJson(ReadTextFile(path, limits.max_bytes), path, limits);
  if (!root.is(JsonKind::Object))
    Fail(DiagKind::BadValue, root.place(), fmt::format("must be an object, is {}", JsonKindText(root.kind())));
  return root;
}

Json FindValue(const Json& object, std::string_view key) {
  Json v = object ? object.Find(key) : Json();
  return v && !v.is(JsonKind::Null) ? v : Json();
}

void Json::Want(JsonKind wanted) const {
  JsonKind found = kind();
  if (found == wanted) return;
  Fail(DiagKind::BadValue, place(), fmt::format("must be {}, is {}", JsonKindText(wanted), JsonKindText(found)));
}
JsonKind Json::kind() const {
  LLMC_CHECK(tree_ != nullptr, "no JSON value");
  return tree_->nodes[node_].kind;
}
bool Json::AsBool() const {
  Want(JsonKind::Bool);
  return tree_->nodes[node_].boolean;
}
int64_t Json::AsInt() const {
  Want(JsonKind::Int);
  return tree_->nodes[node_].integer;
}
double Json::AsDouble() const {
  if (kind() == JsonKind::Int) return static_cast<double>(tree_->nodes[node_].integer);
  Want(JsonKind::Float);
  return tree_->nodes[node_].number;
}
std::string_view Json::AsString() const {
  Want(JsonKind::String);
  const JsonNode& n = tree_->nodes[node_];
  return std::string_view(tree_->pool).substr(n.text.at, n.text.size);
}
size_t Json::size() const {
  if (kind() != JsonKind::Object) Want(JsonKind::Array);
  return tree_->nodes[node_].count;
}
std::vector<Json> Json::items() const {
  Want(JsonKind::Array);
  std::vector<Json> out;
  const JsonNode& n = tree_->nodes[node_];
  out.reserve(n.count);
  for (uint32_t i = node_ + 1; i < n.next; i = tree_->nodes[i].next) out.push_back(Json(tree_, i));
  return out;
}
std::vector<std::pair<std::string_view, Json>> Json::members() const {
  Want(JsonKind::Object);
  std::vector<std::pair<std::string_view, Json>> out;
  const JsonNode& n = tree_->nodes[node_];
  out.reserve(n.count);
  for (uint32_t i = node_ + 1; i < n.next; i = tree_->nodes[i].next) {
    const JsonNode& m = tree_->nodes[i];
    out.emplace_back(std::string_view(tree_->pool).substr(m.key, m.key_size), Json(tree_, i));
  }
  return out;
}
Json Json::Find(std::string_view key) const {
  Want(JsonKind::Object);
  const JsonNode& n = tree_->nodes[node_];
  for (uint32_t i = node_ + 1; i < n.next; i = tree_->nodes[i].next) {
    const JsonNode& m = tree_->nodes[i];
    if (std::string_view(tree_->pool).substr(m.key, m.key_size) == key) return Json(tree_, i);
  }
  return {};
}
Place Json::place() const { return tree_->At(tree_->nodes[node_].begin); }
Place Json::key_place() const { return tree_->At(tree_->nodes[node_].key_begin); }
std::string_view Json::source() const {
  const JsonNode& n = tree_->nodes[node_];
  return std::string_view(tree_->text).substr(n.begin, n.end - n.begin);
}

// Open containers point into the tree: each is its parent's last element, so nothing moves while it is open.
struct JsonOutput {
  nlohmann::ordered_json root;
  std::vector<nlohmann::ordered_json*> open;
  std::optional<std::string> key;

  nlohmann::ordered_json& Add(nlohmann::ordered_json value) {
    if (open.empty()) return root = std::move(value);
    if (!open.back()->is_object()) return open.back()->emplace_back(std::move(value));
    LLMC_CHECK(key.has_value(), "JsonWriter: a member without a key");
    nlohmann::ordered_json& member = (*open.back())[*key];
    key.reset();
    return member = std::move(value);
  }
};

namespace {

// What isn't UTF-8 (a name in a damaged file) is replaced.
std::string Dump(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

JsonWriter::JsonWriter() : out_(std::make_shared<JsonOutput>()) {}

JsonWriter& JsonWriter::BeginObject() {
  out_->open.push_back(&out_->Add(nlohmann::ordered_json::object()));
  return *this;
}
JsonWriter& JsonWriter::BeginArray() {
  out_->open.push_back(&out_->Add(nlohmann::ordered_json::array()));
  return *this;
}
JsonWriter& JsonWriter::End() {
  LLMC_CHECK(!out_->open.empty(), "JsonWriter: nothing to end");
  out_->open.pop_back();
  return *this;
}
JsonWriter& JsonWriter::Key(std::string_view key) {
  out_->key = key;
  return *this;
}
JsonWriter& JsonWriter::Null() {
  out_->Add(nullptr);
  return *this;
}
JsonWriter& JsonWriter::Bool(bool v) {
  out_->Add(v);
  return *this;
}
JsonWriter& JsonWriter::Int(int64_t v) {
  out_->Add(v);
  return *this;
}
JsonWriter& JsonWriter::Double(double v) {
  out_->Add(v);
  return *this;
}
JsonWriter& JsonWriter::String(std::string_view v) {
  out_->Add(v);
  return *this;
}
std::string JsonWriter::Finish() {
  LLMC_CHECK(out_->open.empty(), "JsonWriter: an object or array is still open");
  return Dump(out_->root, 2) + '\n';
}

std::string JsonQuote(std::string_view text) { return Dump(text, -1); }

}  // namespace llmc
