// The typed description of a model: what every source format is turned into, and what the graph is built from. llmc's
// own JSON form of it is read and printed here (frontend/README.md shows it).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/field.h"
#include "frontend/json.h"
#include "frontend/part.h"
#include "frontend/parts/activation.h"
#include "ir/diag.h"

namespace llmc {

enum class StoredType : uint8_t { F32, F16, BF16 };
inline constexpr std::array<std::string_view, 3> kStoredTypes = {"f32", "f16", "bf16"};
inline std::span<const std::string_view> TextsOf(StoredType) { return kStoredTypes; }

enum class NormKind : uint8_t { Rms, Layer };
inline constexpr std::array<std::string_view, 2> kNormKinds = {"rms", "layer"};
inline std::span<const std::string_view> TextsOf(NormKind) { return kNormKinds; }

enum class WiringOrder : uint8_t { Sequential, Post, Sandwich, Parallel, ParallelTwo, Encoder };
inline constexpr std::array<std::string_view, 6> kWiringOrders = {"sequential", "post",         "sandwich",
                                                                  "parallel",   "parallel_two", "encoder"};
inline std::span<const std::string_view> TextsOf(WiringOrder) { return kWiringOrders; }

// What a model is asked for: logits of a next id, in calls of any length; or the rows of whole sequences.
enum class ModelOutput : uint8_t { Logits, Hidden };
inline constexpr std::array<std::string_view, 2> kModelOutputs = {"logits", "hidden"};
inline std::span<const std::string_view> TextsOf(ModelOutput) { return kModelOutputs; }

// Sizes of the whole model; 0: not given.
struct ModelSpec {
  std::string name = "model";  // of the module; no meaning
  int64_t vocab = 0;           // rows of the embedding and of the head
  int64_t d_model = 0;         // width of the residual stream
  int64_t n_layers = 0;
  int64_t max_context = 0;             // longest sequence the model was made for
  StoredType dtype = StoredType::F32;  // of weights that no file provides (--weights random:SEED, --no-weights)
  // Each layer gets a vector of so many numbers of its own for each token, made of a row of a table of its own with
  // per_layer_vocab rows and of a product of the embedding; 0: none.
  int64_t per_layer = 0, per_layer_vocab = 0;
  llmc::Fields Fields();
};

// The norms of a block, and the last norm of the model (with the last layer's fields).
struct NormSpec {
  NormKind kind = NormKind::Rms;
  double eps = 1e-6;
  bool gain = true;
  bool bias = false;  // layer
  llmc::Fields Fields();
};

// How a layer's parts are joined (wiring.cpp).
struct WiringSpec {
  WiringOrder order = WiringOrder::Sequential;
  bool mixer_norm = true;                    // sequential: a norm in front of the mixer
  double residual = 1.0;                     // on what each part adds to the stream
  double mixer_in = 1.0, mixer_out = 1.0;    // on the rows that the mixer gets, and on what it gives
  double beside_in = 1.0, beside_out = 1.0;  // of the mixer beside it
  bool scalar = false;                       // a number of the layer multiplies the stream that leaves it
  llmc::Activation per_layer_act = llmc::Activation::GeluTanh;  // in front of the product with the layer's vector
  llmc::Fields Fields();
};

// What stands before the first and after the last layer.
struct EndsSpec {
  ModelOutput output = ModelOutput::Logits;
  bool final_norm = true;          // a norm behind the last layer
  bool embed_norm = false;         // a norm of the embedded rows, with the first layer's fields
  int64_t token_types = 0;         // rows of a table, one of which is added to each embedding by its type; 0: none
  bool tied = false;               // the head is the embedding
  bool head_bias = false;          // the head has a bias
  bool learned_positions = false;  // a row of a table of max_context + position_offset rows is added to each embedding
  int64_t position_offset = 0;     // row of position 0
  double embed_scale = 1.0;        // on the embedding's rows
  double logit_scale = 1.0;        // on the logits
  double logit_cap = 0.0;          // c tanh(logits / c), behind the scale; 0: none
  llmc::Fields Fields();
};

struct Block {
  NormSpec norm;
  Slot<Mixer> mixer;
  Slot<Mixer> beside{"no_mixer"};  // a second one of the same normed rows; what both give is added
  Slot<Position> position;
  Slot<Ffn> ffn;
  WiringSpec wiring;
};

// The groups of a block in its JSON form. The mixer's key is its kind ("attention"); beside (if there is one), position
// and ffn say theirs in the field `kind`.
struct FieldGroup {
  std::string key;
  std::string kind;  // "": the group has no field `kind`
  Fields fields;     // into the block
};
std::vector<FieldGroup> GroupsOf(Block& block);
bool operator==(const Block& a, const Block& b);

// Where a weight of the graph comes from.
struct TensorRule {
  // Name in the file; "{i}" stands for the layer, "{e}" for the number of a part in a stack: tensors 0, 1, .. one
  // behind another.
  std::string from;
  std::vector<std::string> others;  // names that it has in other files
  double add = 0;                   // norm gains: added to the stored value
  bool transposed = false;          // a matrix stored as [in, out]
  std::vector<double> values;       // the numbers themselves, instead of a tensor
  // The tensor holds these weights (their names without layer), rows below one another; this is one of them. In each of
  // `groups` equal runs of rows stand the rows of all parts: a field's name ("attention.n_heads"), a product of some
  // ("ffn.count * ffn.d_ff"), or "" and a number.
  std::vector<std::string> parts;
  std::string groups;
  int64_t group_count = 1;
  bool operator==(const TensorRule&) const = default;
};

struct Description {
  ModelSpec model;
  std::vector<std::pair<std::string, Block>> blocks;  // named; at least one
  std::vector<int> layers;                            // layers[i]: index of its block
  EndsSpec ends;
  // By the graph's name: "embed", "b{i}.wq" (weight_list.h). A weight without a rule has its graph's name in the file
  // too: "b0.wq".
  std::map<std::string, TensorRule> tensors;
  // Patterns of tensors that a file may hold and the graph does not need; "{i}" stands for a number, a "*" at the end
  // for any rest.
  std::vector<std::string> ignored_tensors;
  std::string weights;  // path as given, relative to the description; "": beside it
  const Block& BlockOf(int64_t layer) const {
    return blocks[static_cast<size_t>(layers[static_cast<size_t>(layer)])].second;
  }
};

// The layer whose cache a layer that shares one reads; -1: there is none in front of it, or it has its own.
int64_t CacheLayerOf(const Description& d, int64_t layer);

// Fills in derived sizes and checks every rule that fields must keep among each other. Throws InputError BadValue or
// MissingKey naming the field in `file`.
void Complete(Description& d, const std::string& file);

// True for a JSON text in llmc's own form: an object with the key "llmc".
bool IsDescription(const Json& root);
// Reads llmc's own form (frontend/README.md); Complete()d. Unknown keys are errors with the nearest known name.
Description ReadDescription(const Json& root, const std::string& file);
// Prints it; flat: every field of every block stands there. ReadDescription gives an equal description back.
std::string PrintDescription(const Description& d);

// A rule for a tensor as descriptions and presets write it: a name, or an object with "from".
TensorRule TensorRuleOf(const Json& value);

// Sets a field by its dotted name ("attention.n_heads", "ffn.kind", "vocab") in a block, the model or the ends; a group
// that names another kind of mixer replaces the block's. Throws as SetField(Field) does.
void SetField(Description& d, Block& block, std::string_view field, const FieldValue& value);
// The same field's value; nullopt: there is no such field.
std::optional<FieldValue> GetField(const Description& d, const Block& block, std::string_view field);

}  // namespace llmc
