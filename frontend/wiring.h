// How a layer's parts are joined: which norms stand where, and what is added to the stream.
#pragma once
#include "frontend/description.h"
#include "frontend/graph.h"
#include "frontend/weight_list.h"

namespace llmc {

// The weights of a layer: its norms' and its parts', in graph order.
void AddLayerWeights(const Block& block, const ModelSpec& model, WeightRows& out);

// The stream behind layer `layer`, given the stream x in front of it.
Operand BuildLayer(Graph& graph, int layer, Operand x, const Block& block);

}  // namespace llmc
