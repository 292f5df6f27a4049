// All weights that a graph can read, as the parts of its blocks list them; which of them a description has follows from
// its choices.
#include "frontend/weight_list.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/wiring.h"

namespace llmc {
namespace {

// Rows in front of the layers: the embedding, then what positions share.
std::vector<WeightRow> RowsInFront(const Description& d) {
  WeightRows rows;
  const SizeRule d_model{d.model.d_model, "d_model"};
  rows.Matrix(WeightPart::Embedding, "embed", {d.model.vocab, "vocab"}, d_model);
  if (d.ends.learned_positions) {
    rows.Matrix(WeightPart::Embedding, "pos_embed",
                {d.model.max_context + d.ends.position_offset, "max_context + ends.position_offset"}, d_model);
  }
  rows.Matrix(WeightPart::Embedding, "type_embed", {d.ends.token_types, "ends.token_types"}, d_model,
              d.ends.token_types > 0);
  NormSpec norm;
  if (!d.layers.empty()) norm = d.BlockOf(0).norm;
  rows.Norm(norm, "embed_norm", d_model, d.ends.embed_norm);
  const bool own = d.model.per_layer > 0;
  const SizeRule per_layer{d.model.per_layer, "per_layer"};
  rows.Stack(WeightPart::Embedding, "layer_embed",
             {d.model.per_layer_vocab * d.model.n_layers, "per_layer_vocab * n_layers"}, per_layer, own);
  rows.Matrix(WeightPart::Embedding, "layer_proj", {d.model.per_layer * d.model.n_layers, "per_layer * n_layers"},
              d_model, own);
  rows.Gain(WeightPart::Norm, "layer_proj_norm", per_layer, own);
  std::set<std::string> seen;
  std::vector<WeightRow> out = rows.all();
  for (int block : d.layers) {
    WeightRows shared;
    d.blocks[static_cast<size_t>(block)].second.position->AddModelWeights(shared);
    for (const WeightRow& row : shared.all()) {
      if (row.present && seen.insert(row.base).second) out.push_back(row);
    }
  }
  return out;
}

std::vector<WeightRow> RowsBehind(const Description& d) {
  WeightRows rows;
  NormSpec norm;
  if (!d.layers.empty()) norm = d.BlockOf(d.model.n_layers - 1).norm;
  const bool logits = d.ends.output == ModelOutput::Logits;
  rows.Norm(norm, "final_norm", {d.model.d_model, "d_model"}, d.ends.final_norm);
  rows.Matrix(WeightPart::Head, "head", {d.model.vocab, "vocab"}, {d.model.d_model, "d_model"}, logits && !d.ends.tied);
  rows.Bias(WeightPart::Head, "head_bias", {d.model.vocab, "vocab"}, logits && d.ends.head_bias);
  return rows.all();
}

std::vector<WeightRow> RowsOfLayer(const Description& d, const Block& block) {
  WeightRows rows;
  AddLayerWeights(block, d.model, rows);
  return rows.all();
}

std::string Key(const WeightRow& row, bool in_layer) {
  return in_layer ? fmt::format("b{{i}}.{}", row.base) : row.base;
}

std::string FillIn(std::string pattern, int64_t layer) {
  constexpr std::string_view kMark = "{i}";
  std::string number = std::to_string(layer);
  for (size_t at = pattern.find(kMark); at != std::string::npos; at = pattern.find(kMark, at + number.size()))
    pattern.replace(at, kMark.size(), number);
  return pattern;
}

// The numbers that the description gives for a vector; for one that each layer has, those of all layers one after
// another.
void TakeValues(const Description& d, const WeightRow& row, int layer, WeightUse& use) {
  std::vector<double>& values = use.source.values;
  if (values.empty()) return;
  const size_t times = layer < 0 ? 1 : static_cast<size_t>(d.model.n_layers);
  const auto n = static_cast<size_t>(row.dims[0].value);
  if (row.dims.size() != 1 || values.size() != n * times) {
    Fail(DiagKind::BadValue, {"", "tensors"},
         fmt::format("{} values for {} = {} {}{}", values.size(), ToText(use.name), use.rule, n,
                     layer < 0 ? "" : fmt::format(" of {} layers", times)));
  }
  if (layer < 0) return;
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(n) * layer;
  values = std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(n));
}

WeightUse UseOf(const Description& d, const WeightRow& row, int layer) {
  WeightUse use;
  use.name = Name(layer, row.base);
  use.kind = row.kind;
  use.part = row.part;
  use.flat = row.flat;
  use.as_stored = row.as_stored;
  std::vector<std::string_view> texts;
  for (const SizeRule& size : row.dims) {
    use.dims.push_back(size.value);
    texts.push_back(size.text);
  }
  use.rule = fmt::format("[{}]", fmt::join(texts, ", "));
  auto it = d.tensors.find(Key(row, layer >= 0));
  if (it == d.tensors.end()) {
    use.source.from = ToText(use.name);
  } else {
    use.source = it->second;
    use.source.from = FillIn(use.source.from, layer);
    for (std::string& other : use.source.others) other = FillIn(other, layer);
    TakeValues(d, row, layer, use);
  }
  return use;
}

// 0: a name is no size, or the product is beyond all sizes.
int64_t GroupsOf(const Description& d, const Block& block, const TensorRule& rule) {
  if (rule.groups.empty()) return rule.group_count;
  constexpr std::string_view kTimes = " * ";
  int64_t product = 1;
  for (std::string_view rest = rule.groups; !rest.empty();) {
    const size_t end = std::min(rest.find(kTimes), rest.size());
    const auto v = GetField(d, block, rest.substr(0, end));
    rest.remove_prefix(std::min(end + kTimes.size(), rest.size()));
    if (!v || v->kind != FieldValue::Kind::Int || __builtin_mul_overflow(product, v->integer, &product)) return 0;
  }
  return product;
}

// What is wrong with a fused tensor's rule; "": nothing.
std::string FaultOf(const Description& d, const Block& block, const WeightRow& row, const TensorRule& rule,
                    const std::vector<WeightRow>& rows) {
  int64_t groups = GroupsOf(d, block, rule);
  if (groups < 1 && rule.groups.empty()) return fmt::format("\"groups\": {} is no number of groups", groups);
  if (groups < 1) return fmt::format("\"groups\": there is no size {}", rule.groups);
  bool mine = false;
  for (const std::string& base : rule.parts) {
    auto part = std::find_if(rows.begin(), rows.end(), [&](const WeightRow& r) { return r.base == base; });
    if (part == rows.end() || !part->present) return fmt::format("\"parts\": there is no weight {}", JsonQuote(base));
    mine = mine || base == row.base;
    if (part->kind != row.kind || part->dims.size() != row.dims.size() ||
        (row.dims.size() > 1 && part->dims.back().value != row.dims.back().value))
      return fmt::format("\"parts\": {} and {} don't go together", row.base, base);
    if (part->dims[0].value % groups != 0)
      return fmt::format("\"groups\": the {} rows of {} are no {} equal groups", part->dims[0].value, base, groups);
  }
  return mine ? "" : fmt::format("\"parts\" lacks {} itself", row.base);
}

// Adds one weight; the whole tensor in front of the first part that is cut from it.
void AddUse(const Description& d, const Block& block, const WeightRow& row, int layer,
            const std::vector<WeightRow>& rows, std::vector<WeightUse>& uses) {
  WeightUse use = UseOf(d, row, layer);
  const TensorRule& rule = use.source;
  if (rule.parts.empty()) {
    uses.push_back(std::move(use));
    return;
  }
  LLMC_CHECK(FaultOf(d, block, row, rule, rows).empty(), "the rules of tensors are checked");
  int64_t groups = GroupsOf(d, block, rule);
  RowCut cut{.whole = Name(layer, fmt::format("{}", fmt::join(rule.parts, "_"))), .times = groups};
  std::vector<std::string> texts;
  for (const std::string& base : rule.parts) {
    auto part = std::find_if(rows.begin(), rows.end(), [&](const WeightRow& r) { return r.base == base; });
    if (base == row.base) {
      cut.begin = cut.every;
      cut.count = part->dims[0].value / groups;
    }
    cut.every += part->dims[0].value / groups;
    texts.push_back(part->dims[0].text);
  }
  bool first = std::none_of(uses.rbegin(), uses.rend(), [&](const WeightUse& u) { return u.name == cut.whole; });
  if (first) {
    WeightUse whole = use;
    whole.name = cut.whole;
    whole.fused = true;
    whole.source.add = 0;
    whole.dims[0] = cut.every * groups;
    whole.rule = fmt::format("[{}", fmt::join(texts, " + "));
    for (size_t i = 1; i < row.dims.size(); ++i) whole.rule += ", " + row.dims[i].text;
    whole.rule += "]";
    uses.push_back(std::move(whole));
  }
  use.cut = std::move(cut);
  uses.push_back(std::move(use));
}

// Every name that an alternative of any part can give a weight, as rules of tensors spell it.
std::set<std::string> AllKeys() {
  std::set<std::string> keys;
  auto add = [&](const std::vector<WeightRow>& rows, bool in_layer) {
    for (const WeightRow& row : rows) keys.insert(Key(row, in_layer));
  };
  Description d;
  d.blocks.emplace_back();
  Block& block = d.blocks[0].second;
  d.ends.learned_positions = true;
  add(RowsInFront(d), false);
  add(RowsBehind(d), false);
  for (std::string_view mixer : Slot<Mixer>::Kinds()) {
    block.mixer.Select(mixer);
    add(RowsOfLayer(d, block), true);
  }
  for (std::string_view position : Slot<Position>::Kinds()) {
    block.position.Select(position);
    WeightRows rows;
    block.position->AddModelWeights(rows);
    add(rows.all(), false);
  }
  for (std::string_view ffn : Slot<Ffn>::Kinds()) {
    block.ffn.Select(ffn);
    add(RowsOfLayer(d, block), true);
  }
  return keys;
}

}  // namespace

std::vector<WeightUse> WeightsOf(const Description& d) {
  std::vector<WeightUse> uses;
  for (const WeightRow& row : RowsInFront(d)) {
    if (row.present) uses.push_back(UseOf(d, row, -1));
  }
  for (int64_t i = 0; i < d.model.n_layers; ++i) {
    const Block& block = d.BlockOf(i);
    std::vector<WeightRow> rows = RowsOfLayer(d, block);
    std::vector<WeightUse> layer;
    for (const WeightRow& row : rows) {
      if (row.present) AddUse(d, block, row, static_cast<int>(i), rows, layer);
    }
    std::move(layer.begin(), layer.end(), std::back_inserter(uses));
  }
  for (const WeightRow& row : RowsBehind(d)) {
    if (row.present) uses.push_back(UseOf(d, row, -1));
  }
  return uses;
}

WeightUse HeadOf(const Description& d) {
  const std::vector<WeightRow> rows = RowsBehind(d);
  return UseOf(d, *std::find_if(rows.begin(), rows.end(), [](const WeightRow& r) { return r.base == "head"; }), -1);
}

void CheckTensorNames(const Description& d, const std::string& file) {
  std::set<std::string> known = AllKeys();
  for (const auto& [name, rule] : d.tensors) {
    if (known.contains(name)) continue;
    std::string near = NearestName(name, {known.begin(), known.end()});
    Fail(DiagKind::UnknownKey, {file, "tensors"},
         fmt::format("no graph reads a weight {}{}", JsonQuote(name),
                     near.empty() ? "" : "; did you mean " + JsonQuote(near) + "?"));
  }
  for (const auto& [block_name, block] : d.blocks) {
    std::vector<WeightRow> rows = RowsOfLayer(d, block);
    for (const WeightRow& row : rows) {
      auto it = d.tensors.find(Key(row, true));
      if (it == d.tensors.end() || it->second.parts.empty() || !row.present) continue;
      std::string fault = FaultOf(d, block, row, it->second, rows);
      if (!fault.empty())
        Fail(DiagKind::BadValue, {file, "tensors"}, fmt::format("{}: {}", JsonQuote(it->first), fault));
    }
  }
}

void KeepUsedTensorRules(Description& d) {
  std::set<std::string> used = {"head"};
  for (const WeightUse& use : WeightsOf(d))
    used.insert(use.name.layer < 0 ? use.name.base : fmt::format("b{{i}}.{}", use.name.base));
  std::erase_if(d.tensors, [&](const auto& rule) { return !used.contains(rule.first); });
}

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  constexpr std::string_view kMark = "{i}";
  while (!pattern.empty()) {
    if (pattern == "*") return true;
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
