// Schedules: what one thread makes and another reads is separated by a barrier. Plans: what lives at one time shares no
// byte.
#include "ir/verify_schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/diag.h"
#include "ir/op.h"

namespace llmc {
namespace {

constexpr int64_t kAlign = 64;

std::string LineOf(int line) { return line > 0 ? std::to_string(line) : ""; }

[[noreturn]] void FailRule(int line, DiagKind kind, const std::string& message, std::string_view rule) {
  Fail(kind, {"", LineOf(line)}, message + " (" + std::string(rule) + ")");
}

// Which thread makes which part: equal parts of equal divisions are made by the same thread.
struct Parts {
  Over over = Over::All;
  Dim units;  // symbol: rows of the call
  int64_t grain = 1;
  bool operator==(const Parts&) const = default;
};

struct Made {
  int fn = -1;
  int step = -1;
  Over over = Over::All;
  std::optional<Parts> parts;  // none: not comparable with another op's
  ValueId root = -1;           // the value whose storage it is: itself, or what it views
};

class ScheduleChecker {
 public:
  ScheduleChecker(const Module& module, const Func& func) : module_(module), func_(func) {}

  void Check() {
    const size_t scheduled = static_cast<size_t>(
        std::count_if(func_.ops.begin(), func_.ops.end(), [](const Op& op) { return op.schedule.has_value(); }));
    if (scheduled == 0) return CheckUnplaced();
    made_.resize(func_.values.size());
    last_read_.assign(func_.values.size(), -1);
    for (const ValueId param : func_.params) At(made_, param) = {-1, -1, Over::All, std::nullopt, param};
    for (const Op& op : func_.ops) CheckOp(op);
    for (const Operand& operand : func_.returns) CheckReturn(operand);
    CheckPlan();
  }

 private:
  template <class T>
  static T& At(std::vector<T>& list, ValueId id) {
    return list[static_cast<size_t>(id)];
  }
  const Value& ValueOf(ValueId id) const { return func_.values[static_cast<size_t>(id)]; }
  std::string NameOf(ValueId id) const { return "%" + ToText(ValueOf(id).name); }
  bool IsReturned(ValueId id) const {
    return std::find(func_.returns.begin(), func_.returns.end(), Operand::Local(id)) != func_.returns.end();
  }
  [[noreturn]] void FailOp(const Op& op, const std::string& message, std::string_view rule) const {
    FailRule(op.line, DiagKind::BadSchedule, std::string(OpText(op.kind)) + ": " + message, rule);
  }

  void CheckUnplaced() const {
    for (const Op& op : func_.ops) {
      for (const ValueId result : op.results) {
        if (ValueOf(result).at) FailOp(op, NameOf(result) + " has a place, its function no schedule", "S5");
      }
    }
  }

  void CheckOp(const Op& op) {
    if (DefOf(op.kind).is_view) return CheckView(op);
    if (!op.schedule) FailOp(op, "has no schedule, other ops of @" + func_.name + " have", "S2");
    const Schedule& schedule = *op.schedule;
    const Division* division = FindDivision(op);
    if (division == nullptr && schedule.over != Over::All && schedule.over != Over::One) {
      FailOp(op, "can't be divided over " + std::string(OverText(schedule.over)), "S1");
    }
    CheckOrder(op);
    CheckScratch(op);
    for (size_t i = 0; i < op.operands.size(); ++i) CheckRead(op, i, division);
    const std::optional<Parts> parts = PartsOf(op);
    for (const ValueId result : op.results) {
      At(made_, result) = {schedule.fn, schedule.step, schedule.over, parts, result};
      CheckPlace(op, result);
    }
  }

  void CheckView(const Op& op) {
    if (op.schedule) FailOp(op, "is a view and takes no schedule", "S2");
    const ValueId source = op.operands[0].index;
    if (op.operands[0].is_global) FailOp(op, "views a global", "S5");
    At(made_, op.results[0]) = At(made_, source);
    const Value& view = ValueOf(op.results[0]);
    if (view.at != ValueOf(source).at) FailOp(op, NameOf(op.results[0]) + " must live where its operand does", "S5");
    if (IsReturned(op.results[0]) || IsReturned(source)) FailOp(op, "a returned value has no views", "S5");
  }

  const Division* FindDivision(const Op& op) const {
    for (const Division& division : DefOf(op.kind).divisions) {
      if (division.over == op.schedule->over) return &division;
    }
    return nullptr;
  }

  void CheckOrder(const Op& op) {
    const Schedule& schedule = *op.schedule;
    if (last_ != nullptr) {
      const Schedule& before = *last_->schedule;
      if (schedule.fn < before.fn || schedule.step < before.step) {
        FailOp(op,
               "fn " + std::to_string(schedule.fn) + ", step " + std::to_string(schedule.step) + " after fn " +
                   std::to_string(before.fn) + ", step " + std::to_string(before.step),
               "S2");
      }
      const bool alike = schedule.step == before.step && schedule.over == before.over && schedule.grain == before.grain;
      if (schedule.fn == before.fn && !alike) {
        FailOp(op, "fn " + std::to_string(schedule.fn) + " has two steps or divisions", "S2");
      }
    }
    last_ = &op;
  }

  void CheckScratch(const Op& op) const {
    if (!op.schedule->scratch) return;
    if (DefOf(op.kind).weight < 0 || op.schedule->over != Over::Tiles) {
      FailOp(op, "scratch is for a product with a weight that is divided over tiles", "S7");
    }
  }

  void CheckRead(const Op& op, size_t i, const Division* division) {
    const Schedule& schedule = *op.schedule;
    const Operand& operand = op.operands[i];
    if (operand.is_global) return CheckStateRead(op, operand.index);
    const Made& made = At(made_, operand.index);
    if (made.step < 0) return;  // a parameter
    int& last = At(last_read_, made.root);
    last = std::max(last, schedule.step);
    const Value& value = ValueOf(operand.index);
    const bool inside = made.fn == schedule.fn;
    if (value.at && value.at->space == Space::None && !inside) {
      FailOp(op, "reads " + NameOf(operand.index) + " of fn " + std::to_string(made.fn) + ", which is at none", "S4");
    }
    if (made.over == Over::All || made.step < schedule.step) return;
    const bool reads_own = division != nullptr && i < division->reads.size() && division->reads[i] == 'o';
    const bool both_one = made.over == Over::One && schedule.over == Over::One;
    // Keys and queries are dealt out, and a matrix has no count of heads: there only one function's own loop sees the
    // parts of another op.
    const std::optional<Parts> parts = PartsOf(op);
    const bool same_parts = inside || (parts && made.parts == parts);
    if (both_one || (reads_own && same_parts)) return;
    FailOp(op,
           "reads " + NameOf(operand.index) + ", which other threads make over " + std::string(OverText(made.over)) +
               " in the same step " + std::to_string(schedule.step),
           "S3");
  }

  // The older value of a state is read in an earlier step than the append.
  void CheckStateRead(const Op& op, int global) {
    if (module_.globals[static_cast<size_t>(global)].kind != GlobalKind::State) return;
    if (!DefOf(op.kind).changes_state()) {
      state_read_[global] = op.schedule->step;
      return;
    }
    if (op.schedule->over == Over::All) FailOp(op, "all threads would write the state", "S6");
    const auto read = state_read_.find(global);
    if (read != state_read_.end() && read->second == op.schedule->step) {
      FailOp(op, "appends in step " + std::to_string(op.schedule->step) + ", in which the older value is read", "S6");
    }
  }

  // What the op's division cuts: rows, columns in tiles of 16, or heads.
  std::optional<Parts> PartsOf(const Op& op) const {
    const Schedule& schedule = *op.schedule;
    const Type& type = ValueOf(op.results[0]).type;
    if (schedule.over == Over::Rows && !type.dims.empty()) {
      // A state's rows are those of what is appended.
      const Dim rows = type.state < 0 ? type.dims[0] : RowsTypeOf(module_, func_, op).dims[0];
      return Parts{Over::Rows, rows, schedule.grain};
    }
    // Of more dims kernels cut tiles in one way or another.
    if (schedule.over == Over::Tiles && type.dims.size() == 2) {
      int64_t tiles = 0;
      for (const ValueId result : op.results) tiles += (ValueOf(result).type.dims.back().value + 15) / 16;
      const AttrValue* interleave = op.attrs.Find("interleave");
      if (interleave != nullptr && std::get<bool>(*interleave)) tiles /= 2;
      return Parts{Over::Tiles, Dim(tiles), schedule.grain};
    }
    if (schedule.over == Over::Heads && type.dims.size() == 3) {
      return Parts{Over::Heads, Dim(type.dims[1].value / schedule.grain), 1};
    }
    return std::nullopt;
  }

  void CheckPlace(const Op& op, ValueId result) const {
    const Value& value = ValueOf(result);
    const bool all = op.schedule->over == Over::All;
    if (value.type.state >= 0 || IsReturned(result)) {
      if (value.at) FailOp(op, NameOf(result) + " lives in its state or in the logits and takes no place", "S5");
      if (all && IsReturned(result)) FailOp(op, "all threads would write the logits", "S4");
      return;
    }
    if (!value.at) FailOp(op, NameOf(result) + " has no place", "S5");
    if (value.at->space == Space::Private && !all) {
      FailOp(op, NameOf(result) + " is private, but its op is not done by all", "S4");
    }
    if (value.at->space == Space::Shared && all) {
      FailOp(op, NameOf(result) + " is shared, but all threads would write it", "S4");
    }
  }

  void CheckReturn(const Operand& operand) {
    if (operand.is_global) return;
    int& last = At(last_read_, At(made_, operand.index).root);
    last = std::max(last, At(made_, operand.index).step);
  }

  // Memory.
  struct Buffer {
    std::string name;
    int line = 0;
    int first = 0;
    int last = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };

  int64_t LargestBytes(Type type) const {
    for (Dim& dim : type.dims) {
      if (!dim.is_symbol()) continue;
      for (const std::vector<DimRange>* ranges : {&module_.dims, &func_.dims}) {
        for (const DimRange& range : *ranges) {
          if (range.symbol == dim.symbol) dim.value = range.max;
        }
      }
      dim.symbol.clear();
    }
    return ByteSize(type);
  }

  void CheckPlan() {
    for (const Space space : {Space::Shared, Space::Private}) {
      std::vector<Buffer> buffers;
      size_t unplanned = 0;
      for (const Op& op : func_.ops) {
        if (DefOf(op.kind).is_view) continue;
        const int step = op.schedule->step;
        const auto add = [&](const std::string& name, int last, int64_t begin, int64_t bytes) {
          if (begin < 0) {
            ++unplanned;
            return;
          }
          if (begin % kAlign != 0) {
            FailRule(op.line, DiagKind::BadPlan, name + " is at " + std::to_string(begin) + ", no multiple of 64",
                     "M1");
          }
          buffers.push_back({name, op.line, step, std::max(step, last), begin, begin + bytes});
        };
        const std::optional<Scratch>& scratch = op.schedule->scratch;
        if (scratch && space == Space::Private) {
          add("the scratch of " + NameOf(op.results[0]), step, scratch->offset, scratch->bytes);
        }
        for (const ValueId result : op.results) {
          const Value& value = ValueOf(result);
          if (!value.at || value.at->space != space) continue;
          add(NameOf(result), last_read_[static_cast<size_t>(result)], value.at->offset, LargestBytes(value.type));
        }
      }
      if (!buffers.empty() && unplanned > 0) {
        FailRule(buffers[0].line, DiagKind::BadPlan, "@" + func_.name + " has values with and without an offset", "M1");
      }
      CheckBuffers(buffers, space == Space::Shared ? "shared_bytes" : "private_bytes");
    }
  }

  // Walks through the steps with the buffers alive in order of their bytes.
  void CheckBuffers(const std::vector<Buffer>& buffers, std::string_view option) const {
    const int64_t arena = module_.options.IntOr(option, -1);
    std::map<int64_t, size_t> alive;  // by begin
    std::vector<size_t> by_death(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) by_death[i] = i;
    std::sort(by_death.begin(), by_death.end(), [&](size_t a, size_t b) { return buffers[a].last < buffers[b].last; });
    size_t dead = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = buffers[i];
      if (arena >= 0 && buffer.end > arena) {
        FailRule(buffer.line, DiagKind::BadPlan,
                 buffer.name + " ends at " + std::to_string(buffer.end) + ", " + std::string(option) + " is " +
                     std::to_string(arena),
                 "M2");
      }
      for (; dead < by_death.size() && buffers[by_death[dead]].last < buffer.first; ++dead) {
        alive.erase(buffers[by_death[dead]].begin);
      }
      const auto after = alive.lower_bound(buffer.begin);
      if (after != alive.end() && buffers[after->second].begin < buffer.end) FailOverlap(buffers, after->second, i);
      if (after != alive.begin()) {
        const size_t before = std::prev(after)->second;
        if (buffers[before].end > buffer.begin) FailOverlap(buffers, before, i);
      }
      alive.emplace(buffer.begin, i);
    }
  }

  [[noreturn]] void FailOverlap(const std::vector<Buffer>& buffers, size_t a, size_t b) const {
    const auto text = [&](const Buffer& buffer) {
      return buffer.name + " (bytes " + std::to_string(buffer.begin) + " to " + std::to_string(buffer.end) +
             ", steps " + std::to_string(buffer.first) + " to " + std::to_string(buffer.last) + ")";
    };
    FailRule(buffers[b].line, DiagKind::BadPlan, text(buffers[b]) + " overlaps " + text(buffers[a]), "M1");
  }

  const Module& module_;
  const Func& func_;
  std::vector<Made> made_;
  std::vector<int> last_read_;     // by root: the last step that reads it
  std::map<int, int> state_read_;  // state -> step of the last read of its older value
  const Op* last_ = nullptr;       // the scheduled op before
};

}  // namespace

void VerifySchedule(const Module& module, const Func& func) { ScheduleChecker(module, func).Check(); }

void VerifyGlobalOffsets(const Module& module) {
  for (const bool states : {false, true}) {
    std::vector<const Global*> placed;
    for (const Global& global : module.globals) {
      if (global.offset && (global.kind == GlobalKind::State) == states) placed.push_back(&global);
    }
    std::sort(placed.begin(), placed.end(), [](const Global* a, const Global* b) {
      return std::pair(*a->offset, a) < std::pair(*b->offset, b);  // of equals, the one declared first
    });
    const std::string_view option = states ? "state_bytes" : "weight_bytes";
    const int64_t section = module.options.IntOr(option, -1);
    int64_t end = 0;
    for (const Global* global : placed) {
      const std::string name = "$" + ToText(global->name);
      if (*global->offset % kAlign != 0 || *global->offset < end) {
        FailRule(global->line, DiagKind::BadPlan,
                 name + " is at " + std::to_string(*global->offset) + ", must be a multiple of 64 behind " +
                     std::to_string(end),
                 "M3");
      }
      end = *global->offset + ByteSize(global->type);
      if (section >= 0 && end > section) {
        FailRule(
            global->line, DiagKind::BadPlan,
            name + " ends at " + std::to_string(end) + ", " + std::string(option) + " is " + std::to_string(section),
            "M3");
      }
    }
  }
}

}  // namespace llmc
