// The verifier's rules S1..S6 and M1..M3: a plan that is right, and what breaks each rule.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/ir/texts.h"

namespace llmc {
namespace {

const char* const kGood =
    R"(module @tiny {shared_bytes = 4096, private_bytes = 512, weight_bytes = 16384, state_bytes = 8192}
dim S = 1..64
weight $embed : f32[40, 32] @0
weight $wq : f32[32, 32] @5120
weight $wk : f32[16, 32] @9216
weight $gain : f32[32] @12288
const $rope : f32[64, 8] @12416 = rope_table {theta = 10000.0}
state $k : f32[64, 2, 8] @0 {kind = kv, window = none}
state $v : f32[64, 2, 8] @4096 {kind = kv, window = none}
func @score(%tokens: i32[S], %pos: i32[], %total: i32[]) where S = 1..2 {
  %x = embed $embed, %tokens {fn = 0, step = 0, over = all} : f32[S, 32] private+0
  %n = rms_norm %x, $gain {eps = 1e-05, fn = 1, step = 0, over = all} : f32[S, 32] none
  %n2 = add %n, %n {fn = 1, step = 0, over = all} : f32[S, 32] none
  %n3 = add %n2, %n2 {fn = 1, step = 0, over = all} : f32[S, 32] private+256
  return %n3
}
)";

const char* const kDivided = R"(module @tiny {shared_bytes = 1152}
dim S = 1..64
weight $embed : f32[40, 32]
weight $wq : f32[32, 32]
weight $wk : f32[16, 32]
const $rope : f32[64, 8] = rope_table {theta = 10000.0}
state $k : f32[64, 2, 8] {kind = kv, window = none}
state $v : f32[64, 2, 8] {kind = kv, window = none}
func @score(%tokens: i32[S], %pos: i32[], %total: i32[]) where S = 1..2 {
  %x = embed $embed, %tokens {fn = 0, step = 0, over = rows} : f32[S, 32] shared+0
  %q = linear %x, $wq {fn = 1, step = 1, over = tiles} : f32[S, 32] shared+256
  %kv = linear %x, $wk {fn = 2, step = 1, over = tiles} : f32[S, 16] shared+512
  %q2 = reshape %q {to = [S, 4, 8]} : f32[S, 4, 8] shared+256
  %k2 = reshape %kv {to = [S, 2, 8]} : f32[S, 2, 8] shared+512
  %q3 = rope %q2, $rope, %pos {pairs = half, fn = 3, step = 2, over = heads, grain = 2} : f32[S, 4, 8] shared+640
  %ck = kv_append $k, %k2, %pos {fn = 4, step = 2, over = heads} : $k
  %cv = kv_append $v, %k2, %pos {fn = 5, step = 2, over = heads} : $v
  %a = attention %q3, %ck, %cv, %pos {scale = 0.5, fn = 6, step = 2, over = heads, grain = 2} : f32[S, 4, 8] shared+896
  %a2 = reshape %a {to = [S, 32]} : f32[S, 32] shared+896
  %s = add %a2, %x {fn = 7, step = 3, over = rows} : f32[S, 32] shared+512
  %logits = linear %s, $embed {fn = 8, step = 4, over = tiles} : f32[S, 40]
  return %logits
}
)";

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// "BadSchedule 12 (S3)"
std::string Broken(const std::string& text) {
  try {
    Verify(Parse(text, "t"), "t");
  } catch (const InputError& error) {
    const std::string& message = error.diag().message;
    return std::string(DiagName(error.diag().kind)) + " " + error.diag().place.at + " " +
           message.substr(message.rfind('('));
  }
  return "";
}

struct Case {
  const char* thrown;
  const char* from;
  const char* to;
};

TEST(Schedule, AcceptsGoodPlans) {
  EXPECT_EQ(Broken(Replace(kGood, "return %n3",
                           "%l = linear %n3, $wq {fn = 2, step = 0, over = tiles} : f32[S, 32]\n"
                           "  return %l")),
            "");
  EXPECT_EQ(Broken(kDivided), "");
}

TEST(Schedule, EveryRuleIsChecked) {
  const std::string good =
      Replace(kGood, "return %n3", "%l = linear %n3, $wq {fn = 2, step = 0, over = tiles} : f32[S, 32]\n  return %l");
  const Case cases[] = {
      {"BadSchedule 11 (S1)", "fn = 0, step = 0, over = all", "fn = 0, step = 0, over = keys"},
      {"BadSchedule 12 (S2)", "{eps = 1e-05, fn = 1, step = 0, over = all}", "{eps = 1e-05}"},
      {"BadSchedule 12 (S2)", "{fn = 0, step = 0", "{fn = 2, step = 0"},
      {"BadSchedule 12 (S2)", "{fn = 0, step = 0", "{fn = 0, step = 1"},
      {"BadSchedule 14 (S2)", "%n2, %n2 {fn = 1, step = 0, over = all}", "%n2, %n2 {fn = 1, step = 0, over = rows}"},
      {"BadSchedule 14 (S4)", "%n2, %n2 {fn = 1", "%n2, %n2 {fn = 2"},
      {"BadSchedule 11 (S4)", "private+0", "shared+0"},
      {"BadSchedule 11 (S5)", " private+0", ""},
      {"BadSchedule 15 (S5)", "over = tiles} : f32[S, 32]", "over = tiles} : f32[S, 32] shared+0"},
      {"BadSchedule 15 (S4)", "{fn = 2, step = 0, over = tiles}", "{fn = 2, step = 0, over = all}"},
      {"BadPlan 14 (M1)", "private+256", "private+128"},
      {"BadPlan 14 (M1)", "private+256", "private+100"},
      {"BadPlan 11 (M1)", "private+256", "private"},
      {"BadPlan 14 (M2)", "private_bytes = 512", "private_bytes = 448"},
      {"BadPlan 5 (M3)", "$wk : f32[16, 32] @9216", "$wk : f32[16, 32] @9152"},
      {"BadPlan 4 (M3)", "@5120", "@5124"},
      {"BadPlan 7 (M3)", "weight_bytes = 16384", "weight_bytes = 12416"},
      {"BadPlan 9 (M3)", "@4096 {kind", "@0 {kind"},
      {"BadPlan 9 (M3)", "state_bytes = 8192", "state_bytes = 8191"},
  };
  for (const Case& c : cases) EXPECT_EQ(Broken(Replace(good, c.from, c.to)), c.thrown) << c.from << " -> " << c.to;
}

TEST(Schedule, WhatOtherThreadsMakeIsReadBehindABarrier) {
  const Case cases[] = {
      {"BadSchedule 11 (S3)", "{fn = 1, step = 1", "{fn = 1, step = 0"},
      {"BadSchedule 15 (S3)", "fn = 3, step = 2, over = heads", "fn = 3, step = 1, over = heads"},
      {"BadSchedule 18 (S3)", "{pairs = half, fn = 3, step = 2, over = heads, grain = 2}",
       "{pairs = half, fn = 3, step = 2, over = heads, grain = 1}"},
      {"BadSchedule 18 (S3)", "{fn = 4, step = 2, over = heads}", "{fn = 4, step = 2, over = one}"},
      {"BadSchedule 18 (S3)", "{scale = 0.5, fn = 6, step = 2, over = heads, grain = 2}",
       "{scale = 0.5, fn = 6, step = 2, over = rows}"},
      {"BadSchedule 20 (S3)", "{fn = 7, step = 3", "{fn = 7, step = 2"},
      {"BadSchedule 21 (S3)", "{fn = 8, step = 4", "{fn = 8, step = 3"},
      {"BadSchedule 16 (S6)", "{fn = 4, step = 2, over = heads}", "{fn = 4, step = 2, over = all}"},
      {"BadSchedule 14 (S5)", "{to = [S, 2, 8]} : f32[S, 2, 8] shared+512", "{to = [S, 2, 8]} : f32[S, 2, 8] shared"},
      {"BadSchedule 13 (S2)", "reshape %q {to = [S, 4, 8]}",
       "reshape %q {to = [S, 4, 8], fn = 2, step = 1, over = all}"},
      // %k2 is a view of %kv, which lives until step 2.
      {"BadPlan 15 (M1)", "shared+640", "shared+512"},
      {"BadPlan 15 (M1)", "shared+640", "shared+448"},
      // %x lives until the add in step 3.
      {"BadPlan 11 (M1)", "shared+0", "shared+64"},
      {"BadPlan 18 (M2)", "shared_bytes = 1152", "shared_bytes = 1151"},
  };
  for (const Case& c : cases) EXPECT_EQ(Broken(Replace(kDivided, c.from, c.to)), c.thrown) << c.from << " -> " << c.to;
}

TEST(Schedule, TwoThatOneThreadDoesNeedNoBarrier) {
  std::string text = Replace(kDivided, "{fn = 0, step = 0, over = rows}", "{fn = 0, step = 0, over = one}");
  text = Replace(text, "{fn = 1, step = 1, over = tiles}", "{fn = 1, step = 0, over = one}");
  EXPECT_EQ(Broken(text), "");
}

TEST(Schedule, AnUnscheduledFunctionHasNoPlaces) {
  EXPECT_EQ(Broken(test::Wrap("%x = embed $embed, %tokens : f32[S, 32] shared\n  return %x\n")), "BadSchedule 10 (S5)");
}

}  // namespace
}  // namespace llmc
