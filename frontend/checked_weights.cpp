// A weight source over another one.
#include "frontend/checked_weights.h"

#include <utility>

#include <fmt/format.h>

#include "ir/finite.h"

namespace llmc {
namespace {

class Checked : public WeightSource {
 public:
  Checked(std::shared_ptr<const WeightSource> source, std::map<Name, Place> places)
      : source_(std::move(source)), places_(std::move(places)) {}

  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    source_->Read(weight, begin, end, out);
    const Type& type = weight.type;
    const int64_t bytes = StoredRowBytes(type), unit = InfoOf(type.dtype).block_bytes;
    const int64_t elements = bytes / unit * InfoOf(type.dtype).block;
    const std::optional<NotFinite> found = FindNotFinite(type.dtype, out, (end - begin) * elements);
    if (!found) return;
    const int64_t units = bytes / unit;  // of a row
    const auto known = places_.find(weight.name);
    const bool block = InfoOf(type.dtype).cls == DTypeClass::BLOCK;
    const std::string row = type.dims.size() < 2 ? "" : fmt::format("row {}, ", begin + found->at / units);
    Fail(DiagKind::BadValue, known == places_.end() ? Place{"$" + ToText(weight.name), ""} : known->second,
         fmt::format("{}{} {} {}; a weight that isn't finite makes every result so (--allow-nonfinite compiles it)",
                     row, block ? "block" : "element", found->at % units, found->what));
  }

 private:
  const std::shared_ptr<const WeightSource> source_;
  const std::map<Name, Place> places_;
};

}  // namespace

std::shared_ptr<const WeightSource> CheckedWeights(std::shared_ptr<const WeightSource> source,
                                                   std::map<Name, Place> places) {
  return std::make_shared<Checked>(std::move(source), std::move(places));
}

}  // namespace llmc
