// FindRepeats on lists of its own: what matches, which period is taken, where runs end.
#include "ir/repeat.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

RepeatItem Item(int layer, const std::string& text, int64_t number = 0) {
  RepeatItem item;
  item.layer = layer;
  item.key = "x";
  item.Layer(layer);
  item.Text(text);
  item.Text(" ");
  item.Int(number);
  return item;
}

std::vector<RepeatItem> Layers(const std::string& kinds, int64_t step = 0) {
  std::vector<RepeatItem> items;
  for (size_t i = 0; i < kinds.size(); ++i) {
    items.push_back(Item(static_cast<int>(i), std::string(1, kinds[i]), step * static_cast<int64_t>(i)));
  }
  return items;
}

// "0: 1 x 4 by 1" for each block: first layer, items, count, period.
std::string Blocks(const std::vector<RepeatItem>& items) {
  std::string text;
  size_t next = 0;
  for (const RepeatBlock& block : FindRepeats(items)) {
    EXPECT_EQ(block.begin, next);
    next += block.items * block.count;
    if (!text.empty()) text += ", ";
    text += block.count == 1 ? "flat"
                             : std::to_string(block.first_layer) + ": " + std::to_string(block.items) + " x " +
                                   std::to_string(block.count) + " by " + std::to_string(block.period);
  }
  EXPECT_EQ(next, items.size());
  return text;
}

TEST(Repeat, PeriodOfTheLongestRunAndTheSmallestOfEquals) {
  EXPECT_EQ(Blocks(Layers("")), "");
  EXPECT_EQ(Blocks(Layers("a")), "flat");
  EXPECT_EQ(Blocks(Layers("ab")), "flat, flat");
  EXPECT_EQ(Blocks(Layers("aaaa")), "0: 1 x 4 by 1");
  EXPECT_EQ(Blocks(Layers("abbb")), "flat, 1: 1 x 3 by 1");
  EXPECT_EQ(Blocks(Layers("ababab")), "0: 2 x 3 by 2");
  EXPECT_EQ(Blocks(Layers("aabaabaab")), "0: 3 x 3 by 3");
  EXPECT_EQ(Blocks(Layers("wwwwwfwwwwwfww")), "0: 6 x 2 by 6, 12: 1 x 2 by 1");
  EXPECT_EQ(Blocks(Layers("abcdefghabcdefgh")), "0: 8 x 2 by 8");
  EXPECT_EQ(Blocks(Layers("abcdefghiabcdefghi")),
            "flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, "
            "flat, flat, flat, flat, flat, flat, flat");
}

TEST(Repeat, IntegersGrowEvenly) {
  EXPECT_EQ(Blocks(Layers("aaaa", 64)), "0: 1 x 4 by 1");
  std::vector<RepeatItem> uneven = Layers("aaaaa", 64);
  uneven[3].tokens.back().value += 1;
  EXPECT_EQ(Blocks(uneven), "0: 1 x 3 by 1, flat, flat");  // two repetitions are always even, so they prove nothing
  std::vector<RepeatItem> huge = Layers("aa");
  huge[0].tokens.back().value = INT64_MIN;
  huge[1].tokens.back().value = INT64_MAX;
  EXPECT_EQ(Blocks(huge), "flat, flat");
}

TEST(Repeat, LayersThatAreNotNeighboursDoNotFold) {
  std::vector<RepeatItem> items = {Item(0, "a"), Item(9, "a"), Item(1, "a"), Item(-1, "a"), Item(-1, "a")};
  EXPECT_EQ(Blocks(items), "flat, flat, flat, flat, flat");
}

TEST(Repeat, TextInTermsOfI) {
  std::vector<RepeatItem> items = Layers("-ababab", 5);
  const std::vector<RepeatBlock> blocks = FindRepeats(items);
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(ItemText(items, blocks[0], 0), "0- 0");
  EXPECT_EQ(ItemText(items, blocks[1], 0), "{i}a {0 + 5*i}");
  EXPECT_EQ(ItemText(items, blocks[1], 1), "{i+1}b {5 + 5*i}");
  // Growth of 5 a period of two layers: i = 1, 3 gives 5, 10.
  for (size_t layer = 3; layer < items.size(); ++layer)
    items[layer].tokens.back().value -= 5 * static_cast<int64_t>((layer - 1) / 2);
  EXPECT_EQ(ItemText(items, FindRepeats(items)[1], 0), "{i}a {3 + 5*i/2}");
}

TEST(Repeat, LongListsTakeLinearTime) {
  // Layer 0 and 1 agree but for their last items: each item has a partner at the same distance, and no run is long
  // enough.
  std::vector<RepeatItem> items;
  constexpr int kItems = 20000;
  for (int layer = 0; layer < 2; ++layer) {
    for (int k = 0; k < kItems; ++k) {
      RepeatItem item = Item(layer, k == kItems - 1 ? std::to_string(layer) : "a");
      item.key = std::to_string(k);
      items.push_back(item);
    }
  }
  EXPECT_EQ(FindRepeats(items).size(), size_t{2} * kItems);
}

}  // namespace
}  // namespace llmc
