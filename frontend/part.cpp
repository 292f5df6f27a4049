// The table of alternatives, and how a check reports.
#include "frontend/part.h"

#include <cmath>

#include <fmt/format.h>

namespace llmc {

#define PART(slot, kind, make) std::unique_ptr<slot> make();
#include "frontend/parts.def"
#undef PART

namespace {

template <class T>
void AddTo(std::vector<Alternative<T>>& list, std::string_view kind, std::unique_ptr<T> (*make)()) {
  list.push_back({kind, make});
}
template <class T, class U>
void AddTo(std::vector<Alternative<T>>&, std::string_view, std::unique_ptr<U> (*)()) {}

template <class T>
std::vector<Alternative<T>> ListOf() {
  std::vector<Alternative<T>> list;
#define PART(slot, kind, make) AddTo(list, #kind, &make);
#include "frontend/parts.def"
#undef PART
  return list;
}

}  // namespace

template <class T>
const std::vector<Alternative<T>>& AlternativesOf() {
  static const std::vector<Alternative<T>> kList = ListOf<T>();
  return kList;
}
template const std::vector<Alternative<Mixer>>& AlternativesOf();
template const std::vector<Alternative<Position>>& AlternativesOf();
template const std::vector<Alternative<Ffn>>& AlternativesOf();

void Checker::Require(bool ok, const std::string& message) const {
  if (!ok) Fail(DiagKind::BadValue, {file_, ""}, where_ + message);
}
void Checker::Size(std::string_view name, int64_t v, int64_t max) const {
  if (v == 0) Fail(DiagKind::MissingKey, {file_, ""}, fmt::format("{}{} is missing", where_, name));
  Require(v >= 1 && v <= max, fmt::format("{} is {}, must be 1 to {}", name, v, max));
}
void Checker::Positive(std::string_view name, double v) const {
  Require(std::isfinite(v) && v > 0 && v <= 1e30, fmt::format("{} is {}, must be positive and at most 1e+30", name, v));
}

void CheckTaps(const Checker& check, std::string_view name, int64_t taps) {
  constexpr int64_t kMost = 64;
  check.Size(name, taps, kMost);
  check.Require(taps > 1, fmt::format("{} is 1, must be 2 to {}", name, kMost));
}

void Checker::Nonzero(std::string_view name, double v) const {
  Require(std::abs(v) >= 1e-30 && std::abs(v) <= 1e30,
          fmt::format("{} is {}, must be 1e-30 to 1e30 in magnitude", name, v));
}

}  // namespace llmc
