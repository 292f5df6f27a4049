// No positions in the mixer: the order of keys shows in the mask alone.
#include "frontend/graph.h"

namespace llmc {
namespace {

class NoPosition : public Position {
 public:
  std::string_view kind() const override { return "none"; }
  std::unique_ptr<Position> Clone() const override { return std::make_unique<NoPosition>(*this); }
  llmc::Fields Fields() override { return {}; }
  void Complete(int64_t, const ModelSpec&, const Checker&) override {}
  Operand Apply(Graph&, int, Operand x, const std::string&) const override { return x; }
};

}  // namespace

std::unique_ptr<Position> MakeNoPosition() { return std::make_unique<NoPosition>(); }

}  // namespace llmc
