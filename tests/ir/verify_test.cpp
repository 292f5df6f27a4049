// The verifier: a module that is right, and one text or edit for each way in which it can be wrong, with kind and line.
#include "ir/verify.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/text.h"
#include "tests/ir/texts.h"

namespace llmc {
namespace {

using test::Thrown;

const char* const kGood = R"(module @tiny {after = import}
dim S = 1..64
weight $embed : f32[40, 32]
weight $wq : f32[32, 32]
weight $wk : f32[16, 32]
weight $gain : f32[32]
const $wqk : f32[48, 32] tiles16 = pack $wq, $wk
const $rope : f32[64, 8] = rope_table {theta = 10000.0}
state $k : f32[64, 2, 8] {kind = kv, window = none}
state $v : f32[64, 2, 8] {kind = kv, window = 8}
func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) where S = 1..16 {
  %x = embed $embed, %tokens : f32[S, 32]
  %n = rms_norm %x, $gain {eps = 1e-05} : f32[S, 32]
  %q, %kv = linear %n, $wqk {split = [32, 16]} : f32[S, 32], f32[S, 16]
  %q2 = reshape %q {to = [S, 4, 8]} : f32[S, 4, 8]
  %k2 = reshape %kv {to = [S, 2, 8]} : f32[S, 2, 8]
  %q3 = rope %q2, $rope, %pos {pairs = half} : f32[S, 4, 8]
  %ck = kv_append $k, %k2, %pos : $k
  %cv = kv_append $v, %k2, %pos : $v
  %a = attention %q3, %ck, %cv, %pos {scale = 0.5} : f32[S, 4, 8]
  %a2 = reshape %a {to = [S, 32]} : f32[S, 32]
  %y = add %a2, %x : f32[S, 32]
  %logits = linear %y, $embed : f32[S, 40]
  return %logits
}
)";

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

void ParseAndVerify(const std::string& text) { Verify(Parse(text, "t"), "t"); }

TEST(Verify, AcceptsAGoodModule) { EXPECT_NO_THROW(ParseAndVerify(kGood)); }

TEST(Verify, NamesKindAndLine) {
  struct Case {
    const char* thrown;
    const char* from;
    const char* to;
  };
  const Case cases[] = {
      // globals
      {"InvalidModule 3", "$embed : f32[40, 32]", "$embed : f32[S, 32]"},
      {"InvalidModule 3", "$embed : f32[40, 32]", "$embed : f32[2000000000, 2000000000]"},
      {"InvalidModule 3", "$embed : f32[40, 32]", "$embed : q8_0[40, 31]"},
      {"InvalidModule 3", "$embed : f32[40, 32]", "$embed : f32[40, 32] tiles16"},
      {"InvalidModule 3", "$embed : f32[40, 32]", "$embed : a8[40, 32]"},
      {"InvalidModule 9", "$k : f32[64, 2, 8]", "$k : f32[64, 16]"},
      {"InvalidModule 9", "$k : f32[64, 2, 8]", "$k : i32[64, 2, 8]"},
      {"BadAttribute 9", "kind = kv, window = none", "window = none"},
      {"BadAttribute 9", "kind = kv, window = none", "kind = ssm, window = none"},
      {"BadAttribute 9", "kind = kv, window = none", "kind = kv, window = 0"},
      {"InvalidModule 9", "kind = kv, window = none", "kind = kv, window = none, more = 1"},
      // recipes
      {"TypeMismatch 7", "= pack $wq, $wk", "= pack"},
      {"ConstraintViolated 8", "rope_table {", "rope_table $wq {"},
      {"TypeMismatch 8", "rope_table {", "rope_table $wq, $wk {"},
      {"BadAttribute 8", "{theta = 10000.0}", ""},
      {"BadAttribute 8", "theta = 10000.0", "theta = 10000.0, kind = ntk"},
      {"ConstraintViolated 7", "[48, 32] tiles16", "[48, 32]"},
      {"ConstraintViolated 7", "[48, 32] tiles16", "[64, 32] tiles16"},
      {"ConstraintViolated 7", "pack $wq, $wk", "pack $wq, $gain"},
      {"ConstraintViolated 7", "pack $wq, $wk", "pack $wq, $wk {interleave = true}"},
      {"ConstraintViolated 8", "f32[64, 8] = rope", "f32[64, 7] = rope"},
      {"ConstraintViolated 8", "rope_table {theta = 10000.0}", "rows $embed {begin = 30, count = 11}"},
      {"ConstraintViolated 8", "rope_table {theta = 10000.0}", "rows $embed {begin = 0, count = 10}"},
      {"ConstraintViolated 8", "rope_table {theta = 10000.0}", "add $embed {value = 1.0}"},
      {"ConstraintViolated 8", "rope_table {theta = 10000.0}", "cast $embed"},
      {"ConstraintViolated 8", "rope_table {theta = 10000.0}", "quantize $embed"},
      // functions
      {"InvalidModule", "S = 1..16", "S = 1..65"},
      {"InvalidModule", "S = 1..16", "S = 1..16, S = 1..2"},
      {"InvalidModule", "%total: i32[]", "%total: i32[1]"},
      {"TypeMismatch", "return %logits", "return %pos"},
      {"InvalidModule", "return %logits", "return %logits, %y"},
      {"InvalidModule", "return %logits", "return $wq"},
      // ops
      {"TypeMismatch 12", "f32[S, 32]", "f32[S, 31]"},
      {"TypeMismatch 12", "embed $embed, %tokens :", "embed $embed :"},
      {"TypeMismatch 12", "%x = embed $embed, %tokens : f32[S, 32]",
       "%x, %e = embed $embed, %tokens : f32[S, 32], f32[S, 32]"},
      {"ConstraintViolated 13", "rms_norm %x, $gain", "rms_norm %x, $wq"},
      {"BadAttribute 13", " {eps = 1e-05}", ""},
      {"BadAttribute 17", "pairs = half", "pairs = both"},
      {"TypeMismatch 18", ": $k", ": $v"},
      {"InvalidModule 21", ": f32[S, 32]\n  %y", ": f32[S, 32] tiles16\n  %y"},
      // states
      {"StateMisuse 19", "kv_append $v, %k2, %pos : $v", "kv_append $k, %k2, %pos : $k"},
      {"StateMisuse 19", "kv_append $v, %k2, %pos : $v", "kv_append %ck, %k2, %pos : $k"},
      {"StateMisuse 21", "%a2 = reshape %a ",
       "%z = attention %q3, $k, %cv, %pos {scale = 0.5} : f32[S, 4, 8]\n  %a2 = reshape %z "},
      {"StateMisuse 18", "%q3, %ck, %cv", "%q3, %cv, %cv"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Thrown([&] { ParseAndVerify(Replace(kGood, c.from, c.to)); }), c.thrown) << c.from << " -> " << c.to;
  }
}

// A state that holds the past is the first operand of one op, which takes no other.
TEST(Verify, StatesOfThePast) {
  const std::string good =
      "module @m {after = import, context = 8}\ndim S = 1..8\nweight $embed : f32[16, 8]\nweight $w : f32[3, 8]\n"
      "state $h : f32[2, 8] {kind = history}\nstate $g : f32[2, 8] {kind = history}\n"
      "state $k : f32[8, 1, 8] {kind = kv, window = none}\nstate $r : f32[8, 1, 8] {kind = recurrent}\n"
      "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n  %x = embed $embed, %tokens : f32[S, 8]\n"
      "  %y = conv1d $h, %x, $w, %pos : f32[S, 8]\n  %z = conv1d $g, %y, $w, %pos : f32[S, 8]\n"
      "  %xh = reshape %z {to = [S, 1, 8]} : f32[S, 1, 8]\n  %ck = kv_append $k, %xh, %pos : $k\n"
      "  %a = attention %xh, %ck, %ck, %pos {scale = 0.5} : f32[S, 1, 8]\n"
      "  %o = reshape %a {to = [S, 8]} : f32[S, 8]\n  return %o\n}\n";
  EXPECT_NO_THROW(ParseAndVerify(good));
  EXPECT_EQ(Thrown([&] { ParseAndVerify(Replace(good, "conv1d $g", "conv1d $h")); }).substr(0, 11), "StateMisuse");
  EXPECT_EQ(Thrown([&] {
              ParseAndVerify(Replace(Replace(good, "kv_append $k", "kv_append $r"), ": $k\n", ": $r\n"));
            }).substr(0, 11),
            "StateMisuse");
  EXPECT_EQ(Thrown([&] { ParseAndVerify(Replace(good, "f32[2, 8] {kind", "f16[2, 8] {kind")); }).substr(0, 13),
            "InvalidModule");
}

TEST(Verify, RefusesWhatOnlyAnEditCanMake) {
  const auto thrown = [](const std::function<void(Module&)>& edit) {
    Module module = Parse(kGood, "t");
    edit(module);
    return Thrown([&] { Verify(module, "t"); });
  };
  EXPECT_EQ(thrown([](Module& m) { m.name = "a b"; }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.options.Set("x", std::string("true")); }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.options.Set("x", std::vector<Dim>{Dim("1a")}); }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.options.Set("a.b", true); }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.dims[0].symbol = "s"; }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.dims[0].min = 0; }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.dims.push_back(m.dims[0]); }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.dims.clear(); }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.globals[1].name.base = "1"; }), "InvalidModule 4");
  EXPECT_EQ(thrown([](Module& m) { m.globals[1].name = m.globals[0].name; }), "DuplicateName 4");
  EXPECT_EQ(thrown([](Module& m) { m.globals[6].type.state = 7; }), "InvalidModule 9");
  EXPECT_EQ(thrown([](Module& m) { m.globals[1].type.dims.resize(5, Dim(1)); }), "InvalidModule 4");
  EXPECT_EQ(thrown([](Module& m) { m.globals[1].offset = -64; }), "InvalidModule 4");
  EXPECT_EQ(thrown([](Module& m) { m.globals[4].recipe.inputs[0] = 5; }), "InvalidModule 7");
  EXPECT_EQ(thrown([](Module& m) { m.funcs.push_back(m.funcs[0]); }), "DuplicateName");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].name = ""; }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].ops[0].results[0] = 99; }), "InvalidModule 12");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].ops[1].operands[0].index = 99; }), "InvalidModule 13");
  EXPECT_EQ(thrown([](Module& m) { std::swap(m.funcs[0].ops[0], m.funcs[0].ops[1]); }), "InvalidModule 13");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].ops[1].results = m.funcs[0].ops[0].results; }), "InvalidModule 13");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].values[4].name = m.funcs[0].values[3].name; }), "DuplicateName 13");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].values.push_back(m.funcs[0].values[3]); }), "InvalidModule");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].ops[1].attrs.Set("x", true); }), "UnknownAttribute 13");
  EXPECT_EQ(thrown([](Module& m) { m.funcs[0].ops[1].attrs.Set("eps", int64_t{1}); }), "BadAttribute 13");
}

TEST(Verify, MessagesNameTheFile) {
  try {
    Verify(Parse(Replace(kGood, "f32[S, 32]", "f32[S, 31]"), "a"), "x.llmc (after fuse-qkv)");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "x.llmc (after fuse-qkv):12: error: embed: %x is f32[S, 31], the op makes f32[S, 32] [TypeMismatch]");
  }
}

// Every kind that ir/ throws is provoked by a test of this folder.
TEST(Verify, EveryKindIsProvoked) {
  const std::string root = LLMC_SOURCE_DIR;
  const auto kinds_in = [](const std::filesystem::path& folder, const std::string& pattern) {
    std::set<std::string> kinds;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      std::stringstream text;
      text << file.rdbuf();
      const std::string content = text.str();
      const std::regex regex(pattern);
      for (std::sregex_iterator it(content.begin(), content.end(), regex), end; it != end; ++it) {
        kinds.insert((*it)[1]);
      }
    }
    return kinds;
  };
  const std::set<std::string> provoked = kinds_in(root + "/tests/ir", "([A-Z][A-Za-z]+)\\b");
  for (const std::string& kind : kinds_in(root + "/ir", "DiagKind::([A-Za-z]+)")) {
    EXPECT_TRUE(provoked.contains(kind)) << kind << " is thrown by ir/ and named by no test in tests/ir/";
  }
}

}  // namespace
}  // namespace llmc
