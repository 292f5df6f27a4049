// A block without a mixer, or without a feed-forward part: the other one is all that it adds to the stream.
#include "frontend/graph.h"

namespace llmc {
namespace {

class NoMixer : public Mixer {
 public:
  std::string_view kind() const override { return "no_mixer"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<NoMixer>(); }
  llmc::Fields Fields() override { return {}; }
  bool IsThere() const override { return false; }
  void Complete(Block&, const ModelSpec&, const Checker&) override {}
  Operand Build(Graph&, int, Operand x, const Block&) const override { return x; }
};

class NoFfn : public Ffn {
 public:
  std::string_view kind() const override { return "none"; }
  std::unique_ptr<Ffn> Clone() const override { return std::make_unique<NoFfn>(); }
  llmc::Fields Fields() override { return {}; }
  bool IsThere() const override { return false; }
  void Complete(const ModelSpec&, const Checker&) override {}
  Operand Build(Graph&, int, Operand x, const Block&) const override { return x; }
};

}  // namespace

std::unique_ptr<Mixer> MakeNoMixer() { return std::make_unique<NoMixer>(); }
std::unique_ptr<Ffn> MakeNoFfn() { return std::make_unique<NoFfn>(); }

}  // namespace llmc
