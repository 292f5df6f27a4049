// A model at every stage of its compilation, and a smaller model with one layer of each kind.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace llmc {

struct Stage {
  std::string name;                // "import", a pass's name, or a file's stem
  const PassInfo* pass = nullptr;  // null: import, or a file that names no pass
  Module module;
  bool changed = true;  // the pass changed the module
};

// The module as it is, then as each pass leaves it.
std::vector<Stage> RunStages(Module module, const PassContext& context, const std::set<std::string>& disabled,
                             const std::string& file);

// The stages in a folder of *.ir files by ascending name, as --dump-ir writes them ("05-hoist-rope-tables.ir"), each
// parsed and verified. Throws InputError for a folder without any, or a file that is no valid module.
std::vector<Stage> ReadStages(const std::string& folder);

// One layer of each run of equal layers (`repeat` in the text) of @forward, in order; the layers' numbers. Works on
// modules as imported, where layer i takes %b{i}.x and leaves %b{i+1}.x.
std::vector<int> RepresentativeLayers(const Module& module);
// The module without the layers that `keep` doesn't list: what enters the next kept layer is what left the one before.
// Throws InputError when the module isn't made of such layers.
Module KeepLayers(const Module& module, const std::vector<int>& keep);
// Numbers of the layers of a module, ascending.
std::vector<int> LayersOf(const Module& module);

// Bytes of all weights in their stored types.
int64_t StoredWeightBytes(const Module& module);

}  // namespace llmc
