// Stages of a compilation, and models cut down to some layers.
#include "tools/workbench/stages.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "ir/diag.h"
#include "ir/op.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tools/scheduled_model.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

// The stream that enters layer `layer`: %b{layer}.x.
ValueId StreamInto(const Func& func, int layer) {
  for (size_t v = 0; v < func.values.size(); ++v)
    if (func.values[v].name == Name(layer, "x")) return static_cast<ValueId>(v);
  return -1;
}

// An op belongs to the layer whose stream it comes from: the one before the first result's name for what leaves a layer
// (%b{i+1}.x), else the name's own; -1: before the first layer or behind the last.
int LayerOfOp(const Func& func, const Op& op, int first) {
  const Name& name = func.values[static_cast<size_t>(op.results.at(0))].name;
  if (name.layer < 0) return -1;
  if (name.base == "x" && name.suffix == 0) return name.layer == first ? -1 : name.layer - 1;
  return name.layer;
}

}  // namespace

std::vector<Stage> RunStages(Module module, const PassContext& context, const std::set<std::string>& disabled,
                             const std::string& file) {
  std::vector<Stage> stages = {{"import", nullptr, module, true}};
  PipelineOptions pipeline;
  pipeline.file = file;
  pipeline.disabled = disabled;
  pipeline.after = [&](const PassInfo& pass, const Module& now, bool changed, double) {
    stages.push_back({std::string(pass.name), &pass, now, changed});
  };
  RunPipeline(module, context, pipeline);
  return stages;
}

std::vector<Stage> ReadStages(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".ir") files.push_back(it->path());
  if (error) Fail(DiagKind::FileError, {folder, ""}, error.message());
  if (files.empty()) Fail(DiagKind::FileError, {folder, ""}, "holds no *.ir file (llmc compile --dump-ir writes them)");
  std::sort(files.begin(), files.end());
  std::vector<Stage> stages;
  for (const auto& path : files) {
    Module module = Parse(ReadText(path.string()), path.string());
    Verify(module, path.string());
    const AttrValue* after = module.options.Find("after");
    const auto* pass = after == nullptr ? nullptr : std::get_if<std::string>(after);
    stages.push_back({path.stem().string(), pass == nullptr ? nullptr : FindPass(*pass), std::move(module), true});
  }
  return stages;
}

std::vector<int> LayersOf(const Module& module) {
  std::set<int> layers;
  for (const Func& func : module.funcs)
    for (const Op& op : func.ops) {
      const Name& name = func.values[static_cast<size_t>(op.results.at(0))].name;
      if (name.layer >= 0 && name.base != "x") layers.insert(name.layer);
    }
  return {layers.begin(), layers.end()};
}

std::vector<int> RepresentativeLayers(const Module& module) {
  const Func* func = module.FindFunc("forward");
  if (func == nullptr) Fail(DiagKind::Unsupported, {}, "layers are taken from @forward, which the module lacks");
  // A layer's text without its number: types and attributes of its ops and of the globals that they read.
  std::map<int, std::string> texts;
  const std::vector<int> layers = LayersOf(module);
  for (const Op& op : func->ops) {
    const int layer = LayerOfOp(*func, op, layers.empty() ? 0 : layers.front());
    if (layer < 0) continue;
    std::string& text = texts[layer];
    text += OpText(op.kind);
    for (const Operand& operand : op.operands) {
      text += " " + ToText(TypeOf(module, *func, operand));
      if (!operand.is_global) continue;
      const Name& name = module.globals[static_cast<size_t>(operand.index)].name;
      text += " " + name.base + (name.layer >= 0 && name.layer != layer ? fmt::format("@{}", name.layer - layer) : "");
    }
    for (const auto& [key, value] : op.attrs.all())
      text += fmt::format(" {}={}", key,
                          std::visit(
                              []<typename T>(const T& v) -> std::string {
                                if constexpr (std::is_same_v<T, std::string>)
                                  return v;
                                else if constexpr (std::is_same_v<T, std::vector<Dim>>) {
                                  std::string list;
                                  for (const Dim& dim : v) list += ToText(dim) + ",";
                                  return list;
                                } else
                                  return fmt::format("{}", v);
                              },
                              value));
    text += "\n";
  }
  std::set<std::string> seen;
  std::vector<int> kept;
  for (int layer : layers)
    if (seen.insert(texts[layer]).second) kept.push_back(layer);
  return kept;
}

Module KeepLayers(const Module& module, const std::vector<int>& keep) {
  Module out = module;
  Func* func = out.FindFunc("forward");
  const std::vector<int> layers = LayersOf(module);
  if (func == nullptr || layers.empty())
    Fail(DiagKind::Unsupported, {}, "layers are taken out of @forward, which the module lacks");
  const int first = layers.front();
  std::map<ValueId, ValueId> entered;  // by what a dropped layer left
  for (int layer : layers) {
    if (std::find(keep.begin(), keep.end(), layer) != keep.end()) continue;
    ValueId in = StreamInto(*func, layer);
    const ValueId left = StreamInto(*func, layer + 1);
    if (const auto dropped = entered.find(in); dropped != entered.end()) in = dropped->second;
    entered[left] = in;
    if (in < 0 || left < 0)
      Fail(DiagKind::Unsupported, {},
           fmt::format("layer {} has no streams %b{}.x and %b{}.x", layer, layer, layer + 1));
    std::erase_if(func->ops, [&](const Op& op) { return LayerOfOp(*func, op, first) == layer; });
    ReplaceUses(*func, left, Operand::Local(in));
  }
  CompactValues(*func);
  CompactGlobals(out);
  Verify(out, "the model without some layers");
  return out;
}

int64_t StoredWeightBytes(const Module& module) {
  int64_t bytes = 0;
  for (const Global& global : module.globals)
    if (global.kind == GlobalKind::Weight) bytes += ByteSize(global.type);
  return bytes;
}

}  // namespace llmc
