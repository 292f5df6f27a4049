// The printer: makes the items of a module (globals, statements) as tokens, folds them (ir/repeat.h) and writes lines.
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "ir/diag.h"
#include "ir/op.h"
#include "ir/recipe.h"
#include "ir/repeat.h"
#include "ir/text.h"

namespace llmc {
namespace {

// The shortest text that reads back, and that no integer has.
std::string FloatText(float value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

class ItemWriter {
 public:
  ItemWriter(const Module& module, RepeatItem& item) : module_(module), item_(item) {}

  void Text(std::string_view text) { item_.Text(text); }

  void WriteName(char sigil, const Name& name) {
    Text(std::string(1, sigil));
    if (name.layer >= 0) {
      Text("b");
      item_.Layer(name.layer);
      Text(".");
    }
    Text(name.base);
    if (name.suffix > 0) Text("." + std::to_string(name.suffix));
  }

  void WriteGlobalName(int index) {
    LLMC_CHECK(static_cast<size_t>(index) < module_.globals.size(), "global index out of range");
    WriteName('$', module_.globals[static_cast<size_t>(index)].name);
  }

  void WriteDims(const std::vector<Dim>& dims) {
    Text("[");
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i > 0) Text(", ");
      if (dims[i].is_symbol()) {
        Text(dims[i].symbol);
      } else {
        item_.Int(dims[i].value);
      }
    }
    Text("]");
  }

  void WriteType(const Type& type) {
    Text(InfoOf(type.dtype).text);
    WriteDims(type.dims);
    if (type.layout != Layout::Rows) Text(" " + std::string(LayoutText(type.layout)));
  }

  void WriteAttr(std::string_view name, const AttrValue& value) {
    BeginAttr(name);
    if (const bool* flag = std::get_if<bool>(&value)) {
      Text(*flag ? "true" : "false");
    } else if (const int64_t* number = std::get_if<int64_t>(&value)) {
      item_.Int(*number);
    } else if (const float* real = std::get_if<float>(&value)) {
      Text(FloatText(*real));
    } else if (const std::string* ident = std::get_if<std::string>(&value)) {
      Text(*ident);
    } else {
      WriteDims(std::get<std::vector<Dim>>(value));
    }
  }

  // In the order of the record, without defaults; then what the record doesn't know (which the verifier refuses, but
  // nothing is hidden).
  void WriteAttrs(const std::vector<AttrDef>& defs, const Attrs& attrs) {
    for (const AttrDef& def : defs) {
      const AttrValue* value = attrs.Find(def.name);
      if (value != nullptr && !(def.otherwise && *value == *def.otherwise)) WriteAttr(def.name, *value);
    }
    for (const auto& [name, value] : attrs.all()) {
      if (FindAttr(defs, name) == nullptr) WriteAttr(name, value);
    }
  }

  void WriteSchedule(const Schedule& schedule) {
    WriteAttr("fn", int64_t{schedule.fn});
    WriteAttr("step", int64_t{schedule.step});
    WriteAttr("over", std::string(OverText(schedule.over)));
    if (schedule.grain != 1) WriteAttr("grain", schedule.grain);
    if (!schedule.scratch) return;
    WriteAttr("scratch_bytes", schedule.scratch->bytes);
    if (schedule.scratch->offset >= 0) WriteAttr("scratch", schedule.scratch->offset);
  }

  void EndAttrs() {
    if (has_attrs_) Text("}");
    has_attrs_ = false;
  }

  void WriteOffset(std::string_view prefix, int64_t offset) {
    Text(prefix);
    item_.Int(offset);
  }

 private:
  void BeginAttr(std::string_view name) {
    Text(has_attrs_ ? ", " : " {");
    has_attrs_ = true;
    Text(std::string(name) + " = ");
  }

  const Module& module_;
  RepeatItem& item_;
  bool has_attrs_ = false;
};

// Key of an item: the name it defines, without its layer. '%' and '$' never meet in one list.
void SetKey(RepeatItem& item, const Name& name) {
  item.layer = name.layer;
  item.key = ToText(Name(-1, name.base, name.suffix));
}

void WriteRecipe(const Recipe& recipe, ItemWriter& writer) {
  writer.Text(RecipeText(recipe.kind));
  for (size_t i = 0; i < recipe.inputs.size(); ++i) {
    writer.Text(i == 0 ? " " : ", ");
    writer.WriteGlobalName(recipe.inputs[i]);
  }
  writer.WriteAttrs(DefOf(recipe.kind).attrs, recipe.attrs);
}

RepeatItem GlobalItem(const Module& module, const Global& global) {
  RepeatItem item;
  SetKey(item, global.name);
  ItemWriter writer(module, item);
  static constexpr std::string_view kKinds[] = {"weight ", "const ", "state "};
  writer.Text(kKinds[static_cast<size_t>(global.kind)]);
  writer.WriteName('$', global.name);
  writer.Text(" : ");
  writer.WriteType(global.type);
  if (global.offset) writer.WriteOffset(" @", *global.offset);
  if (global.kind == GlobalKind::Const) {
    writer.Text(" = ");
    WriteRecipe(global.recipe, writer);
  } else if (global.kind == GlobalKind::State) {
    writer.WriteAttrs({}, global.attrs);
  }
  writer.EndAttrs();
  return item;
}

void WriteOperand(ItemWriter& writer, const Func& func, Operand operand) {
  if (operand.is_global) return writer.WriteGlobalName(operand.index);
  LLMC_CHECK(static_cast<size_t>(operand.index) < func.values.size(), "value index out of range");
  writer.WriteName('%', func.values[static_cast<size_t>(operand.index)].name);
}

RepeatItem StatementItem(const Module& module, const Func& func, const Op& op) {
  RepeatItem item;
  ItemWriter writer(module, item);
  const auto value_of = [&](ValueId id) -> const Value& { return func.values.at(static_cast<size_t>(id)); };
  if (!op.results.empty()) SetKey(item, value_of(op.results[0]).name);
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (i > 0) writer.Text(", ");
    writer.WriteName('%', value_of(op.results[i]).name);
  }
  writer.Text(" = " + std::string(OpText(op.kind)));
  for (size_t i = 0; i < op.operands.size(); ++i) {
    writer.Text(i == 0 ? " " : ", ");
    WriteOperand(writer, func, op.operands[i]);
  }
  writer.WriteAttrs(DefOf(op.kind).attrs, op.attrs);
  if (op.schedule) writer.WriteSchedule(*op.schedule);
  writer.EndAttrs();
  for (size_t i = 0; i < op.results.size(); ++i) {
    writer.Text(i == 0 ? " : " : ", ");
    const Value& value = value_of(op.results[i]);
    if (value.type.state >= 0) {
      writer.WriteGlobalName(value.type.state);
    } else {
      writer.WriteType(value.type);
    }
    if (!value.at) continue;
    static constexpr std::string_view kSpaces[] = {" none", " shared", " private"};
    writer.Text(kSpaces[static_cast<size_t>(value.at->space)]);
    if (value.at->offset >= 0) writer.WriteOffset("+", value.at->offset);
  }
  return item;
}

void WriteItems(const std::vector<RepeatItem>& items, const PrintOptions& options, const std::string& indent,
                std::string& out) {
  if (options.flat) {
    for (const RepeatItem& item : items) out += indent + ItemText(item) + "\n";
    return;
  }
  for (const RepeatBlock& block : FindRepeats(items)) {
    if (block.count == 1) {
      out += indent + ItemText(items[block.begin]) + "\n";
      continue;
    }
    const size_t end = static_cast<size_t>(block.first_layer) + static_cast<size_t>(block.period) * block.count;
    out += indent + "repeat i = " + std::to_string(block.first_layer) + ".." + std::to_string(end);
    if (block.period > 1) out += " by " + std::to_string(block.period);
    out += " {\n";
    for (size_t k = 0; k < block.items; ++k) out += indent + "  " + ItemText(items, block, k) + "\n";
    out += indent + "}\n";
  }
}

std::string RangeText(const DimRange& range) {
  return range.symbol + " = " + std::to_string(range.min) + ".." + std::to_string(range.max);
}

void WriteFunc(const Module& module, const Func& func, const PrintOptions& options, std::string& out) {
  out += "\nfunc @" + func.name + "(";
  for (size_t i = 0; i < func.params.size(); ++i) {
    const Value& value = func.values.at(static_cast<size_t>(func.params[i]));
    out += (i == 0 ? "%" : ", %") + ToText(value.name) + ": " + ToText(value.type);
  }
  out += ")";
  if (func.output != EntryOutput::Logits) out += " " + std::string(EntryOutputText(func.output));
  if (func.kind != EntryKind::Chunkable) out += " " + std::string(EntryKindText(func.kind));
  for (size_t i = 0; i < func.dims.size(); ++i) out += (i == 0 ? " where " : ", ") + RangeText(func.dims[i]);
  out += " {\n";
  std::vector<RepeatItem> items;
  items.reserve(func.ops.size());
  for (const Op& op : func.ops) items.push_back(StatementItem(module, func, op));
  WriteItems(items, options, "  ", out);
  RepeatItem returned;
  ItemWriter writer(module, returned);
  for (size_t i = 0; i < func.returns.size(); ++i) {
    writer.Text(i == 0 ? "return " : ", ");
    WriteOperand(writer, func, func.returns[i]);
  }
  out += "  " + ItemText(returned) + "\n}\n";
}

}  // namespace

std::string StatementText(const Module& module, const Func& func, const Op& op) {
  return ItemText(StatementItem(module, func, op));
}

std::string RecipeText(const Module& module, const Recipe& recipe) {
  RepeatItem item;
  ItemWriter writer(module, item);
  WriteRecipe(recipe, writer);
  writer.EndAttrs();
  return ItemText(item);
}

std::string Print(const Module& module, const PrintOptions& options) {
  RepeatItem header;
  ItemWriter writer(module, header);
  writer.Text("module @" + module.name);
  writer.WriteAttrs({}, module.options);
  writer.EndAttrs();
  std::string out = ItemText(header) + "\n";
  for (const DimRange& dim : module.dims) out += "dim " + RangeText(dim) + "\n";
  std::vector<RepeatItem> items;
  items.reserve(module.globals.size());
  for (const Global& global : module.globals) items.push_back(GlobalItem(module, global));
  WriteItems(items, options, "", out);
  for (const Func& func : module.funcs) WriteFunc(module, func, options, out);
  return out;
}

}  // namespace llmc
