// The groups of a description and the rules they keep; those of a part stand in the part's own file.
#include "frontend/description.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/weight_list.h"

namespace llmc {
namespace {

constexpr int64_t kMaxLayers = 2048;

template <class T>
void SelectKind(Slot<T>& slot, std::string_view field, const FieldValue& value) {
  if (value.kind == FieldValue::Kind::Text && slot.Select(value.text)) return;
  Fail(DiagKind::Unsupported, value.place,
       fmt::format("{} = {} is not supported; supported: {}", field, value.shown, fmt::join(Slot<T>::Kinds(), ", ")));
}

// The fields of the group that stands in front of `field`'s dot; an empty list: there is none.
Fields FieldsOf(Description& d, Block& block, std::string_view group) {
  if (group.empty()) return d.model.Fields();
  if (group == "ends") return d.ends.Fields();
  for (FieldGroup& g : GroupsOf(block)) {
    if (g.key == group) return g.fields;
  }
  return {};
}

std::pair<std::string_view, std::string_view> SplitName(std::string_view field) {
  size_t dot = field.find('.');
  if (dot == std::string_view::npos) return {"", field};
  return {field.substr(0, dot), field.substr(dot + 1)};
}

// A block's mixers, of which it may have none, or two whose weights have different names.
void CompleteMixers(Block& block, const ModelSpec& model, const Checker& check) {
  block.mixer->Complete(block, model, check);
  const bool ffn_alone = !block.mixer->IsThere();
  const bool beside = block.beside->IsThere();
  check.Require(block.wiring.order == WiringOrder::Sequential || (!ffn_alone && !beside && block.ffn->IsThere()),
                "no_mixer, beside and ffn.kind none go with wiring.order sequential");
  check.Require(!ffn_alone || block.ffn->IsThere(), "a block has a mixer or a feed-forward part");
  if (!beside) return;
  check.Require(!ffn_alone, "beside goes with a mixer");
  block.beside->Complete(block, model, check);
  check.Require(!block.beside->SharesCache(), "the mixer of beside has a cache of its own");
  WeightRows one, other;
  block.mixer->AddWeights(block, model, one);
  block.beside->AddWeights(block, model, other);
  for (const WeightRow& a : one.all()) {
    for (const WeightRow& b : other.all())
      check.Require(a.base != b.base, fmt::format("{} and {} beside it both have a weight {}", block.mixer->kind(),
                                                  block.beside->kind(), a.base));
  }
}

}  // namespace

Fields ModelSpec::Fields() {
  return {{"name", name},
          {"vocab", vocab},
          {"d_model", d_model},
          {"n_layers", n_layers},
          {"max_context", max_context},
          {"dtype", dtype},
          {"per_layer", per_layer},
          {"per_layer_vocab", per_layer_vocab}};
}
Fields NormSpec::Fields() { return {{"kind", kind}, {"eps", eps}, {"gain", gain}, {"bias", bias}}; }
Fields WiringSpec::Fields() {
  return {{"order", order},           {"mixer_norm", mixer_norm}, {"residual", residual},
          {"mixer_in", mixer_in},     {"mixer_out", mixer_out},   {"beside_in", beside_in},
          {"beside_out", beside_out}, {"scalar", scalar},         {"per_layer_act", per_layer_act}};
}
Fields EndsSpec::Fields() {
  return {{"output", output},
          {"final_norm", final_norm},
          {"embed_norm", embed_norm},
          {"token_types", token_types},
          {"tied", tied},
          {"head_bias", head_bias},
          {"learned_positions", learned_positions},
          {"position_offset", position_offset},
          {"embed_scale", embed_scale},
          {"logit_scale", logit_scale},
          {"logit_cap", logit_cap}};
}

std::vector<FieldGroup> GroupsOf(Block& block) {
  std::vector<FieldGroup> out = {{"norm", "", block.norm.Fields()},
                                 {std::string(block.mixer->kind()), "", block.mixer->Fields()},
                                 {"position", std::string(block.position->kind()), block.position->Fields()},
                                 {"ffn", std::string(block.ffn->kind()), block.ffn->Fields()},
                                 {"wiring", "", block.wiring.Fields()}};
  if (block.beside->IsThere())
    out.insert(out.begin() + 2, {"beside", std::string(block.beside->kind()), block.beside->Fields()});
  return out;
}

bool operator==(const Block& a, const Block& b) {
  Block x = a;
  Block y = b;
  std::vector<FieldGroup> left = GroupsOf(x);
  std::vector<FieldGroup> right = GroupsOf(y);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const FieldGroup& g, const FieldGroup& h) {
    return g.key == h.key && g.kind == h.kind && SameFields(g.fields, h.fields);
  });
}

void SetField(Description& d, Block& block, std::string_view field, const FieldValue& value) {
  auto [group, name] = SplitName(field);
  block.mixer.Select(group);  // another group than a mixer's leaves it as it is
  if (field == "mixer.kind") return SelectKind(block.mixer, field, value);
  if (field == "beside.kind") return SelectKind(block.beside, field, value);
  if (field == "position.kind") return SelectKind(block.position, field, value);
  if (field == "ffn.kind") return SelectKind(block.ffn, field, value);
  Fields fields = FieldsOf(d, block, group);
  const Field* f = FindField(fields, name);
  LLMC_CHECK(f != nullptr, fmt::format("there is no field {}", field));
  SetField(*f, field, value);
}

std::optional<FieldValue> GetField(const Description& d, const Block& block, std::string_view field) {
  auto [group, name] = SplitName(field);
  Description head;  // fields are lists of places in what they belong to
  head.model = d.model;
  head.ends = d.ends;
  Block copy = block;
  Fields fields = FieldsOf(head, copy, group);
  const Field* f = FindField(fields, name);
  if (f == nullptr) return std::nullopt;
  return GetField(*f);
}

int64_t CacheLayerOf(const Description& d, int64_t layer) {
  const Mixer& mixer = *d.BlockOf(layer).mixer;
  if (!mixer.SharesCache()) return -1;
  while (layer-- > 0) {
    if (mixer.ReadsCacheOf(*d.BlockOf(layer).mixer)) return layer;
  }
  return -1;
}

void Complete(Description& d, const std::string& file) {
  Checker check(file);
  check.Size("vocab", d.model.vocab, Checker::kMaxCount);
  check.Size("d_model", d.model.d_model, Checker::kMaxWidth);
  check.Size("n_layers", d.model.n_layers, kMaxLayers);
  check.Size("max_context", d.model.max_context, Checker::kMaxCount);
  const std::string& name = d.model.name;
  check.Require(
      !name.empty() && name.size() <= 64 &&
          std::all_of(name.begin(), name.end(), [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; }) &&
          std::isdigit(static_cast<unsigned char>(name[0])) == 0,
      fmt::format("name is {}, must be 1 to 64 letters, digits and '_', not starting with a digit", JsonQuote(name)));
  check.Require(d.ends.position_offset >= 0 && d.ends.position_offset <= Checker::kMaxCount - d.model.max_context,
                fmt::format("ends.position_offset is {}, must be at least 0 and, with max_context, at most {}",
                            d.ends.position_offset, Checker::kMaxCount));
  check.Require(d.ends.token_types >= 0 && d.ends.token_types <= Checker::kMaxWidth,
                fmt::format("ends.token_types is {}, must be 0 (none) to {}", d.ends.token_types, Checker::kMaxWidth));
  check.Require(d.ends.token_types == 0 || d.ends.output == ModelOutput::Hidden,
                "ends.token_types goes with ends.output hidden");
  check.Require(d.model.per_layer >= 0 && d.model.per_layer <= Checker::kMaxWidth,
                fmt::format("per_layer is {}, must be 0 (none) to {}", d.model.per_layer, Checker::kMaxWidth));
  if (d.model.per_layer > 0) {
    check.Size("per_layer_vocab", d.model.per_layer_vocab, Checker::kMaxCount / d.model.n_layers);
    check.Require(d.model.per_layer <= Checker::kMaxWidth / d.model.n_layers,
                  fmt::format("per_layer is {}, must be at most {} for {} layers", d.model.per_layer,
                              Checker::kMaxWidth / d.model.n_layers, d.model.n_layers));
  } else {
    d.model.per_layer_vocab = 0;
  }
  check.Nonzero("ends.embed_scale", d.ends.embed_scale);
  check.Nonzero("ends.logit_scale", d.ends.logit_scale);
  check.Require(d.ends.logit_cap >= 0 && d.ends.logit_cap <= 1e30,
                fmt::format("ends.logit_cap is {}, must be 0 (none) or positive", d.ends.logit_cap));
  LLMC_CHECK(!d.blocks.empty() && static_cast<int64_t>(d.layers.size()) == d.model.n_layers,
             "layers and blocks are set");
  for (auto& [block_name, block] : d.blocks) {
    check.Enter(d.blocks.size() == 1 ? "" : fmt::format("block {}: ", block_name));
    check.Require(std::isfinite(block.norm.eps) && block.norm.eps >= 0 && block.norm.eps < 1,
                  fmt::format("norm.eps is {}, must be at least 0 and below 1", block.norm.eps));
    check.Require(block.norm.kind == NormKind::Layer || !block.norm.bias, "norm.bias goes with norm.kind layer");
    check.Require(block.norm.gain || !block.norm.bias, "norm.bias goes with a gain");
    for (const Field& f : block.wiring.Fields())
      if (const auto* factor = std::get_if<double*>(&f.at)) check.Nonzero(fmt::format("wiring.{}", f.name), **factor);
    check.Require(block.wiring.mixer_norm || block.wiring.order == WiringOrder::Sequential,
                  "wiring.mixer_norm false goes with wiring.order sequential");
    check.Require(!block.mixer->NeedsWholeSequence() || d.ends.output == ModelOutput::Hidden,
                  "attention.mask all goes with ends.output hidden");
    CompleteMixers(block, d.model, check);
    block.ffn->Complete(d.model, check);
  }
  check.Enter("");
  for (int64_t i = 0; i < d.model.n_layers; ++i)
    check.Require(!d.BlockOf(i).mixer->SharesCache() || CacheLayerOf(d, i) >= 0,
                  fmt::format("attention.shares: no layer in front of layer {} has a cache such as it reads", i));
}

}  // namespace llmc
