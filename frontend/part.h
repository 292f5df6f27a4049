// Parts of a block: what mixes positions, how positions enter, what follows within a row. Each slot of a block holds
// one of several alternatives; an alternative is one file in frontend/parts (fields, checks, weights, graph) and one
// line of parts.def. frontend/README.md, "Adding a part of a block".
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/field.h"
#include "ir/module.h"

namespace llmc {

struct Block;
struct ModelSpec;
class Graph;
class WeightRows;

// Reports what a description must keep: InputError BadValue or MissingKey naming file, block and field.
class Checker {
 public:
  // Bounds that keep every product of sizes within int64 and a printed module within the text's limits.
  static constexpr int64_t kMaxWidth = int64_t{1} << 24;
  static constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();

  explicit Checker(const std::string& file) : file_(file) {}
  // `where` stands in front of every message: "block full: ".
  void Enter(std::string where) { where_ = std::move(where); }
  void Require(bool ok, const std::string& message) const;
  // 1 to max; 0 is "missing".
  void Size(std::string_view name, int64_t v, int64_t max) const;
  void Positive(std::string_view name, double v) const;  // finite, above 0, at most 1e30
  void Nonzero(std::string_view name, double v) const;   // finite, 1e-30 to 1e30 in magnitude

 private:
  const std::string& file_;
  std::string where_;
};

class Part {
 public:
  virtual ~Part() = default;
  Part() = default;
  Part(const Part&) = default;
  Part& operator=(const Part&) = delete;
  virtual std::string_view kind() const = 0;
  virtual llmc::Fields Fields() = 0;
  // False: the slot is empty, the block does without.
  virtual bool IsThere() const { return true; }
  // Weights of one layer that has this part.
  virtual void AddWeights(const Block&, const ModelSpec&, WeightRows&) const {}
};

// Inputs of a convolution over the last rows: 2 to 64.
void CheckTaps(const Checker& check, std::string_view name, int64_t taps);

// Attention and its like: from the normed rows [S, d_model] to what is added to the stream.
class Mixer : public Part {
 public:
  virtual std::unique_ptr<Mixer> Clone() const = 0;
  // Fills in derived sizes and checks; the block's position too, which a mixer without positions ignores.
  virtual void Complete(Block& block, const ModelSpec& model, const Checker& check) = 0;
  virtual Operand Build(Graph& graph, int layer, Operand x, const Block& block) const = 0;
  // Whether a row needs those behind it.
  virtual bool NeedsWholeSequence() const { return false; }
  // Whether it has no cache and reads that of the last layer in front of it whose mixer is such that ReadsCacheOf.
  virtual bool SharesCache() const { return false; }
  virtual bool ReadsCacheOf(const Mixer&) const { return false; }
};

class Position : public Part {
 public:
  virtual std::unique_ptr<Position> Clone() const = 0;
  virtual void Complete(int64_t d_head, const ModelSpec& model, const Checker& check) = 0;
  // q or k (`what`) [S, H, d_head] with its positions.
  virtual Operand Apply(Graph& graph, int layer, Operand x, const std::string& what) const = 0;
  // Weights that all layers share.
  virtual void AddModelWeights(WeightRows&) const {}
  // The longest context that the positions are made for.
  virtual int64_t LongestContext(int64_t max_context) const { return max_context; }
};

class Ffn : public Part {
 public:
  virtual std::unique_ptr<Ffn> Clone() const = 0;
  virtual void Complete(const ModelSpec& model, const Checker& check) = 0;
  virtual Operand Build(Graph& graph, int layer, Operand x, const Block& block) const = 0;
};

// The alternatives of a slot, by kind, in the order of parts.def; the first is the default.
template <class T>
struct Alternative {
  std::string_view kind;
  std::unique_ptr<T> (*make)();
};
template <class T>
const std::vector<Alternative<T>>& AlternativesOf();

// A slot: one part, copied with its block.
template <class T>
class Slot {
 public:
  Slot() : part_(AlternativesOf<T>().front().make()) {}
  explicit Slot(std::string_view kind) : Slot() { Select(kind); }
  Slot(const Slot& other) : part_(other.part_->Clone()) {}
  Slot& operator=(const Slot& other) {
    part_ = other.part_->Clone();
    return *this;
  }
  Slot(Slot&&) = default;
  Slot& operator=(Slot&&) = default;
  ~Slot() = default;

  // False: there is no such kind. A part of that kind stays as it is; any other is replaced by a fresh one.
  bool Select(std::string_view kind) {
    if (part_->kind() == kind) return true;
    for (const Alternative<T>& a : AlternativesOf<T>()) {
      if (a.kind != kind) continue;
      part_ = a.make();
      return true;
    }
    return false;
  }
  static std::vector<std::string_view> Kinds() {
    std::vector<std::string_view> kinds;
    for (const Alternative<T>& a : AlternativesOf<T>()) kinds.push_back(a.kind);
    return kinds;
  }
  T* operator->() const { return part_.get(); }
  T& operator*() const { return *part_; }

 private:
  std::unique_ptr<T> part_;
};

}  // namespace llmc
