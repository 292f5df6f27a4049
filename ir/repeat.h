// Folding of equal layers: finds runs in a list of items that are equal up to a shift of layer numbers and integers
// affine in the layer. Serves the printer; code generation's layer loop and the roll-ups of reports can use it on lists
// of their own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

constexpr int kMaxPeriod = 8;  // layers

// A piece of an item. Items match when their texts are equal and each layer number is equal or shifted by the period.
// Integers may differ where there are at least three repetitions and each grows by the same amount from one to the next
// (two points are always on a line).
struct RepeatToken {
  enum class Kind : uint8_t { Text, Layer, Int };
  Kind kind = Kind::Text;
  std::string text;   // Text
  int64_t value = 0;  // Layer, Int
  bool operator==(const RepeatToken&) const = default;
};

class RepeatItem {
 public:
  int layer = -1;   // layer of the first name that the item defines; -1: never folded
  std::string key;  // the rest of that name; (layer, key) is unique in a list
  std::vector<RepeatToken> tokens;

  void Text(std::string_view text);  // joins the text before it
  void Layer(int value) { tokens.push_back({RepeatToken::Kind::Layer, {}, value}); }
  void Int(int64_t value) { tokens.push_back({RepeatToken::Kind::Int, {}, value}); }
};

// items [begin, begin + items * count): `count` repetitions of `items` items. count = 1: these are not folded (then
// items = 1, period = 0).
struct RepeatBlock {
  size_t begin = 0;
  size_t items = 1;
  size_t count = 1;
  int first_layer = -1;  // layer number i of the first repetition
  int period = 0;        // layers per repetition
};

// From the top: at each item, of the periods 1..kMaxPeriod that repeat at least twice (three times where integers vary)
// the one whose run covers most items (the smallest of equals), then on behind that run. Blocks are in order and cover
// all items. Time and memory are linear in the tokens.
std::vector<RepeatBlock> FindRepeats(const std::vector<RepeatItem>& items);

// The item as it is, with layer numbers as digits: "%b3.x = add ...".
std::string ItemText(const RepeatItem& item);
// Item k < block.items of a folded block, in terms of i: layers `{i}` or `{i+1}`, integers that vary `{c + s*i}`, or
// `{c + s*i/p}` (rounded down) where the growth over a period of p layers isn't a multiple of p.
std::string ItemText(const std::vector<RepeatItem>& items, const RepeatBlock& block, size_t k);

}  // namespace llmc
