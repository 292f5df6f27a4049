// llmc's own form of a description: it reads back what it prints, names nearest keys, and refuses what cannot be.
#include "frontend/description.h"

#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "frontend/weight_list.h"
#include "tests/frontend/support.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using test::ErrorOf;

Description Read(const std::string& text) { return ReadDescription(ParseJson(text, "d.json"), "d.json"); }
std::string Own(const std::string& block, const std::string& keys = "") {
  return "{\"llmc\": 1, " + keys +
         "\"vocab\": 40, \"d_model\": 16, \"n_layers\": 3, \"max_context\": 64, \"blocks\": {" + block + "}}";
}
const std::string kBlock = "\"a\": {\"attention\": {\"n_heads\": 4}, \"ffn\": {\"d_ff\": 24}}";

using test::IntOf;
int64_t Window(const Description& d, int64_t layer) { return IntOf(d, layer, "attention.window"); }

TEST(Description, PrintedFormReadsBack) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    Description d = test::Describe(test::TinyConfig(
        family, "\"tie_word_embeddings\": true, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 3.0}, "));
    std::string text = PrintDescription(d);
    Description again = Read(text);
    EXPECT_EQ(PrintDescription(again), text);
    EXPECT_EQ(again.blocks, d.blocks);
    EXPECT_EQ(again.tensors, d.tensors);
  }
}

TEST(Description, MixedLayersReadBack) {
  Description d = test::Describe(
      test::TinyConfig("qwen2", "\"sliding_window\": 3, \"use_sliding_window\": true, \"max_window_layers\": 1, "));
  ASSERT_EQ(d.blocks.size(), 2U);
  Description again = Read(PrintDescription(d));
  EXPECT_EQ(again.layers, d.layers);
  EXPECT_EQ(Window(again, 0), 0);
  EXPECT_EQ(Window(again, 1), 3);
}

TEST(Description, LayersRepeatAndLikeCopies) {
  Description d =
      Read(Own(kBlock + ", \"b\": {\"like\": \"a\", \"attention\": {\"window\": 8}}", "\"layers\": [\"a\", \"b\"], "));
  EXPECT_EQ(d.layers, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(Window(d, 1), 8);
  EXPECT_EQ(IntOf(d, 1, "ffn.d_ff"), 24);
  EXPECT_EQ(IntOf(d, 1, "attention.d_head"), 4);
  // One level only, and backwards only.
  ErrorOf(DiagKind::UnknownName,
          [] { Read(Own(kBlock + ", \"b\": {\"like\": \"a\"}, \"c\": {\"like\": \"b\"}", "\"layers\": [\"a\"], ")); });
  ErrorOf(DiagKind::UnknownName, [] { Read(Own("\"b\": {\"like\": \"a\"}, " + kBlock, "\"layers\": [\"a\"], ")); });
}

TEST(Description, UnknownKeysNameTheNearest) {
  auto hint = [](const std::string& text) { return ErrorOf(DiagKind::UnknownKey, [&] { Read(text); }); };
  EXPECT_NE(hint(Own("\"a\": {\"attention\": {\"n_head\": 4}}")).find("did you mean \"n_heads\"?"), std::string::npos);
  EXPECT_NE(hint(Own("\"a\": {\"atention\": {}}")).find("did you mean \"attention\"?"), std::string::npos);
  EXPECT_NE(hint(Own(kBlock, "\"max_contxt\": 3, ")).find("did you mean \"max_context\"?"), std::string::npos);
  EXPECT_EQ(hint(Own(kBlock, "\"zzzzzz\": 3, ")).find("did you mean"), std::string::npos);
  EXPECT_EQ(hint("{\"llmc\": 1,\n \"ends\": {\"tie\": true}}").substr(0, 11), "d.json:2:11");
}

TEST(Description, ChoicesAreListed) {
  std::string message = ErrorOf(DiagKind::Unsupported, [] { Read(Own("\"a\": {\"norm\": {\"kind\": \"batch\"}}")); });
  EXPECT_NE(message.find("norm.kind = \"batch\" is not supported; supported: rms, layer"), std::string::npos)
      << message;
}

TEST(Description, Refused) {
  ErrorOf(DiagKind::Unsupported, [] { Read("{\"llmc\": 2}"); });
  ErrorOf(DiagKind::BadValue, [] { Read("{\"llmc\": \"1\"}"); });
  ErrorOf(DiagKind::MissingKey, [] { Read("{\"llmc\": 1}"); });
  ErrorOf(DiagKind::BadValue, [] { Read(Own("")); });
  ErrorOf(DiagKind::MissingKey, [] { Read(Own("\"a\": {\"attention\": {\"n_heads\": 4}}")); });  // ffn.d_ff
  ErrorOf(DiagKind::MissingKey, [] { Read(Own(kBlock + ", \"b\": {\"like\": \"a\"}")); });       // layers
  ErrorOf(DiagKind::UnknownName, [] { Read(Own(kBlock, "\"layers\": [\"x\"], ")); });
  ErrorOf(DiagKind::BadValue, [] { Read(Own(kBlock, "\"layers\": [\"a\", \"a\", \"a\", \"a\"], ")); });
  ErrorOf(DiagKind::BadValue, [] { Read(Own(kBlock, "\"layers\": [], ")); });
  ErrorOf(DiagKind::BadValue, [] { Read(Own(kBlock, "\"name\": \"a-b\", ")); });
  ErrorOf(DiagKind::BadValue, [] { Read(Own(kBlock, "\"tensors\": {\"embed\": {}}, ")); });
  ErrorOf(DiagKind::UnknownKey, [] { Read(Own(kBlock, "\"tensors\": {\"embed\": {\"from\": \"x\", \"sub\": 1}}, ")); });
  Description d = Read(Own(kBlock, "\"tensors\": {\"b{i}.wz\": \"x\"}, "));
  EXPECT_NE(ErrorOf(DiagKind::UnknownKey, [&] { CheckTensorNames(d, "d.json"); }).find("did you mean"),
            std::string::npos);
}

TEST(Description, EveryFieldRoundTrips) {
  Description d =
      Read(Own("\"a\": {\"norm\": {\"eps\": 0.5}, \"attention\": {\"n_heads\": 4, \"n_kv_heads\": 2, \"d_head\": 6, "
               "\"bias\": \"qkvo\", "
               "\"qk_norm\": \"per_head\", \"window\": 9}, \"position\": {\"theta\": 3.0, \"rotary_dim\": 4, "
               "\"pairs\": \"interleaved\", "
               "\"scaling\": \"llama3\", \"factor\": 2.0, \"original\": 32, \"low\": 0.5, \"high\": 3.0}, \"ffn\": "
               "{\"d_ff\": 24, \"bias\": true}}",
               "\"name\": \"m\", \"dtype\": \"bf16\", \"ends\": {\"tied\": true}, \"weights\": \"w.safetensors\", "
               "\"ignored_tensors\": [\"x{i}\"], "
               "\"tensors\": {\"final_norm\": {\"from\": \"n\", \"add\": 1}}, "));
  std::string text = PrintDescription(d);
  EXPECT_EQ(PrintDescription(Read(text)), text);
  EXPECT_EQ(IntOf(d, 0, "position.rotary_dim"), 4);
  EXPECT_EQ(d.tensors.at("final_norm").add, 1.0);
}

// The page about descriptions names every field, every choice and every weight.
TEST(Description, ReadmeHasEveryFieldAndWeight) {
  std::string page = test::ReadBytes(std::string(LLMC_SOURCE_DIR) + "/frontend/README.md");
  auto has = [&](std::string_view name) {
    EXPECT_NE(page.find("`" + std::string(name) + "`"), std::string::npos) << name;
  };
  auto fields = [&](const Fields& list) {
    for (const Field& f : list) {
      has(f.name);
      if (const auto* choice = std::get_if<Field::Choice>(&f.at)) {
        for (std::string_view text : choice->texts) has(text);
      }
    }
  };
  Description d;
  fields(d.model.Fields());
  fields(d.ends.Fields());
  Block block;
  const size_t list = page.find("Weights of a graph:");
  const std::string weights = page.substr(list, page.find("\n\n", list) - list);
  auto groups = [&] {
    WeightRows rows;
    block.mixer->AddWeights(block, d.model, rows);
    block.position->AddModelWeights(rows);
    block.ffn->AddWeights(block, d.model, rows);
    for (const WeightRow& row : rows.all()) {
      const bool of_norm = row.part == WeightPart::Norm && row.kind == WeightKind::Bias;  // said once, of all
      const std::regex word("[` ]" + row.base + "[` \n]");
      EXPECT_TRUE(of_norm || std::regex_search(weights, word)) << row.base;
    }
    for (const FieldGroup& group : GroupsOf(block)) {
      has(group.key);
      if (!group.kind.empty()) has(group.kind);
      fields(group.fields);
    }
  };
  for (std::string_view kind : Slot<Mixer>::Kinds()) block.mixer.Select(kind), groups();
  block.beside.Select("mamba2"), groups();
  block.beside.Select("no_mixer");
  for (std::string_view kind : Slot<Position>::Kinds()) block.position.Select(kind), groups();
  for (std::string_view kind : Slot<Ffn>::Kinds()) block.ffn.Select(kind), groups();
}

// The example on that page reads.
TEST(Description, ReadmeExampleIsValid) {
  std::string page = test::ReadBytes(std::string(LLMC_SOURCE_DIR) + "/frontend/README.md");
  size_t begin = page.find("```json\n") + 8;
  Description d = Read(page.substr(begin, page.find("```", begin) - begin));
  EXPECT_EQ(Window(d, 3), 0);
  EXPECT_EQ(Window(d, 4), 512);
  CheckTensorNames(d, "README.md");
}

TEST(WeightList, NamesShapesAndRules) {
  Description d = test::Describe(test::TinyConfig("qwen2"));
  std::vector<WeightUse> uses = WeightsOf(d);
  EXPECT_EQ(uses.size(), 1U + 2U * 12U + 2U);
  EXPECT_EQ(ToText(uses[4].name), "b0.wk");
  EXPECT_EQ(uses[4].source.from, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(uses[4].dims, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(uses[4].rule, "[attention.n_kv_heads * attention.d_head, d_model]");
}

// q, k and v in one tensor, rows below one another, or head by head.
TEST(WeightList, FusedTensors) {
  const std::string fused = R"({"from": "l{i}.qkv", "parts": ["wq", "wk", "wv"])";
  auto read = [&](const std::string& rule) {
    std::string rules;
    for (const char* w : {"wq", "wk", "wv"}) rules += "\"b{i}." + std::string(w) + "\": " + rule + ", ";
    std::string block = R"("a": {"attention": {"n_heads": 4, "n_kv_heads": 2}, "ffn": {"d_ff": 24}})";
    return Read(Own(block, "\"tensors\": {" + rules + "\"embed\": \"e\"}, "));
  };
  Description d = read(fused + "}");
  CheckTensorNames(d, "d.json");
  std::vector<WeightUse> uses = WeightsOf(d);
  EXPECT_EQ(ToText(uses[2].name), "b0.wq_wk_wv");
  EXPECT_EQ(uses[2].source.from, "l0.qkv");
  EXPECT_EQ(uses[2].dims, (std::vector<int64_t>{32, 16}));
  EXPECT_TRUE(uses[2].fused);
  ASSERT_TRUE(uses[4].cut);
  EXPECT_EQ(ToText(uses[4].name), "b0.wk");
  EXPECT_EQ(uses[4].cut->begin, 16);
  EXPECT_EQ(uses[4].cut->count, 8);
  EXPECT_EQ(PrintDescription(Read(PrintDescription(d))), PrintDescription(d));

  // Two kv heads: each has the rows of its two query heads, its key and its value.
  d = read(fused + R"(, "groups": "attention.n_kv_heads"})");
  uses = WeightsOf(d);
  EXPECT_EQ(uses[4].cut->begin, 8);
  EXPECT_EQ(uses[4].cut->count, 4);
  EXPECT_EQ(uses[4].cut->every, 16);
  EXPECT_EQ(uses[4].cut->times, 2);

  // Of four groups by a number: four rows of queries, two of keys, two of values in each.
  d = read(fused + R"(, "groups": 4})");
  uses = WeightsOf(d);
  EXPECT_EQ(uses[4].cut->begin, 4);
  EXPECT_EQ(uses[4].cut->count, 2);
  EXPECT_EQ(uses[4].cut->every, 8);
  EXPECT_EQ(uses[4].cut->times, 4);
  EXPECT_EQ(PrintDescription(Read(PrintDescription(d))), PrintDescription(d));

  for (const char* bad : {R"({"from": "x", "parts": ["wq", "wz"]})", R"({"from": "x", "parts": ["wk", "wv"]})",
                          R"({"from": "x", "parts": ["wq", "wk", "wv", "w_down"]})",
                          R"({"from": "x", "parts": ["wq", "wk", "wv"], "groups": "attention.bias"})",
                          R"({"from": "x", "parts": ["wq", "wk", "wv"], "groups": 0})",
                          R"({"from": "x", "parts": ["wq", "wk", "wv"], "groups": 3})",
                          R"({"from": "x", "parts": ["wq", "wk", "wv"], "groups": "ffn.d_ff"})"}) {
    Description wrong = read(bad);
    ErrorOf(DiagKind::BadValue, [&] { CheckTensorNames(wrong, "d.json"); });
  }
}

TEST(WeightList, Patterns) {
  EXPECT_TRUE(MatchesPattern("vision.*", "vision.x.1"));
  EXPECT_FALSE(MatchesPattern("vision.*", "vision"));
  EXPECT_TRUE(MatchesPattern("a.{i}.b", "a.12.b"));
  EXPECT_FALSE(MatchesPattern("a.{i}.b", "a..b"));
  EXPECT_FALSE(MatchesPattern("a.{i}.b", "a.1.bc"));
  EXPECT_FALSE(MatchesPattern("a.{i}.b", "a.x.b"));
  EXPECT_TRUE(MatchesPattern("a{i}", "a7"));
}

}  // namespace
}  // namespace llmc
