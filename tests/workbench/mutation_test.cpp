// Faults put into passes, one at a time: each is refused by the verifier, or named by bisect with pass and op. The
// table in passes/README.md lists them; `mutation_test --gtest_also_run_disabled_tests --gtest_filter=*PrintTable`
// prints it.
#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "ir/op.h"
#include "ir/verify.h"
#include "tools/pass_context.h"
#include "tools/workbench/bisect.h"
#include "tools/workbench/stages.h"

namespace llmc {
namespace {

// Edits the module as a faulty pass would leave it; false: nothing to edit.
using Edit = std::function<bool(Module&)>;

struct Mutation {
  const char* name;
  const char* model;   // below tests/data
  const char* pass;    // whose result is edited; "import"
  const char* caught;  // "bisect OP" or "refused LABEL-or-kind"
  Edit edit;
};

// The first op of a kind in each function, edited.
Edit First(OpKind kind, const std::function<void(Module&, Func&, Op&)>& edit) {
  return [=](Module& module) {
    bool found = false;
    for (Func& func : module.funcs)
      for (Op& op : func.ops)
        if (op.kind == kind) {
          edit(module, func, op);
          found = true;
          break;
        }
    return found;
  };
}
Edit SetAttr(OpKind kind, const char* name, const AttrValue& value) {
  return First(kind, [=](Module&, Func&, Op& op) { op.attrs.Set(name, value); });
}
Edit SwapOperands(OpKind kind, size_t a, size_t b) {
  return First(kind, [=](Module&, Func&, Op& op) { std::swap(op.operands.at(a), op.operands.at(b)); });
}
// Each function's op of a kind in layer 1 reads layer 0's global.
Edit OtherLayersGlobal(OpKind kind, size_t operand) {
  return [=](Module& module) {
    bool found = false;
    for (Func& func : module.funcs)
      for (Op& op : func.ops) {
        if (op.kind != kind || !op.operands.at(operand).is_global) continue;
        Name name = module.globals[static_cast<size_t>(op.operands[operand].index)].name;
        if (name.layer != 1) continue;
        name.layer = 0;
        const int other = module.FindGlobal(name);
        if (other < 0) continue;
        op.operands[operand] = Operand::OfGlobal(other);
        found = true;
        break;
      }
    return found;
  };
}
Edit Recipe(RecipeKind kind, const std::function<bool(Module&, Global&)>& edit) {
  return [=](Module& module) {
    for (Global& global : module.globals)
      if (global.kind == GlobalKind::Const && global.recipe.kind == kind && edit(module, global)) return true;
    return false;
  };
}
Edit InFunc(const char* name, const Edit& edit) {
  return [=](Module& module) {
    Module alone = module;
    std::erase_if(alone.funcs, [&](const Func& func) { return func.name != name; });
    if (alone.funcs.empty() || !edit(alone)) return false;
    *module.FindFunc(name) = alone.funcs[0];
    return true;
  };
}
// A value's place, by the value's base name, in every function.
Edit Place(const char* base, const std::function<void(Func&, Value&)>& edit) {
  return [=](Module& module) {
    bool found = false;
    for (Func& func : module.funcs)
      for (Value& value : func.values)
        if (value.name.base == base && value.at) {
          edit(func, value);
          found = true;
          break;
        }
    return found;
  };
}

const std::vector<Mutation>& Mutations() {
  static const std::vector<Mutation> kMutations = {
      {"rope turned by the length instead of the position", "tiny-qwen3", "canonicalize", "bisect rope",
       First(OpKind::Rope, [](Module&, Func& func, Op& op) { op.operands[2] = Operand::Local(func.params[2]); })},
      {"rope pairs in the other order", "tiny-qwen3", "fuse-qkv", "bisect rope",
       SetAttr(OpKind::Rope, "pairs", std::string("interleaved"))},
      {"rope table of another theta", "tiny-qwen3", "hoist-rope-tables", "bisect rope",
       Recipe(RecipeKind::RopeTable,
              [](Module&, Global& global) {
                global.recipe.attrs.Set("theta", global.recipe.attrs.F32("theta") * 2);
                return true;
              })},
      {"query not scaled", "tiny-qwen3", "fuse-gate-up", "bisect attention", SetAttr(OpKind::Attention, "scale", 1.0F)},
      {"window one key wider", "golden/mistral-window3", "fuse-qkv", "bisect attention",
       First(OpKind::Attention,
             [](Module&, Func&, Op& op) { op.attrs.Set("window", op.attrs.IntOr("window", 0) + 1); })},
      {"keys and values swapped", "tiny-qwen3", "fuse-qkv", "bisect attention", SwapOperands(OpKind::Attention, 1, 2)},
      {"rows appended one slot too late", "tiny-qwen3", "canonicalize", "bisect attention",
       First(OpKind::KvAppend, [](Module&, Func& func, Op& op) { op.operands[2] = Operand::Local(func.params[2]); })},
      {"attention reads the cache before the append", "tiny-qwen3", "canonicalize", "refused StateMisuse",
       First(OpKind::Attention,
             [](Module&, Func& func, Op& op) {
               op.operands[1] = Operand::OfGlobal(func.values[static_cast<size_t>(op.operands[1].index)].type.state);
             })},
      {"gate and up swapped", "tiny-qwen3", "fuse-gate-up", "bisect gated", SwapOperands(OpKind::Gated, 0, 1)},
      {"interleaved parts read as stacked ones", "tiny-qwen3", "fuse-gate-up", "bisect linear",
       [](Module& module) {
         for (Func& func : module.funcs)
           for (Op& op : func.ops)
             if (op.kind == OpKind::Linear && std::get<bool>(AttrOf(op, "interleave"))) {
               op.attrs.Erase("interleave");
               return true;
             }
         return false;
       }},
      {"parts packed in another order", "golden/llama-mha", "fuse-qkv", "bisect linear",
       Recipe(RecipeKind::Pack,
              [](Module&, Global& global) {
                if (global.recipe.inputs.size() != 3) return false;
                std::swap(global.recipe.inputs[1], global.recipe.inputs[2]);
                return true;
              })},
      {"weights of another layer", "tiny-qwen3", "pack-weights", "bisect linear", OtherLayersGlobal(OpKind::Linear, 1)},
      {"gain of another layer", "tiny-qwen3", "fuse-add-rms-norm", "bisect add_rms_norm",
       OtherLayersGlobal(OpKind::AddRmsNorm, 2)},
      {"eps lost", "tiny-qwen3", "fuse-add-rms-norm", "bisect add_rms_norm", SetAttr(OpKind::AddRmsNorm, "eps", 0.0F)},
      {"bias dropped", "golden/qwen2-bias", "fuse-qkv", "bisect linear",
       First(OpKind::Linear, [](Module&, Func&, Op& op) { op.operands.resize(2); })},
      {"residual replaced by the branch", "tiny-qwen3", "canonicalize", "bisect add",
       First(OpKind::Add, [](Module&, Func&, Op& op) { op.operands[0] = op.operands[1]; })},
      {"sums split in another way", "tiny-qwen3", "pack-weights", "bisect linear",
       SetAttr(OpKind::Linear, "k_split", int64_t{2})},
      {"phases that disagree", "tiny-qwen3", "specialize-phases", "bisect",
       InFunc("decode", SetAttr(OpKind::Attention, "scale", 1.0F))},
      {"a barrier too few", "tiny-qwen3", "plan-schedule", "refused BadSchedule",
       [](Module& module) {
         for (Func& func : module.funcs)
           for (Op& op : func.ops)
             if (op.schedule && op.schedule->step > 0) --op.schedule->step;
         return true;
       }},
      {"divided work into private memory", "tiny-qwen3", "plan-schedule", "refused BadSchedule",
       Place("q", [](Func&, Value& value) { value.at->space = Space::Private; })},
      {"two live values in one place", "tiny-qwen3", "plan-memory", "refused BadPlan",
       [](Module& module) {
         Func& func = *module.FindFunc("prefill");
         int64_t first = -1;
         for (Value& value : func.values)
           if (value.at && value.at->space == Space::Shared) {
             if (first < 0) first = value.at->offset;
             value.at->offset = first;
           }
         return true;
       }},
      {"an arena too small", "tiny-qwen3", "plan-memory", "refused BadPlan",
       [](Module& module) {
         module.options.Set("shared_bytes", int64_t{64});
         return true;
       }},
      {"caches that overlap", "tiny-qwen3", "plan-memory", "refused BadPlan",
       [](Module& module) {
         for (Global& global : module.globals)
           if (global.kind == GlobalKind::State) global.offset = 0;
         return true;
       }},
      {"a cache with too few slots", "tiny-qwen3", "plan-kv-cache", "refused ConstraintViolated",
       [](Module& module) {
         for (Global& global : module.globals)
           if (global.kind == GlobalKind::State) global.type.dims[0].value = 16;
         return true;
       }},
  };
  return kMutations;
}

struct Outcome {
  std::string caught;  // as Mutation::caught
  std::string stage;   // that bisect names
  std::string detail;
};

Outcome Catch(const Mutation& mutation) {
  ModelOptions options;
  options.model = std::string(LLMC_SOURCE_DIR) + "/tests/data/" + mutation.model;
  options.no_tokenizer = true;
  const Model model = LoadModel(options);
  const PassContext context = ContextFor("llvm");
  std::vector<Stage> stages = RunStages(model.module, context, {}, mutation.model);
  const auto at = std::find_if(stages.begin(), stages.end(), [&](const Stage& s) { return s.name == mutation.pass; });
  EXPECT_NE(at, stages.end()) << mutation.name;
  stages.erase(at + 1, stages.end());
  Stage& faulty = stages.back();
  faulty.changed = true;
  EXPECT_TRUE(mutation.edit(faulty.module)) << mutation.name << ": nothing to edit";
  try {
    Verify(faulty.module, mutation.pass);
    // The passes behind a fault go on from what it left.
    Module module = faulty.module;
    PipelineOptions rest;
    bool behind = false;
    for (const PassInfo& pass : AllPasses()) {
      if (behind) rest.passes.emplace_back(pass.name);
      behind = behind || pass.name == mutation.pass;
    }
    rest.after = [&](const PassInfo& pass, const Module& now, bool changed, double) {
      stages.push_back({std::string(pass.name), &pass, now, changed});
    };
    if (!rest.passes.empty()) RunPipeline(module, context, rest);
  } catch (const InputError& error) {
    return {"refused " + std::string(DiagName(error.diag().kind)), mutation.pass, error.what()};
  }
  const Bisection found = BisectStages(stages, *model.weights, 1);
  if (!found.broken) return {"not caught", "", ""};
  return {found.culprit ? "bisect " + found.culprit->op : "bisect", stages[found.stage].name, found.phases};
}

TEST(Mutation, EachFaultIsCaughtAndNamed) {
  ASSERT_GE(Mutations().size(), 20U);
  for (const Mutation& mutation : Mutations()) {
    SCOPED_TRACE(mutation.name);
    const Outcome outcome = Catch(mutation);
    EXPECT_EQ(outcome.caught, mutation.caught) << outcome.detail;
    EXPECT_EQ(outcome.stage, mutation.pass);
  }
}

std::string TableOfMutations() {
  std::ostringstream table;
  table << "| fault | put into | caught |\n|---|---|---|\n";
  for (const Mutation& mutation : Mutations()) {
    std::string caught = mutation.caught;
    if (caught == "bisect")
      caught = "`bisect`: its functions disagree";
    else if (caught.starts_with("bisect "))
      caught = "`bisect` names the pass and `" + caught.substr(7) + "`";
    else
      caught = "refused: " + caught.substr(8);
    table << "| " << mutation.name << " | " << mutation.pass << " | " << caught << " |\n";
  }
  return table.str();
}

TEST(Mutation, TheReadmeListsThem) {
  std::ifstream file(std::string(LLMC_SOURCE_DIR) + "/passes/README.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find(TableOfMutations()), std::string::npos) << TableOfMutations();
}

}  // namespace
}  // namespace llmc
