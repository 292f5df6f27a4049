// The one file of the runtime with nlohmann's reader (a header: the loader links nothing for it). Its events become
// values.
#include "runtime/template_json.h"

#include <nlohmann/json.hpp>

namespace llmc {
namespace {

using Json = nlohmann::json;
constexpr size_t kMostDepth = 200;

class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(TemplateRun& run, std::string_view text, std::string_view where) : run_(run), text_(text), where_(where) {}

  bool null() override { return Add(TemplateValue::None()); }
  bool boolean(bool value) override { return Add(TemplateValue::Bool(value)); }
  bool number_integer(number_integer_t value) override { return Add(TemplateValue::Int(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    BigInt big(static_cast<int64_t>(value >> 1));
    return Add(run_.Big(big + big + BigInt(static_cast<int64_t>(value & 1))));
  }
  bool number_float(number_float_t value, const string_t& source) override {
    if (source.find_first_of(".eE") != std::string::npos) return Add(TemplateValue::Float(value));
    const bool negative = source.starts_with('-');
    BigInt big;
    if (source.size() > 4300 || !BigInt::Parse(std::string_view(source).substr(negative ? 1 : 0), 10, big))
      return Fault("an integer of more than 4300 digits");
    return Add(run_.Big(negative ? -big : big));
  }
  bool string(string_t& value) override { return Add(run_.Str(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return Open(TemplateValue::Of(ValueKind::Dict, run_.NewDict())); }
  bool key(string_t& value) override {
    keys_.back() = run_.Str(value);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t /*size*/) override { return Open(run_.List({})); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& error) override {
    size_t line = 1, column = 1;
    for (size_t i = 0; i + 1 < position && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n' ? 1 : 0;
    }
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    std::string message = error.what();
    const size_t colon = message.find(": ");
    if (colon != std::string::npos) message.erase(0, colon + 2);
    throw TemplateError(std::string(where_) + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " +
                        message);
  }

  TemplateValue result;

 private:
  bool Fault(const std::string& message) const { throw TemplateError(std::string(where_) + ": " + message); }
  bool Add(const TemplateValue& value) {
    if (open_.empty()) {
      result = value;
    } else if (open_.back().Is(ValueKind::Dict)) {
      open_.back().As<DictObject>().Set(keys_.back(), value);
      run_.Charge(sizeof(TemplateValue) * 3);
    } else {
      open_.back().items().push_back(value);
      run_.Charge(sizeof(TemplateValue));
    }
    return true;
  }
  bool Open(const TemplateValue& value) {
    Add(value);
    if (open_.size() >= kMostDepth) return Fault("nested over " + std::to_string(kMostDepth) + " levels deep");
    open_.push_back(value);
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  TemplateRun& run_;
  std::string_view text_, where_;
  std::vector<TemplateValue> open_, keys_;
};

}  // namespace

TemplateValue ParseJsonValue(TemplateRun& run, std::string_view text, std::string_view where) {
  Handler handler(run, text, where);
  Json::sax_parse(text.begin(), text.end(), &handler);
  return handler.result;
}

bool IsJson(std::string_view text) { return Json::accept(text.begin(), text.end()); }

}  // namespace llmc
