// Fields of a description: setting them from values of any source, filling in what is derived, and the rules they keep
// among each other.
#include "frontend/description.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/math_f64.h"

namespace llmc {
namespace {

// Bounds that keep every product of sizes within int64 and a printed module within the text's limits.
constexpr int64_t kMaxLayers = 2048;
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();

std::string_view KindText(FieldValue::Kind kind) {
  static constexpr std::array<std::string_view, 4> kText = {"a boolean", "an integer", "a number", "a string"};
  return kText[static_cast<size_t>(kind)];
}

[[noreturn]] void WrongType(std::string_view field, const FieldValue& v, std::string_view wanted) {
  Fail(DiagKind::BadValue, v.place, fmt::format("{} must be {}, is {} ({})", field, wanted, v.shown, KindText(v.kind)));
}

void Assign(std::string_view field, const FieldValue& v, int64_t& out) {
  if (v.kind != FieldValue::Kind::Int) WrongType(field, v, "an integer");
  out = v.integer;
}
void Assign(std::string_view field, const FieldValue& v, double& out) {
  if (v.kind == FieldValue::Kind::Int) {
    out = static_cast<double>(v.integer);
  } else if (v.kind == FieldValue::Kind::Float) {
    out = v.number;
  } else {
    WrongType(field, v, "a number");
  }
}
void Assign(std::string_view field, const FieldValue& v, bool& out) {
  if (v.kind != FieldValue::Kind::Bool) WrongType(field, v, "true or false");
  out = v.boolean;
}
void Assign(std::string_view field, const FieldValue& v, std::string& out) {
  if (v.kind != FieldValue::Kind::Text) WrongType(field, v, "a string");
  out = v.text;
}
template <class T>
  requires std::is_enum_v<T>
void Assign(std::string_view field, const FieldValue& v, T& out) {
  const auto& texts = ChoiceTexts<T>::kTexts;
  if (v.kind != FieldValue::Kind::Text) WrongType(field, v, "a string");
  auto it = std::find(texts.begin(), texts.end(), v.text);
  if (it == texts.end()) {
    Fail(DiagKind::Unsupported, v.place,
         fmt::format("{} = {} is not supported; supported: {}", field, v.shown, fmt::join(texts, ", ")));
  }
  out = static_cast<T>(it - texts.begin());
}

template <class G>
bool SetIn(G& group, std::string_view name, std::string_view field, const FieldValue& value) {
  bool found = false;
  VisitFields(group, [&](std::string_view n, auto& member, std::string_view) {
    if (n == name) {
      Assign(field, value, member);
      found = true;
    }
  });
  return found;
}

// The checks of Complete(), with one way to report.
struct Checker {
  const std::string& file;
  std::string at;  // "block full: "

  template <class... A>
  void Require(bool ok, fmt::format_string<A...> format, A&&... args) const {
    if (!ok) Fail(DiagKind::BadValue, {file, ""}, at + fmt::format(format, std::forward<A>(args)...));
  }
  void Size(std::string_view name, int64_t v, int64_t max) const {
    if (v == 0) Fail(DiagKind::MissingKey, {file, ""}, fmt::format("{}{} is missing", at, name));
    Require(v >= 1 && v <= max, "{} is {}, must be 1 to {}", name, v, max);
  }
  void Positive(std::string_view name, double v) const {
    Require(std::isfinite(v) && v > 0 && v <= 1e30, "{} is {}, must be positive", name, v);
  }

  void Attention(AttentionSpec& a, int64_t d_model) const {
    Size("attention.n_heads", a.n_heads, kMaxWidth);
    if (a.n_kv_heads == 0) a.n_kv_heads = a.n_heads;
    Size("attention.n_kv_heads", a.n_kv_heads, a.n_heads);
    Require(a.n_heads % a.n_kv_heads == 0, "attention.n_heads {} is not a multiple of attention.n_kv_heads {}",
            a.n_heads, a.n_kv_heads);
    if (a.d_head == 0) {
      Require(d_model % a.n_heads == 0,
              "attention.d_head is not given, and d_model {} is not a multiple of attention.n_heads {}", d_model,
              a.n_heads);
      a.d_head = d_model / a.n_heads;
    }
    Size("attention.d_head", a.d_head, 4096);
    Require(a.n_heads <= kMaxWidth / a.d_head, "attention.n_heads {} * d_head {} is above {}", a.n_heads, a.d_head,
            kMaxWidth);
    Require(a.window >= 0 && a.window <= kMaxCount, "attention.window is {}, must be 0 (none) to {}", a.window,
            kMaxCount);
  }

  void Position(PositionSpec& p, int64_t d_head, int64_t max_context) const {
    Positive("position.theta", p.theta);
    Require(p.theta >= 1, "position.theta is {}, must be at least 1", p.theta);
    if (p.rotary_dim == 0) p.rotary_dim = d_head;
    Require(p.rotary_dim >= 2 && p.rotary_dim <= d_head && p.rotary_dim % 2 == 0,
            "position.rotary_dim is {}, must be even and 2 to d_head {}", p.rotary_dim, d_head);
    Positive("position.factor", p.factor);
    if (p.scaling == RopeScaling::None || p.scaling == RopeScaling::Linear || p.scaling == RopeScaling::Divisors) {
      // Fields of other kinds have no effect; equal models get equal descriptions.
      double factor = p.scaling == RopeScaling::Linear ? p.factor : 1.0;
      p = {.kind = p.kind,
           .theta = p.theta,
           .rotary_dim = p.rotary_dim,
           .pairs = p.pairs,
           .scaling = p.scaling,
           .factor = factor,
           .attention_factor = 1.0};
      return;
    }
    if (p.original == 0) p.original = max_context;
    Size("position.original", p.original, kMaxCount);
    if (p.scaling == RopeScaling::Llama3) {
      Positive("position.low", p.low);
      Positive("position.high", p.high);
      Require(p.high > p.low, "position.high {} must be above position.low {}", p.high, p.low);
      p.attention_factor = 1.0;
      return;
    }
    Positive("position.beta_fast", p.beta_fast);
    Positive("position.beta_slow", p.beta_slow);
    Require(p.beta_fast > p.beta_slow, "position.beta_fast {} must be above position.beta_slow {}", p.beta_fast,
            p.beta_slow);
    Require(p.theta > 1, "position.theta is {}, yarn needs more than 1", p.theta);
    if (p.attention_factor == 0) p.attention_factor = p.factor <= 1 ? 1.0 : 0.1 * math::Ln(p.factor) + 1.0;
    Positive("position.attention_factor", p.attention_factor);
  }
};

}  // namespace

void SetField(Description& d, Block& block, std::string_view field, const FieldValue& value) {
  size_t dot = field.find('.');
  bool found = false;
  if (dot == std::string_view::npos) {
    found = SetIn(d.model, field, field, value);
  } else if (field.substr(0, dot) == "ends") {
    found = SetIn(d.ends, field.substr(dot + 1), field, value);
  } else {
    VisitGroups(block, [&](std::string_view key, auto& group) {
      if (key == field.substr(0, dot)) found = SetIn(group, field.substr(dot + 1), field, value);
    });
  }
  LLMC_CHECK(found, fmt::format("there is no field {}", field));
}

void Complete(Description& d, const std::string& file) {
  Checker check{file, ""};
  check.Size("vocab", d.model.vocab, kMaxCount);
  check.Size("d_model", d.model.d_model, kMaxWidth);
  check.Size("n_layers", d.model.n_layers, kMaxLayers);
  check.Size("max_context", d.model.max_context, kMaxCount);
  check.Require(!d.model.name.empty() && d.model.name.size() <= 64 &&
                    std::all_of(d.model.name.begin(), d.model.name.end(),
                                [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; }) &&
                    std::isdigit(static_cast<unsigned char>(d.model.name[0])) == 0,
                "name is {}, must be 1 to 64 letters, digits and '_', not starting with a digit",
                JsonQuote(d.model.name));
  LLMC_CHECK(!d.blocks.empty() && static_cast<int64_t>(d.layers.size()) == d.model.n_layers,
             "layers and blocks are set");
  for (auto& [name, block] : d.blocks) {
    check.at = d.blocks.size() == 1 ? "" : fmt::format("block {}: ", name);
    check.Require(std::isfinite(block.norm.eps) && block.norm.eps >= 0 && block.norm.eps < 1,
                  "norm.eps is {}, must be at least 0 and below 1", block.norm.eps);
    check.Attention(block.attention, d.model.d_model);
    check.Position(block.position, block.attention.d_head, d.model.max_context);
    check.Size("ffn.d_ff", block.ffn.d_ff, kMaxWidth);
  }
}

std::string NearestName(std::string_view name, const std::vector<std::string_view>& candidates) {
  name = name.substr(0, 64);
  std::string_view best;
  size_t best_distance = name.size() / 3 + 1;
  for (std::string_view candidate : candidates) {
    // Levenshtein's distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return std::string(best);
}

}  // namespace llmc
