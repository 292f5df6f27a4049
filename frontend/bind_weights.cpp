// Weights by name: the checks when a model is opened, and rows of the mapped files afterwards.
#include "frontend/bind_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "frontend/mxfp4_pairs.h"

namespace llmc {
namespace {

constexpr size_t kNamesInMessage = 8;

int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Where the bytes of one weight lie: `parts` of equal size one behind another, rows of `row_bytes`.
struct Stored {
  std::shared_ptr<const TensorSet> set;
  DType dtype{};
  size_t row_bytes = 0, part_bytes = 0;
  std::vector<const TensorInfo*> parts;

  // Bytes of part `i`, from its byte `at` on: whole blocks of mxfp4 in two tensors.
  void Copy(size_t i, size_t at, size_t n, std::byte* out) const {
    const TensorInfo& part = *parts[i];
    if (!part.scales) {
      std::memcpy(out, set->Data(part) + at, n);
      return;
    }
    const auto unit = static_cast<size_t>(InfoOf(dtype).block_bytes);
    ReadMxfp4(*set, part, at / unit, n / unit, out);
  }
};

// Tensors of one shape and type, one behind another, as rows of `columns` elements; 0: a vector, which is one row.
Stored StoredOf(std::shared_ptr<const TensorSet> set, const std::vector<const TensorInfo*>& tensors, int64_t columns) {
  Stored out;
  const TensorInfo& first = *tensors[0];
  out.dtype = first.dtype;
  out.part_bytes = static_cast<size_t>(RowBytes(first.dtype, CountOf(first.dims)));
  out.parts = tensors;
  out.row_bytes = columns == 0 ? out.part_bytes * tensors.size() : static_cast<size_t>(RowBytes(first.dtype, columns));
  out.set = std::move(set);
  return out;
}

class FileWeights : public WeightSource {
 public:
  void Add(const Name& name, Stored stored) { stored_[name] = std::move(stored); }
  void Add(const Name& name, std::shared_ptr<const TensorSet> set, const TensorInfo& tensor) {
    Add(name, StoredOf(std::move(set), {&tensor}, tensor.dims.size() < 2 ? 0 : tensor.dims.back()));
  }

  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    auto it = stored_.find(weight.name);
    LLMC_CHECK(it != stored_.end(), "no file has $" + ToText(weight.name));
    const Stored& s = it->second;
    size_t at = static_cast<size_t>(begin) * s.row_bytes;
    const size_t stop = static_cast<size_t>(end) * s.row_bytes;
    LLMC_CHECK(s.dtype == weight.type.dtype && begin >= 0 && begin <= end && stop <= s.part_bytes * s.parts.size(),
               "rows of $" + ToText(weight.name));
    while (at < stop) {
      const size_t n = std::min(stop - at, s.part_bytes - at % s.part_bytes);
      s.Copy(at / s.part_bytes, at % s.part_bytes, n, out);
      out += n;
      at += n;
    }
  }

 private:
  std::map<Name, Stored> stored_;
};

// Numbers that stand in the description, in front of another source.
class ValueWeights : public WeightSource {
 public:
  ValueWeights(const BoundWeights& bound, std::shared_ptr<const WeightSource> rest) : rest_(std::move(rest)) {
    for (const WeightUse& use : bound.uses) {
      if (use.source.values.empty()) continue;
      for (double v : use.source.values) values_[use.name].push_back(static_cast<float>(v));
    }
  }
  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    auto it = values_.find(weight.name);
    if (it == values_.end()) return rest_->Read(weight, begin, end, out);
    std::memcpy(out, it->second.data(), static_cast<size_t>(end - begin) * it->second.size() * sizeof(float));
  }

 private:
  std::map<Name, std::vector<float>> values_;  // vectors: one row each
  std::shared_ptr<const WeightSource> rest_;
};

std::string KindText(WeightKind kind) {
  return kind == WeightKind::Matrix ? "matrix" : kind == WeightKind::Gain ? "gain" : "bias";
}

const TensorInfo* FindByNames(const TensorSet& set, const TensorRule& rule) {
  if (const TensorInfo* t = set.Find(rule.from)) return t;
  for (const std::string& other : rule.others) {
    if (const TensorInfo* t = set.Find(other)) return t;
  }
  return nullptr;
}

const TensorInfo& Find(const TensorSet& set, const WeightUse& use) {
  if (const TensorInfo* t = FindByNames(set, use.source)) return *t;
  Fail(DiagKind::MissingTensor, {set.files.empty() ? "" : set.files[0]->path(), "tensor " + use.source.from},
       fmt::format("the tensor is missing; the description needs it as {} {} of {}", KindText(use.kind),
                   ToText(use.name), ShapeText(use.dims)));
}

void CheckType(const TensorSet& set, const WeightUse& use, const TensorInfo& t) {
  DTypeClass cls = InfoOf(t.dtype).cls;
  if (cls != DTypeClass::FLOAT && (cls != DTypeClass::BLOCK || use.kind != WeightKind::Matrix)) {
    Fail(DiagKind::Unsupported, set.PlaceOf(t),
         fmt::format("a {} of type {} is not supported", KindText(use.kind), InfoOf(t.dtype).text));
  }
  if ((use.source.add != 0 || use.source.transposed) && cls != DTypeClass::FLOAT) {
    Fail(DiagKind::Unsupported, set.PlaceOf(t),
         fmt::format("\"add\" to a tensor of type {}, or \"transposed\", is not supported", InfoOf(t.dtype).text));
  }
}

const TensorInfo& FindChecked(const TensorSet& set, const WeightUse& use) {
  const TensorInfo& t = Find(set, use);
  std::vector<int64_t> dims = use.dims;
  if (use.source.transposed) std::reverse(dims.begin(), dims.end());
  if (t.dims != dims && !(use.flat && CountOf(t.dims) == CountOf(dims))) {
    Fail(DiagKind::ShapeMismatch, set.PlaceOf(t),
         fmt::format("{} must be {} = {}, is {}", ToText(use.name), use.rule, ShapeText(dims), ShapeText(t.dims)));
  }
  CheckType(set, use, t);
  if (InfoOf(t.dtype).cls == DTypeClass::BLOCK && use.dims.back() % InfoOf(t.dtype).block != 0) {
    Fail(DiagKind::ShapeMismatch, set.PlaceOf(t),
         fmt::format("rows of {} elements of {} are no whole blocks of {}", use.dims.back(), ToText(use.name),
                     InfoOf(t.dtype).text));
  }
  return t;
}

// A stack's rule for its tensor number e.
TensorRule Numbered(TensorRule rule, size_t e) {
  constexpr std::string_view kMark = "{e}";
  auto fill = [&](std::string& name) {
    if (size_t at = name.find(kMark); at != std::string::npos) name.replace(at, kMark.size(), std::to_string(e));
  };
  fill(rule.from);
  for (std::string& other : rule.others) fill(other);
  return rule;
}

// The tensors of a stack, "{e}" being 0, 1, ..: as many as make up the weight.
std::vector<const TensorInfo*> FindStack(const TensorSet& set, const WeightUse& use) {
  std::vector<const TensorInfo*> parts;
  for (int64_t left = CountOf(use.dims); left > 0;) {
    WeightUse part = use;
    part.source = Numbered(use.source, parts.size());
    const TensorInfo& t = Find(set, part);
    CheckType(set, use, t);
    left -= CountOf(t.dims);
    if (left < 0 || CountOf(t.dims) == 0 || t.dims.back() != (use.flat ? t.dims.back() : use.dims.back()) ||
        (!parts.empty() && (t.dims != parts[0]->dims || t.dtype != parts[0]->dtype))) {
      Fail(DiagKind::ShapeMismatch, set.PlaceOf(t),
           fmt::format("{} {} is no equal part of {} = {} {}", InfoOf(t.dtype).text, ShapeText(t.dims),
                       ToText(use.name), use.rule, ShapeText(use.dims)));
    }
    parts.push_back(&t);
  }
  return parts;
}

// A tied model's files may hold the head all the same: equal to the embedding it is the same tensor once more,
// otherwise it counts.
void SettleHead(Description& d, const TensorSet& set, std::set<std::string_view>& used, const DiagSink& sink) {
  WeightUse head = HeadOf(d);
  const TensorInfo* stored = FindByNames(set, head.source);
  if (!d.ends.tied || stored == nullptr) return;
  const TensorInfo& t = FindChecked(set, head);
  const TensorInfo& embed = FindChecked(set, WeightsOf(d)[0]);
  if (t.dtype == embed.dtype && !t.scales && !embed.scales && std::memcmp(set.Data(t), set.Data(embed), t.bytes) == 0) {
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

std::shared_ptr<const WeightSource> WithValues(const BoundWeights& bound, std::shared_ptr<const WeightSource> source) {
  const bool any = std::any_of(bound.uses.begin(), bound.uses.end(),
                               [](const WeightUse& use) { return !use.source.values.empty(); });
  return any ? std::make_shared<ValueWeights>(bound, std::move(source)) : source;
}

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
    if (!use.source.values.empty()) {
      bound.dtypes.push_back(DType::F32);
      continue;
    }
    const bool stack = use.source.from.find("{e}") != std::string::npos;
    const std::vector<const TensorInfo*> tensors =
        stack ? FindStack(*set, use) : std::vector<const TensorInfo*>{&FindChecked(*set, use)};
    const TensorInfo& t = *tensors[0];
    bound.dtypes.push_back(t.dtype);
    if (use.fused) fused[use.name] = t.dtype;
    for (const TensorInfo* part : tensors) used.insert(part->name);
    // A matrix that is stored transposed has other rows there.
    const int64_t columns = use.dims.size() < 2 ? 0 : use.source.transposed ? use.dims.front() : use.dims.back();
    source->Add(use.name, StoredOf(set, tensors, columns));
    bound.places[use.name] = set->PlaceOf(t);
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
  bound.source = WithValues(bound, std::move(source));
  return bound;
}

BoundWeights UnboundWeights(const Description& d) {
  BoundWeights bound;
  bound.uses = WeightsOf(d);
  DType dtype = d.model.dtype == StoredType::F32   ? DType::F32
                : d.model.dtype == StoredType::F16 ? DType::F16
                                                   : DType::BF16;
  for (const WeightUse& use : bound.uses) bound.dtypes.push_back(use.source.values.empty() ? dtype : DType::F32);
  return bound;
}

}  // namespace llmc
