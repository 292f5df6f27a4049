// One table of all weights that a graph can read; which of them a description has follows from its choices.
#include "frontend/weight_list.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace llmc {
namespace {

// A size with its spelling in fields.
struct Size {
  int64_t value = 0;
  std::string_view text;
};
struct Sizes {
  Size vocab, d_model, rope_pairs, q_rows, kv_rows, d_head, d_ff;
  Sizes(const Description& d, const Block& b)
      : vocab{d.model.vocab, "vocab"},
        d_model{d.model.d_model, "d_model"},
        rope_pairs{b.position.rotary_dim / 2, "position.rotary_dim / 2"},
        q_rows{b.attention.n_heads * b.attention.d_head, "attention.n_heads * attention.d_head"},
        kv_rows{b.attention.n_kv_heads * b.attention.d_head, "attention.n_kv_heads * attention.d_head"},
        d_head{b.attention.d_head, "attention.d_head"},
        d_ff{b.ffn.d_ff, "ffn.d_ff"} {}
};

using SizeOf = Size Sizes::*;
constexpr SizeOf kNone = nullptr;

bool Always(const Block&) { return true; }
bool HasQkvBias(const Block& b) { return b.attention.bias != AttentionBias::None; }
bool HasOBias(const Block& b) { return b.attention.bias == AttentionBias::Qkvo; }
bool HasQkNorm(const Block& b) { return b.attention.qk_norm == QkNorm::PerHead; }
bool HasRopeDivisors(const Block& b) { return b.position.scaling == RopeScaling::Divisors; }
bool HasFfnBias(const Block& b) { return b.ffn.bias; }

struct Row {
  std::string_view base;
  WeightKind kind;
  WeightPart part;
  SizeOf rows, columns;
  bool (*present)(const Block&);
};

constexpr std::array kLayerRows = {
    Row{"attn_norm", WeightKind::Gain, WeightPart::Norm, &Sizes::d_model, kNone, Always},
    Row{"wq", WeightKind::Matrix, WeightPart::Attention, &Sizes::q_rows, &Sizes::d_model, Always},
    Row{"bq", WeightKind::Bias, WeightPart::Attention, &Sizes::q_rows, kNone, HasQkvBias},
    Row{"wk", WeightKind::Matrix, WeightPart::Attention, &Sizes::kv_rows, &Sizes::d_model, Always},
    Row{"bk", WeightKind::Bias, WeightPart::Attention, &Sizes::kv_rows, kNone, HasQkvBias},
    Row{"wv", WeightKind::Matrix, WeightPart::Attention, &Sizes::kv_rows, &Sizes::d_model, Always},
    Row{"bv", WeightKind::Bias, WeightPart::Attention, &Sizes::kv_rows, kNone, HasQkvBias},
    Row{"q_norm", WeightKind::Gain, WeightPart::Norm, &Sizes::d_head, kNone, HasQkNorm},
    Row{"k_norm", WeightKind::Gain, WeightPart::Norm, &Sizes::d_head, kNone, HasQkNorm},
    Row{"wo", WeightKind::Matrix, WeightPart::Attention, &Sizes::d_model, &Sizes::q_rows, Always},
    Row{"bo", WeightKind::Bias, WeightPart::Attention, &Sizes::d_model, kNone, HasOBias},
    Row{"ffn_norm", WeightKind::Gain, WeightPart::Norm, &Sizes::d_model, kNone, Always},
    Row{"w_gate", WeightKind::Matrix, WeightPart::Ffn, &Sizes::d_ff, &Sizes::d_model, Always},
    Row{"b_gate", WeightKind::Bias, WeightPart::Ffn, &Sizes::d_ff, kNone, HasFfnBias},
    Row{"w_up", WeightKind::Matrix, WeightPart::Ffn, &Sizes::d_ff, &Sizes::d_model, Always},
    Row{"b_up", WeightKind::Bias, WeightPart::Ffn, &Sizes::d_ff, kNone, HasFfnBias},
    Row{"w_down", WeightKind::Matrix, WeightPart::Ffn, &Sizes::d_model, &Sizes::d_ff, Always},
    Row{"b_down", WeightKind::Bias, WeightPart::Ffn, &Sizes::d_model, kNone, HasFfnBias},
};
constexpr Row kEmbed{"embed", WeightKind::Matrix, WeightPart::Embedding, &Sizes::vocab, &Sizes::d_model, Always};
constexpr Row kRopeDivisors{"rope_divisors", WeightKind::Gain, WeightPart::Position, &Sizes::rope_pairs,
                            kNone,           HasRopeDivisors};
constexpr Row kFinalNorm{"final_norm", WeightKind::Gain, WeightPart::Norm, &Sizes::d_model, kNone, Always};
constexpr Row kHead{"head", WeightKind::Matrix, WeightPart::Head, &Sizes::vocab, &Sizes::d_model, Always};

bool AnyBlock(const Description& d, const Row& row) {
  return std::any_of(d.blocks.begin(), d.blocks.end(), [&](const auto& block) { return row.present(block.second); });
}

std::string Key(const Row& row, bool in_layer) {
  return in_layer ? fmt::format("b{{i}}.{}", row.base) : std::string(row.base);
}

std::string FillIn(std::string pattern, int64_t layer) {
  constexpr std::string_view kMark = "{i}";
  std::string number = std::to_string(layer);
  for (size_t at = pattern.find(kMark); at != std::string::npos; at = pattern.find(kMark, at + number.size()))
    pattern.replace(at, kMark.size(), number);
  return pattern;
}

WeightUse Use(const Description& d, const Row& row, int layer) {
  Sizes sizes(d, d.BlockOf(layer < 0 ? d.model.n_layers - 1 : layer));
  WeightUse use;
  use.name = Name(layer, std::string(row.base));
  use.kind = row.kind;
  use.part = row.part;
  const Size& rows = sizes.*row.rows;
  use.dims.push_back(rows.value);
  use.rule = fmt::format("[{}", rows.text);
  if (row.columns != kNone) {
    const Size& columns = sizes.*row.columns;
    use.dims.push_back(columns.value);
    use.rule += fmt::format(", {}", columns.text);
  }
  use.rule += "]";
  auto it = d.tensors.find(Key(row, layer >= 0));
  if (it == d.tensors.end()) {
    use.source.from = ToText(use.name);
  } else {
    use.source = it->second;
    use.source.from = FillIn(use.source.from, layer);
  }
  return use;
}

}  // namespace

std::vector<WeightUse> WeightsOf(const Description& d) {
  std::vector<WeightUse> uses = {Use(d, kEmbed, -1)};
  if (AnyBlock(d, kRopeDivisors)) uses.push_back(Use(d, kRopeDivisors, -1));
  for (int64_t i = 0; i < d.model.n_layers; ++i) {
    for (const Row& row : kLayerRows) {
      if (row.present(d.BlockOf(i))) uses.push_back(Use(d, row, static_cast<int>(i)));
    }
  }
  uses.push_back(Use(d, kFinalNorm, -1));
  if (!d.ends.tied) uses.push_back(HeadOf(d));
  return uses;
}

WeightUse HeadOf(const Description& d) { return Use(d, kHead, -1); }

void CheckTensorNames(const Description& d, const std::string& file) {
  std::vector<std::string> known = {Key(kEmbed, false), Key(kRopeDivisors, false), Key(kFinalNorm, false),
                                    Key(kHead, false)};
  for (const Row& row : kLayerRows) known.push_back(Key(row, true));
  for (const auto& [name, rule] : d.tensors) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string near = NearestName(name, {known.begin(), known.end()});
    Fail(DiagKind::UnknownKey, {file, "tensors"},
         fmt::format("no graph reads a weight {}{}", JsonQuote(name),
                     near.empty() ? "" : "; did you mean " + JsonQuote(near) + "?"));
  }
}

void KeepUsedTensorRules(Description& d) {
  for (const Row& row : kLayerRows) {
    if (!AnyBlock(d, row)) d.tensors.erase(Key(row, true));
  }
  if (!AnyBlock(d, kRopeDivisors)) d.tensors.erase(Key(kRopeDivisors, false));
}

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  constexpr std::string_view kMark = "{i}";
  while (!pattern.empty()) {
    if (pattern.starts_with(kMark)) {
      size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      if (digits == 0) return false;
      pattern.remove_prefix(kMark.size());
      name.remove_prefix(digits);
    } else if (!name.empty() && name[0] == pattern[0]) {
      pattern.remove_prefix(1);
      name.remove_prefix(1);
    } else {
      return false;
    }
  }
  return name.empty();
}

}  // namespace llmc
