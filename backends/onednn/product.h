// Products for oneDNN: what a `dnnl` step of a plan (runtime/plan_steps.h) says about a linear of the IR, apart from
// where its operands lie. No oneDNN here: what runs the steps is runtime/onednn.
#pragma once
#include "ir/module.h"
#include "runtime/plan_steps.h"

namespace llmc {

// The step of `linear`, without places; `gate`: the op that takes its pair of results in the same function, or null.
// Slices are cut here: their width depends on shapes alone, never on threads, so bits don't either.
DnnlStep ProductOf(const Module& module, const Func& func, const Op& linear, const Op* gate);

}  // namespace llmc
