// Binary search over stages, then a walk over the values of the two stages around the fault.
#include "tools/workbench/bisect.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "passes/check.h"
#include "tools/workbench/values.h"

namespace llmc {
namespace {

constexpr int64_t kTokens = 8;

// Logits of stages (an encoder's hidden rows), each evaluated once.
class Logits {
 public:
  Logits(const std::vector<Stage>& stages, std::function<std::vector<float>(const Module&)> evaluate)
      : stages_(stages), evaluate_(std::move(evaluate)) {}

  // Null when the stage's own functions disagree; `why` then says how.
  const std::vector<float>* Of(size_t stage, std::string* why = nullptr) {
    while (stage > 0 && !stages_[stage].changed) --stage;
    auto found = known_.find(stage);
    if (found == known_.end()) {
      ++runs_;
      try {
        found = known_.emplace(stage, Entry{evaluate_(stages_[stage].module), ""}).first;
      } catch (const InputError& error) {
        found = known_.emplace(stage, Entry{{}, error.diag().message}).first;
      }
    }
    if (why != nullptr) *why = found->second.why;
    return found->second.why.empty() ? &found->second.logits : nullptr;
  }
  int runs() const { return runs_; }

 private:
  struct Entry {
    std::vector<float> logits;
    std::string why;
  };
  const std::vector<Stage>& stages_;
  std::function<std::vector<float>(const Module&)> evaluate_;
  std::map<size_t, Entry> known_;
  int runs_ = 0;
};

// The smallest index in (good, bad] at which `holds` is false, holds(good) being true and holds(bad) false.
size_t FirstBad(size_t good, size_t bad, const std::function<bool(size_t)>& holds) {
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return bad;
}

bool Rounds(const Stage& stage) { return stage.pass != nullptr && !stage.pass->exact(); }

}  // namespace

Bisection BisectStages(const std::vector<Stage>& stages, const WeightSource& weights, int threads) {
  const auto width = static_cast<size_t>(RowWidth(stages.at(0).module));
  Logits logits(stages, [&](const Module& module) { return EvaluateModule(module, weights, threads); });
  Bisection result;
  const auto found = [&](size_t stage, const std::string& promise, double tolerance) {
    result.broken = true;
    result.stage = stage;
    result.promise = promise;
    const std::vector<float>* now = logits.Of(stage, &result.phases);
    const std::vector<float>* was = stage == 0 ? nullptr : logits.Of(stage - 1);
    if (now != nullptr && was != nullptr) result.logits = Compare(*now, *was, width);
    result.runs = logits.runs();
    if (stage == 0) return result;
    const std::vector<int32_t> tokens =
        SeededTokens(stages[0].module, std::min(kTokens, stages[0].module.options.IntOr("context", kTokens)));
    result.culprit =
        FindCulprit(stages[stage].module, weights, stages[stage - 1].module, weights, tokens, threads, tolerance);
    result.runs += 2;
    return result;
  };
  if (logits.Of(0) == nullptr) return found(0, "its functions agree", 0);
  for (size_t begin = 0; begin + 1 < stages.size();) {
    size_t end = begin;  // all passes behind begin and up to end keep every bit
    while (end + 1 < stages.size() && !Rounds(stages[end + 1])) ++end;
    const std::vector<float>& anchor = *logits.Of(begin);
    const auto same = [&](size_t stage) {
      const std::vector<float>* now = logits.Of(stage);
      return now != nullptr && now->size() == anchor.size() && Compare(*now, anchor, width).same();
    };
    if (!same(end)) return found(FirstBad(begin, end, same), "exact", 0);
    if (end + 1 == stages.size()) break;
    const std::vector<float>* rounded = logits.Of(end + 1);
    const double most = MostNmse(stages[end + 1].pass->exactness);
    if (rounded == nullptr || rounded->size() != anchor.size() ||
        !(Compare(*rounded, anchor, width).worst_nmse <= most))
      return found(end + 1, fmt::format("NMSE at most {}", most), most);
    begin = end + 1;
  }
  result.runs = logits.runs();
  return result;
}

Bisection BisectReference(const std::vector<Stage>& stages, const WeightSource& weights, int threads,
                          std::span<const int32_t> tokens, const std::vector<float>& reference, double tolerance) {
  const auto width = static_cast<size_t>(RowWidth(stages.at(0).module));
  Logits logits(stages, [&](const Module& module) { return RunValues(module, weights, tokens, threads, {}); });
  const auto holds = [&](size_t stage) {
    const std::vector<float>* now = logits.Of(stage);
    return now != nullptr && Compare(*now, reference, width).worst_nmse <= tolerance;
  };
  Bisection result;
  const size_t last = stages.size() - 1;
  if (!holds(last)) {
    result.broken = true;
    result.stage = holds(0) ? FirstBad(0, last, holds) : 0;
    result.promise = fmt::format("NMSE against the reference at most {}", tolerance);
    if (const std::vector<float>* now = logits.Of(result.stage, &result.phases))
      result.logits = Compare(*now, reference, width);
  }
  result.runs = logits.runs();
  if (result.broken && result.stage > 0) {
    result.culprit = FindCulprit(stages[result.stage].module, weights, stages[result.stage - 1].module, weights, tokens,
                                 threads, tolerance);
    result.runs += 2;
  }
  return result;
}

std::optional<Culprit> FindCulprit(const Module& now, const WeightSource& now_weights, const Module& was,
                                   const WeightSource& was_weights, std::span<const int32_t> tokens, int threads,
                                   double tolerance) {
  std::map<std::pair<std::string, int64_t>, OpValue> before;  // by name and first position
  std::map<std::string, std::pair<Type, std::vector<float>>> whole;
  const auto gather = [&](OpValue&& value, int64_t) {
    auto& [type, values] = whole[value.name];
    type = value.type;
    values.insert(values.end(), value.values.begin(), value.values.end());
  };
  const std::vector<int32_t> types = SeededTypes(was, tokens.size());
  RunValues(was, was_weights, tokens, threads, gather, types);
  std::optional<Culprit> culprit;
  const auto compare = [&](OpValue&& value, int64_t pos) {
    if (culprit) return;
    const auto found = whole.find(value.name);
    if (found == whole.end() || value.type.dims.empty() || value.type.dtype != found->second.first.dtype) return;
    const auto rows = static_cast<size_t>(value.type.dims[0].value);
    const size_t columns = value.values.size() / std::max<size_t>(1, rows);
    const std::vector<float>& all = found->second.second;
    const size_t begin = static_cast<size_t>(pos) * columns;
    if (columns == 0 || begin + value.values.size() > all.size()) return;  // another shape: not comparable by name
    const std::span<const float> part = std::span(all).subspan(begin, value.values.size());
    const Difference d = Compare(value.values, part, columns);
    if (d.same() || (tolerance > 0 && d.worst_nmse <= tolerance)) return;
    const size_t at = tolerance > 0 ? d.worst : d.first;
    culprit = Culprit{value.name,
                      std::string(OpText(value.kind)),
                      value.layer,
                      static_cast<size_t>(pos) + at / columns,
                      at % columns,
                      value.values[at],
                      part[at],
                      d,
                      std::move(value.operands)};
  };
  RunValues(now, now_weights, tokens, threads, compare, types);
  return culprit;
}

std::vector<int> ReduceLayers(const Module& was, const std::vector<int>& layers,
                              const std::function<bool(const Module&)>& breaks) {
  // Halves first, then single layers, as long as it still breaks.
  std::vector<int> kept = layers;
  for (size_t size = (kept.size() + 1) / 2; size >= 1; size = size == 1 ? 0 : (size + 1) / 2) {
    for (size_t begin = 0; begin < kept.size() && kept.size() > 1;) {
      std::vector<int> fewer = kept;
      const size_t end = std::min(kept.size(), begin + size);
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(begin), fewer.begin() + static_cast<std::ptrdiff_t>(end));
      if (!fewer.empty() && breaks(KeepLayers(was, fewer)))
        kept = std::move(fewer);
      else
        begin = end;
    }
    if (size == 0) break;
  }
  return kept;
}

}  // namespace llmc
