// Parser and printer: canonical text, folding with periods of several layers, and every error of the parser with its
// place.
#include "ir/text.h"

#include <gtest/gtest.h>

#include "ir/verify.h"
#include "tests/ir/texts.h"

namespace llmc {
namespace {

using test::Thrown;
using test::Wrap;

std::string Reprint(const std::string& text) { return Print(Parse(text, "t")); }

void ExpectCanonical(const std::string& text) {
  EXPECT_EQ(Reprint(text), text);
  const std::string flat = Print(Parse(text, "t"), {.flat = true});
  EXPECT_EQ(flat.find("repeat"), std::string::npos);
  EXPECT_EQ(Print(Parse(flat, "t"), {.flat = true}), flat);
  EXPECT_EQ(Reprint(flat), text);
}

TEST(Text, EveryFormOfDeclarationAndStatementIsCanonical) {
  const std::string text =
      "module @tiny {after = fuse-qkv, passes = [canonicalize, fuse-qkv], context = 64, scale = 1e-05, tied = true}\n"
      "dim S = 1..64\n"
      "weight $embed : q4_1[40, 32] @4096\n"
      "weight $a : f32[16, 32]\n"
      "weight $b.1 : f32[24, 32]\n"
      "const $ab : f32[40, 32] tiles16 @0 = pack $a, $b.1\n"
      "const $gu : f32[32, 32] tiles16 = pack $a, $a {interleave = true}\n"
      "const $rope : f32[64, 8] = rope_table {theta = 10000.0, kind = llama3, factor = 8.0, original = 8192}\n"
      "state $b0.k : f16[64, 2, 8] keys16 @0 {kind = kv, window = none}\n"
      "state $b0.v : f16[64, 2, 8] heads {kind = kv, window = 32}\n"
      "\n"
      "func @decode(%tokens: i32[S], %pos: i32[], %total: i32[]) where S = 1..1 {\n"
      "  %x = embed $embed, %tokens {fn = 0, step = 0, over = all} : f32[S, 32] private+0\n"
      "  %q, %k = linear %x, $ab {split = [16, 24], fn = 1, step = 0, over = tiles, grain = 2} : f32[S, 16] none, "
      "f32[S, 24] shared\n"
      "  %x.1 = add %x, %x : f32[S, 32]\n"
      "  return %x.1\n"
      "}\n";
  ExpectCanonical(text);
}

TEST(Text, CommentsSpaceDefaultsAndSpellingsAreNormalised) {
  const std::string loose =
      "# a comment\nmodule @m{eps=0.00001,n=-3}dim S=1..4 # more\r\n\tweight $w:f32[4,4]\n"
      "const $t : f32[4, 8] = rope_table {factor = 1, theta = 5}\n"
      "func @f(%tokens:i32[S],%pos:i32[],%total:i32[]){%y=linear %pos,$w{interleave=false,k_split=1}:f32[S,4]return "
      "%y}";
  EXPECT_EQ(Reprint(loose),
            "module @m {eps = 1e-05, n = -3}\ndim S = 1..4\nweight $w : f32[4, 4]\n"
            "const $t : f32[4, 8] = rope_table {theta = 5.0}\n\n"
            "func @f(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n  %y = linear %pos, $w : f32[S, 4]\n"
            "  return %y\n}\n");
}

TEST(Text, FloatsReadBackToTheSameBits) {
  for (const char* value : {"1e-05", "0.1", "16777216.0", "1e+10", "-0.0", "3.4028235e+38", "1e-45", "-inf", "inf"}) {
    ExpectCanonical("module @m {x = " + std::string(value) + "}\n");
  }
}

TEST(Text, EqualLayersFoldAndStreamsCarryOver) {
  ExpectCanonical(
      "module @m\ndim S = 1..4\nweight $embed : f32[8, 4]\n"
      "repeat i = 0..3 {\n  weight $b{i}.norm : f32[4] @{128 + 64*i}\n  weight $b{i}.w : f32[4, 4]\n}\n"
      "\nfunc @f(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n"
      "  %b0.x = embed $embed, %tokens : f32[S, 4]\n"
      "  repeat i = 0..3 {\n"
      "    %b{i}.n = rms_norm %b{i}.x, $b{i}.norm {eps = 1e-05, fn = {1 + 2*i}, step = {7 - 1*i}, over = rows} : "
      "f32[S, 4] shared+{0 + 16*i}\n"
      "    %b{i+1}.x = linear %b{i}.n, $b{i}.w : f32[S, 4]\n"
      "  }\n"
      "  %b3.y = add %b3.x, %b0.x : f32[S, 4]\n"
      "  return %b3.y\n}\n");
}

TEST(Text, OneLayerDoesNotFold) { ExpectCanonical("module @m\nweight $b0.a : f32[4]\nweight $b0.b : f32[4]\n"); }

TEST(Text, LayersOfTwoKindsFoldByTwo) {
  ExpectCanonical(
      "module @m\n"
      "repeat i = 0..8 by 2 {\n"
      "  state $b{i}.k : f16[64, 2, 8] {kind = kv, window = 16}\n"
      "  state $b{i+1}.k : f16[64, 2, 8] {kind = kv, window = none}\n"
      "}\n");
}

TEST(Text, FiveOfOneKindAndOneOfAnotherFoldBySix) {
  std::string flat = "module @m\n";
  for (int layer = 0; layer < 26; ++layer) {
    flat += "state $b" + std::to_string(layer) + ".k : f16[64, 2, 8] @" + std::to_string(layer / 6 * 64) +
            " {kind = kv, window = " + (layer % 6 == 5 ? "none" : "16") + "}\n";
  }
  std::string folded = "module @m\nrepeat i = 0..24 by 6 {\n";
  for (int j = 0; j < 6; ++j) {
    folded += "  state $b{i" + (j == 0 ? "" : "+" + std::to_string(j)) +
              "}.k : f16[64, 2, 8] @{0 + 64*i/6} {kind = kv, window = " + (j == 5 ? "none" : "16") + "}\n";
  }
  folded += "}\nrepeat i = 24..26 {\n  state $b{i}.k : f16[64, 2, 8] @256 {kind = kv, window = 16}\n}\n";
  EXPECT_EQ(Reprint(flat), folded);
  ExpectCanonical(folded);
}

TEST(Text, RunsOfOneKindStandApart) {
  ExpectCanonical(
      "module @m\nrepeat i = 1..3 {\n  weight $b{i}.a : f32[4]\n}\nrepeat i = 1..3 {\n"
      "  const $b{i}.c : f32[4] = add $b{i}.a {value = 1.0}\n}\nrepeat i = 3..5 {\n  weight $b{i}.a : f32[8]\n}\n");
}

TEST(Text, RepeatIsSubstitution) {
  const std::string text = "module @m\nrepeat i = 4..11 by 3 {\n  weight $b{i+1}.a : f32[{10 + 7*i}, { 2 }]\n}\n";
  EXPECT_EQ(Thrown([&] { Parse(text, "t"); }), "SyntaxError 3:38");
  const std::string good =
      "module @m\nrepeat i = 4..11 by 3 {\n  weight $b{i-1}.a : f32[{20 - 1*i}, {-3 + 1*i/1}]\n}\n";
  EXPECT_EQ(Print(Parse(good, "t"), {.flat = true}),
            "module @m\nweight $b3.a : f32[16, 1]\nweight $b6.a : f32[13, 4]\nweight $b9.a : f32[10, 7]\n");
}

struct Case {
  const char* thrown;
  std::string text;
};

TEST(Text, ErrorsNameKindAndPlace) {
  const std::string head = "module @m\ndim S = 1..4\n";
  const Case cases[] = {
      {"SyntaxError 1:1", ""},
      {"SyntaxError 1:1", "modul @m"},
      {"SyntaxError 1:8", "module m"},
      {"SyntaxError 1:10", "module @m\x01"},
      {"SyntaxError 2:5", "module @m\ndim s = 1..4"},
      {"SyntaxError 2:9", "module @m\ndim S = 0..4"},
      {"SyntaxError 2:12", "module @m\ndim S = 3..2"},
      {"SyntaxError 2:9", "module @m\ndim S = 99999999999999999999..2"},
      {"DuplicateName 3:5", head + "dim S = 1..2"},
      {"DuplicateName 1:19", "module @m {a = 1, a = 2}"},
      {"SyntaxError 1:16", "module @m {a = }"},
      {"SyntaxError 1:17", "module @m {a = 1x}"},
      {"SyntaxError 1:17", "module @m {a = 1"},
      {"BadAttribute 1:16", "module @m {a = 1e99}"},
      {"SyntaxError 3:1", head + "weigth $w : f32[4]"},
      {"SyntaxError 3:8", head + "weight w : f32[4]"},
      {"SyntaxError 3:8", head + "weight $b01.w : f32[4]"},
      {"SyntaxError 3:8", head + "weight $w.0 : f32[4]"},
      {"SyntaxError 3:10", head + "weight $b{i}.w : f32[4]"},
      {"UnknownName 3:13", head + "weight $w : f33[4]"},
      {"UnknownName 3:17", head + "weight $w : f32[T]"},
      {"SyntaxError 3:17", head + "weight $w : f32[0]"},
      {"SyntaxError 3:17", head + "weight $w : f32[2147483648]"},
      {"DuplicateName 4:8", head + "weight $w : f32[4]\nweight $w : f32[4]"},
      {"UnknownOp 3:21", head + "const $c : f32[4] = foo"},
      {"UnknownName 3:26", head + "const $c : f32[4] = cast $d"},
      {"UnknownName 3:26", head + "const $c : f32[4] = cast $c"},
      {"UnknownAttribute 4:29", head + "weight $w : f32[4]\nconst $c : f32[4] = add $w {x = 1}"},
      {"BadAttribute 4:37", head + "weight $w : f32[4]\nconst $c : f32[4] = add $w {value = true}"},
      {"SyntaxError 4:1", head + "repeat i = 0..2 {\n}"},
      {"SyntaxError 3:15", head + "repeat i = 2..2 {\nweight $b{i}.w : f32[4]\n}"},
      {"SyntaxError 4:1", head + "repeat i = 0..2 {\nrepeat i = 0..2 {\nweight $b{i}.w : f32[4]\n}}"},
      {"SyntaxError 4:8", head + "repeat i = 0..2 {\nweight $b{i-1}.w : f32[4]\n}"},
      {"SyntaxError 4:25", head + "repeat i = 0..2 {\nweight $b{i}.w : f32[{1 * 2}]\n}"},
      {"SyntaxError 4:22", head + "repeat i = 9..12 {\nweight $b{i}.w : f32[{0 + 4000000000000000000*i}]\n}"},
      {"DuplicateName 4:8", head + "repeat i = 0..2 {\nweight $w : f32[4]\n}"},
      {"TooLarge 4:1", head + "repeat i = 0..100000 {\nweight $b{i}.w : f32[4]\n}"},
      {"TooLarge 4:6629", head + "repeat i = 0..200 {\nstate $b{i}.s : f32[4] {a = [" +
                              [] {
                                std::string list;
                                for (int k = 0; k < 4000; ++k) list += "1,";
                                return list;
                              }() +
                              "1]}\n}"},
      {"TooLarge 3:1", head + "repeat i = 0..60000 {\nweight $b{i}.w : f32[4]  #" + std::string(200, ' ') + "\n}"},
      {"UnknownName 10:12", Wrap("%x = embed $m, %tokens : f32[S, 32] return %x")},
      {"SyntaxError 10:1", Wrap("x = embed $embed, %tokens : f32[S, 32] return %x")},
      {"UnknownOp 10:6", Wrap("%x = embedd $embed, %tokens : f32[S, 32] return %x")},
      {"UnknownName 10:20", Wrap("%x = embed $embed, %token : f32[S, 32] return %x")},
      {"UnknownName 10:10", Wrap("%x = add %x, %y : f32[S, 32] return %x")},
      {"DuplicateName 10:1", Wrap("%pos = embed $embed, %tokens : f32[S, 32] return %pos")},
      {"DuplicateName 10:5", Wrap("%x, %x = embed $embed, %tokens : f32[S, 32], f32[S, 32] return %x")},
      {"SyntaxError 10:45", Wrap("%x, %y = embed $embed, %tokens : f32[S, 32] return %x")},
      {"UnknownAttribute 10:29", Wrap("%x = embed $embed, %tokens {a = 1} : f32[S, 32] return %x")},
      {"BadAttribute 10:28", Wrap("%x = embed $embed, %tokens {fn = 1} : f32[S, 32] return %x")},
      {"BadAttribute 10:28", Wrap("%x = embed $embed, %tokens {fn = 1, step = 0, over = a} : f32[S, 32] return %x")},
      {"BadAttribute 10:28", Wrap("%x = embed $embed, %tokens {fn = 1, step = -1, over = all} : f32[S, 32] return %x")},
      {"TypeMismatch 10:30", Wrap("%x = embed $embed, %tokens : $embed return %x")},
      {"DuplicateName 4:6", head + "func @f(%x: i32[]) { return %x }\nfunc @f() { return %x }"},
      {"UnknownName 3:20", head + "func @f() { return %x }"},
      {"UnknownName 3:17", head + "func @f() where T = 1..2 { return %x }"},
      {"SyntaxError 3:13", head + "func @f() { "},
  };
  for (const Case& c : cases) EXPECT_EQ(Thrown([&] { Parse(c.text, "t"); }), c.thrown) << c.text.substr(0, 300);
}

TEST(Text, MessagesNameFileRuleAndValue) {
  try {
    Parse("module @m\nweight $w : f33[4]\n", "dir/x.llmc");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "dir/x.llmc:2:13: error: no element type is called 'f33' [UnknownName]");
  }
}

}  // namespace
}  // namespace llmc
