// Weights by name: the checks when a model is opened, and rows of the mapped files afterwards.
#include "frontend/bind_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

namespace llmc {
namespace {

constexpr size_t kNamesInMessage = 8;

class FileWeights : public WeightSource {
 public:
  void Add(const Name& name, std::shared_ptr<const TensorSet> set, const TensorInfo& tensor) {
    tensors_[name] = {std::move(set), &tensor};
  }

  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    auto it = tensors_.find(weight.name);
    LLMC_CHECK(it != tensors_.end(), "no file has $" + ToText(weight.name));
    const TensorInfo& t = *it->second.tensor;
    int64_t rows = t.dims.size() < 2 ? 1 : t.dims[0];
    LLMC_CHECK(t.dtype == weight.type.dtype && begin >= 0 && begin <= end && end <= rows,
               "rows of $" + ToText(weight.name));
    auto row_bytes = static_cast<size_t>(RowBytes(t.dtype, t.dims.back()));
    std::memcpy(out, it->second.set->Data(t) + static_cast<size_t>(begin) * row_bytes,
                static_cast<size_t>(end - begin) * row_bytes);
  }

 private:
  struct Stored {
    std::shared_ptr<const TensorSet> set;
    const TensorInfo* tensor = nullptr;
  };
  std::map<Name, Stored> tensors_;
};

std::string KindText(WeightKind kind) {
  return kind == WeightKind::Matrix ? "matrix" : kind == WeightKind::Gain ? "gain" : "bias";
}

const TensorInfo& FindChecked(const TensorSet& set, const WeightUse& use) {
  const TensorInfo* t = set.Find(use.source.from);
  if (t == nullptr) {
    Fail(DiagKind::MissingTensor, {set.files.empty() ? "" : set.files[0]->path(), "tensor " + use.source.from},
         fmt::format("the tensor is missing; the description needs it as {} {} of {}", KindText(use.kind),
                     ToText(use.name), ShapeText(use.dims)));
  }
  if (t->dims != use.dims) {
    Fail(DiagKind::ShapeMismatch, set.PlaceOf(*t),
         fmt::format("{} must be {} = {}, is {}", ToText(use.name), use.rule, ShapeText(use.dims), ShapeText(t->dims)));
  }
  DTypeClass cls = InfoOf(t->dtype).cls;
  if (cls != DTypeClass::FLOAT && (cls != DTypeClass::BLOCK || use.kind != WeightKind::Matrix)) {
    Fail(DiagKind::Unsupported, set.PlaceOf(*t),
         fmt::format("a {} of type {} is not supported", KindText(use.kind), InfoOf(t->dtype).text));
  }
  if (use.source.add != 0 && cls != DTypeClass::FLOAT) {
    Fail(DiagKind::Unsupported, set.PlaceOf(*t),
         fmt::format("\"add\" to a tensor of type {} is not supported", InfoOf(t->dtype).text));
  }
  return *t;
}

// A tied model's files may hold the head all the same: equal to the embedding it is the same tensor once more,
// otherwise it counts.
void SettleHead(Description& d, const TensorSet& set, std::set<std::string_view>& used, const DiagSink& sink) {
  WeightUse head = HeadOf(d);
  const TensorInfo* stored = set.Find(head.source.from);
  if (!d.ends.tied || stored == nullptr) return;
  const TensorInfo& t = FindChecked(set, head);
  const TensorInfo& embed = FindChecked(set, WeightsOf(d)[0]);
  if (t.dtype == embed.dtype && std::memcmp(set.Data(t), set.Data(embed), t.bytes) == 0) {
    used.insert(t.name);
    return;
  }
  d.ends.tied = false;
  if (sink) {
    sink({Severity::Warning,
          DiagKind::BadValue,
          set.PlaceOf(t),
          "the description ties the head to the embedding, but the file has a different one: the file's is used",
          {}});
  }
}

void RefuseUnused(const std::vector<std::string>& ignored_tensors, const TensorSet& set,
                  const std::set<std::string_view>& used) {
  std::vector<const TensorInfo*> left;
  for (const auto& [name, t] : set.tensors) {
    bool ignored = std::any_of(ignored_tensors.begin(), ignored_tensors.end(),
                               [&, &n = name](const std::string& p) { return MatchesPattern(p, n); });
    if (!ignored && !used.contains(name)) left.push_back(&t);
  }
  if (left.empty()) return;
  std::vector<std::string> notes;
  for (size_t i = 1; i < left.size() && i < kNamesInMessage; ++i)
    notes.push_back(fmt::format("so is {} {}", left[i]->name, ShapeText(left[i]->dims)));
  if (left.size() > kNamesInMessage) notes.push_back(fmt::format("and {} more", left.size() - kNamesInMessage));
  Fail(DiagKind::UnusedTensor, set.PlaceOf(*left[0]),
       fmt::format("{} {} is not used by the described model; {} of {} tensors are left over",
                   InfoOf(left[0]->dtype).text, ShapeText(left[0]->dims), left.size(), set.tensors.size()),
       std::move(notes));
}

// The adapter's matrices of one weight, checked. `index` of the adapter keeps names apart.
LoraUse BindLora(const LoraAdapter& adapter, size_t index, const WeightUse& use, const TensorInfo& weight,
                 std::pair<const TensorInfo*, const TensorInfo*> pair, FileWeights& source) {
  const auto check = [&](const TensorInfo& t, const std::vector<int64_t>& want) {
    if (t.dims != want)
      Fail(DiagKind::ShapeMismatch, adapter.set->PlaceOf(t),
           fmt::format("must be {} for {} of {} and rank {}, is {}", ShapeText(want), use.source.from,
                       ShapeText(use.dims), adapter.rank, ShapeText(t.dims)));
  };
  if (use.kind != WeightKind::Matrix || InfoOf(weight.dtype).cls != DTypeClass::FLOAT)
    Fail(DiagKind::Unsupported, adapter.set->PlaceOf(*pair.first),
         fmt::format("it adapts {}, which is no matrix of floats", use.source.from));
  check(*pair.first, {adapter.rank, use.dims[1]});
  check(*pair.second, {use.dims[0], adapter.rank});
  const std::string base = fmt::format("{}_lora{}", use.name.base, index + 1);
  LoraUse lora{Name(use.name.layer, base + "_a"),
               Name(use.name.layer, base + "_b"),
               adapter.rank,
               pair.first->dtype,
               pair.second->dtype,
               adapter.scale};
  source.Add(lora.a, adapter.set, *pair.first);
  source.Add(lora.b, adapter.set, *pair.second);
  return lora;
}

}  // namespace

BoundWeights BindWeights(Description& d, const std::shared_ptr<const TensorSet>& set,
                         const std::vector<LoraAdapter>& adapters, const DiagSink& sink) {
  std::set<std::string_view> used;
  SettleHead(d, *set, used, sink);
  BoundWeights bound;
  bound.uses = WeightsOf(d);
  auto source = std::make_shared<FileWeights>();
  std::vector<std::set<std::string_view>> adapted(adapters.size());
  std::map<Name, DType> fused;
  for (const WeightUse& use : bound.uses) {
    if (use.cut) {
      bound.dtypes.push_back(fused.at(use.cut->whole));
      continue;
    }
    const TensorInfo& t = FindChecked(*set, use);
    bound.dtypes.push_back(t.dtype);
    if (use.fused) fused[use.name] = t.dtype;
    source->Add(use.name, set, t);
    bound.places[use.name] = set->PlaceOf(t);
    used.insert(t.name);
    for (size_t i = 0; i < adapters.size(); ++i) {
      const auto pair = adapters[i].Find(t.name);
      if (pair.first == nullptr) continue;
      const LoraUse& lora = bound.lora[use.name].emplace_back(BindLora(adapters[i], i, use, t, pair, *source));
      bound.places[lora.a] = adapters[i].set->PlaceOf(*pair.first);
      bound.places[lora.b] = adapters[i].set->PlaceOf(*pair.second);
      adapted[i].insert(pair.first->name);
      adapted[i].insert(pair.second->name);
    }
  }
  RefuseUnused(d.ignored_tensors, *set, used);
  for (size_t i = 0; i < adapters.size(); ++i) RefuseUnused({}, *adapters[i].set, adapted[i]);
  bound.source = std::move(source);
  return bound;
}

BoundWeights UnboundWeights(const Description& d) {
  BoundWeights bound;
  bound.uses = WeightsOf(d);
  DType dtype = d.model.dtype == StoredType::F32   ? DType::F32
                : d.model.dtype == StoredType::F16 ? DType::F16
                                                   : DType::BF16;
  bound.dtypes.assign(bound.uses.size(), dtype);
  return bound;
}

}  // namespace llmc
