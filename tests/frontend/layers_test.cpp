// Which block each layer is: the rules of presets, on configs made for them.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/build_module.h"
#include "frontend/preset_rules.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/frontend/support.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using Names = std::vector<std::string>;

Names Layers(const std::string& config, const std::string& rules, int64_t n = 6) {
  const HfConfig source(ParseJson(config, "config.json"), "config.json");
  return LayerBlocks(Rules(source, "arch"), ParseJson(rules, "rules.json"), n);
}

TEST(Layers, ByTypes) {
  const std::string rules = R"([{"types": "kinds", "map": {"conv": "a", "full": "b"}}, {"block": "c"}])";
  EXPECT_EQ(Layers(R"({"kinds": ["conv", "full", "conv"]})", rules, 3), (Names{"a", "b", "a"}));
  EXPECT_EQ(Layers("{}", rules, 2), (Names{"c", "c"}));
  EXPECT_EQ(Layers(R"({"kinds": null})", rules, 2), (Names{"c", "c"}));
  EXPECT_EQ(Layers(R"({"flags": [1, 0]})", R"([{"types": "flags", "map": {"0": "a", "1": "b"}}])", 2),
            (Names{"b", "a"}));
  test::ErrorOf(DiagKind::BadValue, [&] { Layers(R"({"kinds": ["conv"]})", rules, 2); });
  test::ErrorOf(DiagKind::Unsupported, [&] { Layers(R"({"kinds": ["conv", "x"]})", rules, 2); });
  test::ErrorOf(DiagKind::BadValue, [&] { Layers(R"({"kinds": [["conv"], "full"]})", rules, 2); });
}

TEST(Layers, ByLetters) {
  const std::string rules = R"([{"letters": "pattern", "map": {"M": "a", "*": "b"}}, {"block": "c"}])";
  EXPECT_EQ(Layers(R"({"pattern": "MM*"})", rules, 3), (Names{"a", "a", "b"}));
  test::ErrorOf(DiagKind::BadValue, [&] { Layers(R"({"pattern": "MM"})", rules, 3); });
  test::ErrorOf(DiagKind::Unsupported, [&] { Layers(R"({"pattern": "MMx"})", rules, 3); });
}

TEST(Layers, ByLists) {
  const std::string rules = R"([{"listed": "full", "base": 1, "block": "a", "rest": "b"}, {"block": "c"}])";
  EXPECT_EQ(Layers(R"({"full": [1, 3]})", rules, 3), (Names{"a", "b", "a"}));
  EXPECT_EQ(Layers(R"({"full": []})", rules, 2), (Names{"b", "b"}));
  for (const char* bad : {"[0]", "[4]", "[1.5]", "[\"x\"]"})
    test::ErrorOf(DiagKind::BadValue, [&] { Layers("{\"full\": " + std::string(bad) + "}", rules, 3); });
}

TEST(Layers, ByZeros) {
  const std::string rules = R"([{"zero": "kv", "block": "a", "rest": "b"}, {"block": "c"}])";
  EXPECT_EQ(Layers(R"({"kv": [0, 2, 0]})", rules, 3), (Names{"a", "b", "a"}));
  EXPECT_EQ(Layers(R"({"kv": 2})", rules, 2), (Names{"c", "c"}));
  EXPECT_EQ(Layers("{}", rules, 2), (Names{"c", "c"}));
  test::ErrorOf(DiagKind::BadValue, [&] { Layers(R"({"kv": [0, 2]})", rules, 3); });
  const std::string two = R"([{"zero": "kv", "block": [{"zero": "ff", "block": "a", "rest": "b"}], "rest": "c"}])";
  EXPECT_EQ(Layers(R"({"kv": [0, 2, 0], "ff": [0, 0, 9]})", two, 3), (Names{"a", "c", "b"}));
}

TEST(Rules, EntriesOfListsAndTheirNumber) {
  const auto value = [](const std::string& config, const std::string& rule) {
    const HfConfig source(ParseJson(config, "config.json", {.nonfinite = true}), "config.json");
    return Rules(source, "arch").Evaluate("x", ParseJson(rule, "rules.json"));
  };
  const std::string second = R"({"keys": ["limits.1"], "absent": 7})";
  EXPECT_EQ(value(R"({"limits": [0.5, 0.25]})", second).number, 0.25);
  EXPECT_TRUE(std::isinf(value(R"({"limits": [0.5, Infinity]})", second).number));
  EXPECT_TRUE(std::isinf(value(R"({"limits": [0, {"__float__": "Infinity"}]})", second).number));
  for (const char* none : {"{}", R"({"limits": null})", R"({"limits": [1]})"})
    EXPECT_EQ(value(none, second).integer, 7) << none;
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"({"limits": 3})", second); });
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"({"limits": [1, [2]]})", second); });
  const std::string length = R"({"length": ["kinds", "pattern"]})";
  EXPECT_EQ(value(R"({"kinds": ["a", "b"], "pattern": "MM*"})", length).integer, 2);
  EXPECT_EQ(value(R"({"kinds": null, "pattern": "MM*"})", length).integer, 3);
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"({"kinds": 3})", length); });
  test::ErrorOf(DiagKind::MissingKey, [&] { value("{}", length); });
  const std::string of_full = R"({"entry": "heads", "where": "kinds", "is": "full"})", last = R"({"last": "heads"})";
  const std::string lists = R"({"heads": [2, 1, 3], "kinds": ["x", "full", "full"]})";
  EXPECT_EQ(value(lists, of_full).integer, 1);
  EXPECT_EQ(value(lists, last).integer, 3);
  EXPECT_EQ(value(lists, R"({"entry": "heads"})").integer, 2);
  for (const std::string& rule : {of_full, last}) EXPECT_EQ(value(R"({"heads": 5})", rule).integer, 5);
  EXPECT_EQ(value("{}", R"({"entry": "heads", "absent": 4})").integer, 4);
  test::ErrorOf(DiagKind::MissingKey, [&] { value("{}", last); });
  test::ErrorOf(DiagKind::MissingKey, [&] { value(R"({"heads": [2]})", of_full); });
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"({"heads": [2], "kinds": ["full", "x"]})", of_full); });
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"({"heads": []})", last); });
}

TEST(Rules, TheNumberBesideZero) {
  const auto value = [](const std::string& config) {
    const HfConfig source(ParseJson(config, "config.json"), "config.json");
    return Rules(source, "arch").Evaluate("x", ParseJson(R"({"nonzero": "kv"})", "r")).integer;
  };
  EXPECT_EQ(value(R"({"kv": [0, 4, 0, 4]})"), 4);
  EXPECT_EQ(value(R"({"kv": 2})"), 2);
  test::ErrorOf(DiagKind::Unsupported, [&] { value(R"({"kv": [0, 4, 8]})"); });
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"({"kv": [0, 0]})"); });
  test::ErrorOf(DiagKind::MissingKey, [&] { value("{}"); });
}

TEST(Layers, ByPeriodAndByFirst) {
  EXPECT_EQ(Layers("{}", R"([{"every": 3, "block": "a", "rest": "b"}])"), (Names{"b", "b", "a", "b", "b", "a"}));
  EXPECT_EQ(Layers("{}", R"([{"every": 2, "at": 0, "block": "a", "rest": "b"}])", 3), (Names{"a", "b", "a"}));
  const std::string period = R"([{"every": {"keys": ["n"], "absent": 4}, "block": "a", "rest": "b"}])";
  EXPECT_EQ(Layers("{\"n\": 2}", period, 3), (Names{"b", "a", "b"}));
  test::ErrorOf(DiagKind::BadValue, [&] { Layers("{\"n\": 0}", period); });
  const std::string first = R"([{"first": {"keys": ["k"], "absent": 1}, "block": "a", "rest": "b"}])";
  EXPECT_EQ(Layers("{}", first, 3), (Names{"a", "b", "b"}));
  EXPECT_EQ(Layers("{\"k\": 9}", first, 2), (Names{"a", "a"}));
  EXPECT_EQ(Layers("{\"k\": 0}", first, 2), (Names{"b", "b"}));
}

TEST(Rules, Compute) {
  const HfConfig source(ParseJson(R"({"d": 64, "f": 0.25})", "config.json"), "config.json");
  Rules rules(source, "arch");
  for (const char* key : {"d", "f"})
    rules.Remember(key, rules.Evaluate(key, ParseJson(R"({"keys": [")" + std::string(key) + "\"]}", "r")));
  auto value = [&](const std::string& e) { return rules.Evaluate("x", ParseJson("{\"compute\": " + e + "}", "r")); };
  EXPECT_EQ(value(R"(["sqrt", "d"])").integer, 8);
  EXPECT_EQ(value(R"(["floor", ["mul", "d", "f"]])").integer, 16);
  EXPECT_EQ(value(R"(["div", 1, "d"])").number, 1.0 / 64);
  EXPECT_EQ(value(R"(["or", 0, "d"])").integer, 64);
  EXPECT_EQ(value(R"(["pow", "d", -0.5])").number, 0.125);
  EXPECT_EQ(value(R"(["sub", "d", 60, 1])").integer, 3);
  test::ErrorOf(DiagKind::BadValue, [&] { value(R"(["div", "d", 0])"); });
}

TEST(Layers, WhatIsLeftGoesByAnotherRule) {
  const std::string rules =
      R"([{"listed": "dense", "block": "d", "rest": [{"every": {"keys": ["step"], "absent": 1}, "block": "s", "rest": "d"}]},)"
      R"( {"block": "x"}])";
  EXPECT_EQ(Layers(R"({"dense": [3], "step": 2})", rules), (Names{"d", "s", "d", "d", "d", "s"}));
  EXPECT_EQ(Layers(R"({"dense": [], "step": 1})", rules), (Names{"s", "s", "s", "s", "s", "s"}));
  EXPECT_EQ(Layers("{}", rules, 2), (Names{"x", "x"}));
}

// A mixture of experts in every way that the part has, as llmc's own description.
std::string Mixture(const std::string& ffn) {
  return R"({"llmc": 1, "vocab": 40, "d_model": 32, "n_layers": 2, "max_context": 64,
    "blocks": {"all": {"attention": {"n_heads": 4, "sinks": true}, "ffn": {"kind": "experts", )" +
         ffn + "}}}}";
}

Module Built(const std::string& text) {
  const Description d = ReadDescription(ParseJson(text, "d.json"), "d.json");
  const BoundWeights weights = UnboundWeights(d);
  BuildOptions options;
  options.context = 64;
  options.chunk = 16;
  Module module = BuildModule(d, weights, options);
  Verify(module, "import");
  return module;
}

TEST(Experts, BuildInEveryWay) {
  for (
      const char* ffn :
      {R"("d_ff": 16, "count": 8, "used": 2)",
       R"("d_ff": 48, "count": 8, "used": 4, "score": "sigmoid", "choice_bias": true, "groups": 4, "keep": 2,
            "group_by": "sum2", "renorm": "add", "renorm_by": 1e-20, "weight_scale": 2.5, "shared": 24)",
       R"("d_ff": 16, "count": 3, "used": 1, "score": "softmax_of_chosen", "router_bias": true, "bias": true,
            "act": "swiglu_clamped", "alpha": 1.702, "limit": 7)",
       R"("d_ff": 16, "count": 6, "used": 6, "renorm": "least", "renorm_by": 1e-12, "shared": 20, "shared_gate": true)",
       R"("d_ff": 16, "count": 6, "used": 2, "gate": false, "act": "relu2", "latent": 32, "shared": 20)"}) {
    SCOPED_TRACE(ffn);
    const std::string text = Print(Built(Mixture(ffn)));
    EXPECT_NE(text.find("expert_linear"), std::string::npos);
    EXPECT_NE(text.find("combine"), std::string::npos);
  }
}

// Four layers of which the last two read the caches of the first two, by their windows.
std::string Shared(const std::string& layers, const std::string& more = "") {
  return R"({"llmc": 1, "vocab": 40, "d_model": 16, "n_layers": 4, "max_context": 64, )" + more + R"("blocks": {
    "a": {"attention": {"n_heads": 4, "n_kv_heads": 2, "window": 8, "v_norm": true}, "ffn": {"d_ff": 20}, "wiring": {"scalar": true}},
    "b": {"attention": {"n_heads": 4, "n_kv_heads": 1, "v_is_k": true}, "position": {"turning": 1}, "ffn": {"d_ff": 20}},
    "c": {"attention": {"n_heads": 4, "n_kv_heads": 2, "window": 8, "shares": true}, "ffn": {"d_ff": 20}},
    "d": {"attention": {"n_heads": 4, "n_kv_heads": 1, "shares": true}, "ffn": {"d_ff": 20}}},
    "layers": [)" +
         layers + "]}";
}

TEST(SharedCaches, AreThoseOfTheLastLayerThatFits) {
  const std::string text = Print(Built(Shared(R"("a", "b", "d", "c")")), {.flat = true});
  EXPECT_NE(text.find("%b2.att = attention %b2.q_rot, %b1.keys, %b1.values"), std::string::npos) << text;
  EXPECT_NE(text.find("%b3.att = attention %b3.q_rot, %b0.keys, %b0.values"), std::string::npos) << text;
  for (const char* none : {"$b2.k ", "$b3.k ", "$b2.v ", "$b2.wk ", "$b3.wv ", "$b1.wv "})
    EXPECT_EQ(text.find(none), std::string::npos) << none;
  EXPECT_NE(text.find("turning = 1"), std::string::npos);
  EXPECT_NE(text.find("repeat $b0.layer_scalar {times = 16}"), std::string::npos) << text;
  test::ErrorOf(DiagKind::BadValue, [] { Built(Shared(R"("c", "a", "b", "d")")); });
  test::ErrorOf(DiagKind::BadValue, [] { Built(Shared(R"("a", "a", "d", "c")")); });
}

TEST(PerLayer, HasARowOfItsOwnTableInEachLayer) {
  const std::string text =
      Print(Built(Shared(R"("a", "b", "d", "c")", R"("per_layer": 6, "per_layer_vocab": 30, )")), {.flat = true});
  EXPECT_NE(text.find("weight $layer_embed : f32[120, 6]"), std::string::npos) << text;
  EXPECT_NE(text.find("rows $layer_embed {begin = 3, count = 1, every = 4, times = 30}"), std::string::npos) << text;
  test::ErrorOf(DiagKind::MissingKey, [] { Built(Shared(R"("a", "b", "d", "c")", R"("per_layer": 6, )")); });
}

std::string Latent(const std::string& mla) {
  return R"({"llmc": 1, "vocab": 40, "d_model": 32, "n_layers": 2, "max_context": 64,
    "blocks": {"all": {"mla": {)" +
         mla + R"(}, "ffn": {"d_ff": 40}}}})";
}
const std::string kLatent = R"("n_heads": 3, "kv_lora": 32, "d_nope": 12, "d_rope": 8, "d_v": 16)";

TEST(Mla, BuildsInEveryWay) {
  for (const char* more :
       {"", R"(, "q_lora": 20)", R"(, "bias": true, "scale": 0.5, "eps": 1e-5)", R"(, "k_b": "turned")"}) {
    SCOPED_TRACE(more);
    const std::string text = Print(Built(Latent(kLatent + more)));
    EXPECT_NE(text.find("state $b{i}.k : f16[64, 3, 20]"), std::string::npos) << text;
    EXPECT_NE(text.find("state $b{i}.v : f16[64, 3, 16]"), std::string::npos) << text;
  }
}

TEST(Mla, RulesAmongItsFields) {
  const auto refused = [](const std::string& mla, DiagKind kind = DiagKind::BadValue) {
    return test::ErrorOf(kind, [&] { Built(Latent(mla)); });
  };
  EXPECT_NE(refused(R"("n_heads": 3, "kv_lora": 24, "d_nope": 12, "d_rope": 8, "d_v": 16)").find("multiples of 16"),
            std::string::npos);
  refused(R"("n_heads": 3, "kv_lora": 32, "d_nope": 12, "d_rope": 8, "d_v": 24)");
  refused(R"("n_heads": 3, "kv_lora": 32, "d_nope": 12, "d_rope": 7, "d_v": 16)");
  refused(R"("n_heads": 3, "kv_lora": 32, "d_nope": 5000, "d_rope": 8, "d_v": 16)");
  refused(kLatent + R"(, "q_lora": -1)");
  refused(kLatent + R"(, "eps": 1)");
  refused(R"("n_heads": 3, "kv_lora": 32, "d_rope": 8, "d_v": 16)", DiagKind::MissingKey);
}

TEST(Experts, RulesAmongTheirFields) {
  const auto refused = [](const std::string& ffn) {
    return test::ErrorOf(DiagKind::BadValue, [&] { Built(Mixture(ffn)); });
  };
  EXPECT_NE(refused(R"("d_ff": 24, "count": 8, "used": 2)").find("multiples of 16"), std::string::npos);
  refused(R"("d_ff": 16, "count": 8, "used": 9)");
  refused(R"("d_ff": 16777216, "count": 4096, "used": 2)");
  refused(R"("d_ff": 16, "count": 8, "used": 2, "groups": -2)");
  refused(R"("d_ff": 16, "count": 8, "used": 2, "groups": 3)");
  refused(R"("d_ff": 16, "count": 8, "used": 3, "groups": 4, "keep": 1)");
  refused(R"("d_ff": 16, "count": 8, "used": 2, "shared_gate": true)");
  refused(R"("d_ff": 16, "count": 8, "used": 2, "act": "swiglu_clamped")");
  refused(R"("d_ff": 16, "count": 8, "used": 2, "act": "swiglu_clamped", "alpha": 1, "limit": 7, "gate": false)");
  EXPECT_NE(refused(R"("d_ff": 16, "count": 8, "used": 2, "latent": 24)").find("ffn.latent 24"), std::string::npos);
  refused(R"("d_ff": 16, "count": 8, "used": 2, "latent": -16)");
}

// Mixers with states of the past, as llmc's own description.
std::string Recurrent(const std::string& mixer) {
  return R"({"llmc": 1, "vocab": 40, "d_model": 32, "n_layers": 2, "max_context": 64, "blocks": {"all": {)" + mixer +
         R"(, "ffn": {"d_ff": 48}}}})";
}

TEST(Recurrent, BuildInEveryWay) {
  const std::string conv = Print(Built(Recurrent(R"("short_conv": {"taps": 3, "bias": true})")));
  EXPECT_NE(conv.find("state $b{i}.history : f32[2, 32] {kind = history}"), std::string::npos) << conv;
  EXPECT_NE(conv.find("conv1d"), std::string::npos);
  const std::string net = R"("delta_net": {"n_heads": 6, "n_key_heads": 2, "d_key": 8, "d_value": 10, "taps": 4)";
  const std::string log = Print(Built(Recurrent(net + "}")));
  EXPECT_NE(log.find("state $b{i}.memory : f32[6, 8, 10] {kind = recurrent}"), std::string::npos) << log;
  EXPECT_NE(log.find("neg_exp"), std::string::npos);
  const std::string rate = Print(Built(Recurrent(net + R"(, "decay": "rate", "head_order": "tiled"})")));
  EXPECT_EQ(rate.find("neg_exp"), std::string::npos);
  EXPECT_NE(rate.find("{tiled = true}"), std::string::npos);
  const std::string gate = Print(Built(Recurrent(R"("attention": {"n_heads": 4, "bias": "qkv", "gate": "channel"})")));
  EXPECT_NE(gate.find("act = sigmoid"), std::string::npos);
}

TEST(Recurrent, RulesAmongTheirFields) {
  const auto refused = [](DiagKind kind, const std::string& mixer) {
    return test::ErrorOf(kind, [&] { Built(Recurrent(mixer)); });
  };
  refused(DiagKind::MissingKey, R"("short_conv": {})");
  EXPECT_NE(refused(DiagKind::BadValue, R"("short_conv": {"taps": 1})").find("must be 2 to 64"), std::string::npos);
  refused(DiagKind::BadValue, R"("short_conv": {"taps": 65})");
  refused(DiagKind::MissingKey, R"("delta_net": {"n_heads": 4, "d_key": 8, "taps": 4})");
  refused(DiagKind::BadValue, R"("delta_net": {"n_heads": 4, "n_key_heads": 3, "d_key": 8, "d_value": 8, "taps": 4})");
  refused(DiagKind::BadValue, R"("delta_net": {"n_heads": 16777216, "d_key": 8, "d_value": 8, "taps": 4})");
  refused(DiagKind::Unsupported,
          R"("delta_net": {"n_heads": 4, "d_key": 8, "d_value": 8, "taps": 4, "decay": "linear"})");
}

// Blocks of one part alone, and of two mixers side by side.
TEST(Parts, OneAloneOrTwoMixers) {
  const auto text = [](const std::string& block) {
    return Print(
        Built(R"({"llmc": 1, "vocab": 40, "d_model": 32, "n_layers": 1, "max_context": 64, "blocks": {"all": {)" +
              block + "}}}"));
  };
  const std::string mamba = R"("n_heads": 4, "d_head": 8, "d_state": 8, "taps": 3)";
  const std::string alone = text(R"("mamba2": {)" + mamba + R"(}, "ffn": {"kind": "none"})");
  EXPECT_EQ(alone.find("ffn"), std::string::npos) << alone;
  EXPECT_NE(alone.find("%b1.x = add %b0.x, %b0.read_out"), std::string::npos) << alone;
  const std::string ffn = text(R"("no_mixer": {}, "ffn": {"kind": "plain", "d_ff": 20})");
  EXPECT_EQ(ffn.find("attn"), std::string::npos) << ffn;
  EXPECT_NE(ffn.find("%b1.x = add %b0.x, %b0.ffn_out"), std::string::npos) << ffn;
  const std::string both =
      text(R"("attention": {"n_heads": 4}, "beside": {"kind": "mamba2", )" + mamba +
           R"(, "time_least": 0.25, "time_most": 2, "x_scale": 3}, "ffn": {"d_ff": 20}, "wiring": {"beside_in": 0.5})");
  for (const char* part : {"%b0.both = add %b0.att_out, %b0.read_out", "%b0.beside_rows = scale %b0.n {factor = 0.5}",
                           "at_least %b0.time_step {least = 0.25}", "clamp %b0.time_from {limit = 2", "{factor = 3"})
    EXPECT_NE(both.find(part), std::string::npos) << part << both;
  const auto refused = [&](const std::string& block) { test::ErrorOf(DiagKind::BadValue, [&] { text(block); }); };
  refused(R"("no_mixer": {}, "ffn": {"kind": "none"})");
  refused(R"("no_mixer": {}, "beside": {"kind": "mamba2", )" + mamba + R"(}, "ffn": {"d_ff": 20})");
  refused(R"("attention": {"n_heads": 4}, "beside": {"kind": "attention", "n_heads": 2}, "ffn": {"d_ff": 20})");
  refused(R"("attention": {"n_heads": 4}, "ffn": {"kind": "none"}, "wiring": {"order": "post"})");
  refused(R"("mamba2": {)" + mamba + R"(, "time_least": 3, "time_most": 2}, "ffn": {"d_ff": 20})");
  refused(R"("mamba2": {)" + mamba + R"(, "c_scale": 0}, "ffn": {"d_ff": 20})");
  refused(R"("attention": {"n_heads": 4}, "ffn": {"d_ff": 20, "out_scale": 0})");
}

}  // namespace
}  // namespace llmc
