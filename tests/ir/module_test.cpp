// Names, types and their sizes, diagnostics, and the edits of modules that passes share.
#include "ir/module.h"

#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/text.h"
#include "tests/ir/texts.h"

namespace llmc {
namespace {

TEST(Name, HasOneSpelling) {
  for (const char* text : {"x", "b3.wq", "b0.wq.1", "wq.12", "b3", "b3.4", "b.x2.7", "_a"}) {
    const std::optional<Name> name = NameFromText(text);
    if (std::string_view(text) == "b.x2.7") {
      EXPECT_FALSE(name) << text;
      continue;
    }
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(ToText(*name), text);
  }
  EXPECT_EQ(*NameFromText("b3.wq.1"), Name(3, "wq", 1));
  EXPECT_EQ(*NameFromText("b3.4"), Name(-1, "b3", 4));
  for (const char* text : {"", ".", "x.", ".x", "3", "x.0", "x.01", "b03.x", "b.x", "c3.x", "b3.x.1.2", "b3.x.y", "x-y",
                           "b1234567890.x", "x.1234567890", "b3..x"}) {
    EXPECT_FALSE(NameFromText(text)) << text;
  }
}

Type Make(DType dtype, std::vector<Dim> dims, Layout layout = Layout::Rows) { return {dtype, std::move(dims), layout}; }

TEST(Type, TextAndSizes) {
  EXPECT_EQ(ToText(Make(DType::Q4_1, {3072, 2048}, Layout::Tiles16)), "q4_1[3072, 2048] tiles16");
  EXPECT_EQ(ToText(Make(DType::I32, {})), "i32[]");
  EXPECT_EQ(ToText(Make(DType::F32, {Dim("S"), 5})), "f32[S, 5]");
  EXPECT_EQ(ElementCount(Make(DType::F32, {3, 5})), 15);
  EXPECT_EQ(ByteSize(Make(DType::F32, {})), 4);
  EXPECT_EQ(ByteSize(Make(DType::F16, {3, 5})), 30);
  EXPECT_EQ(ByteSize(Make(DType::Q4_1, {3, 64})), 3 * 40);
  EXPECT_EQ(ByteSize(Make(DType::A8, {3, 64})), 3 * 88);
  // Rows to 16; two k of 16-bit elements lie together.
  EXPECT_EQ(ByteSize(Make(DType::Q8_0, {17, 64}, Layout::Tiles16)), 32 * 68);
  EXPECT_EQ(ByteSize(Make(DType::BF16, {1, 5}, Layout::Tiles16)), 16 * 6 * 2);
  EXPECT_EQ(ByteSize(Make(DType::F32, {1, 5}, Layout::Tiles16)), 16 * 5 * 4);
  EXPECT_EQ(ByteSize(Make(DType::F16, {65, 2, 8}, Layout::Keys16)), 80 * 2 * 8 * 2);
  EXPECT_EQ(ByteSize(Make(DType::F16, {65, 2, 8}, Layout::Heads)), 65 * 2 * 8 * 2);
  EXPECT_THROW(ByteSize(Make(DType::F32, {Dim("S")})), InternalError);
  EXPECT_THROW(ByteSize(Make(DType::Q8_0, {33})), InternalError);
  EXPECT_THROW(ElementCount(Make(DType::F32, {INT64_MAX, 2})), InternalError);
}

TEST(Type, EveryTableReadsBackItsTexts) {
  for (const char* text : {"f32",  "f16",  "bf16", "i32",  "q4_0", "q4_1",   "q5_0",   "q5_1",  "q8_0",  "a8",
                           "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "tq1_0", "tq2_0"}) {
    ASSERT_TRUE(DTypeFromText(text)) << text;
    EXPECT_EQ(InfoOf(*DTypeFromText(text)).text, text);
  }
  EXPECT_FALSE(DTypeFromText("f64"));
  EXPECT_EQ(DTypeFromGguf(8), DType::Q8_0);
  EXPECT_FALSE(DTypeFromGguf(99));
  EXPECT_FALSE(DTypeFromGguf(0xffffffff));  // a8 is in no file
  for (const Layout layout : {Layout::Rows, Layout::Tiles16, Layout::Keys16, Layout::Heads}) {
    EXPECT_EQ(LayoutFromText(LayoutText(layout)), layout);
  }
  for (const Over over : {Over::All, Over::One, Over::Tiles, Over::Heads, Over::Keys, Over::Rows, Over::Queries}) {
    EXPECT_EQ(OverFromText(OverText(over)), over);
  }
}

TEST(Diag, TextHasPlaceSeverityMessageKindAndNotes) {
  Diag diag{Severity::Warning, DiagKind::UnknownName, {"m.json", "3:4"}, "no such key", {"did you mean x?"}};
  EXPECT_EQ(ToText(diag), "m.json:3:4: warning: no such key [UnknownName]\nnote: did you mean x?");
  diag.place = {"", "byte 48"};
  EXPECT_EQ(ToText(diag), "byte 48: warning: no such key [UnknownName]\nnote: did you mean x?");
  diag.place = {};
  EXPECT_EQ(ToText(diag), "warning: no such key [UnknownName]\nnote: did you mean x?");
  EXPECT_STREQ(UsageError("no such pass").what(), "no such pass");
  try {
    LLMC_CHECK(1 == 2, "one is two");
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("one is two"), std::string::npos);
  }
}

TEST(Attrs, AreFewAndOrdered) {
  Attrs attrs;
  attrs.Set("b", int64_t{1});
  attrs.Set("a", true);
  attrs.Set("b", int64_t{2});
  ASSERT_EQ(attrs.all().size(), 2U);
  EXPECT_EQ(attrs.all()[0].first, "b");
  EXPECT_EQ(attrs.Int("b"), 2);
  EXPECT_TRUE(attrs.Bool("a"));
  EXPECT_EQ(attrs.IntOr("c", 7), 7);
  EXPECT_EQ(attrs.IntOr("a", 7), 7);
  EXPECT_THROW(attrs.Int("c"), InternalError);
  EXPECT_THROW(attrs.Int("a"), InternalError);
  attrs.Erase("b");
  EXPECT_EQ(attrs.Find("b"), nullptr);
}

TEST(Module, EditsRenumber) {
  Module module = Parse(test::Wrap("  %x = embed $embed, %tokens : f32[S, 32]\n"
                                   "  %y = add %x, %x : f32[S, 32]\n"
                                   "  %z = add %y, %x : f32[S, 32]\n"
                                   "  %ck = kv_append $v, %z, %pos : $v\n"
                                   "  return %z\n"),
                        "t");
  Func& func = *module.FindFunc("forward");
  EXPECT_EQ(module.FindFunc("none"), nullptr);
  EXPECT_EQ(CountUses(func), (std::vector<int>{1, 1, 0, 3, 1, 2, 0}));
  EXPECT_EQ(DefiningOps(func), (std::vector<int>{-1, -1, -1, 0, 1, 2, 3}));
  ReplaceUses(func, 4, Operand::Local(3));
  func.ops.erase(func.ops.begin() + 1);
  CompactValues(func);
  EXPECT_EQ(func.values.size(), 6U);
  CompactGlobals(module);
  EXPECT_EQ(Print(module),
            "module @tiny\ndim S = 1..64\nweight $embed : f32[40, 32]\n"
            "state $v : f32[64, 2, 8] {kind = kv, window = none}\n\n"
            "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n"
            "  %x = embed $embed, %tokens : f32[S, 32]\n  %z = add %x, %x : f32[S, 32]\n"
            "  %ck = kv_append $v, %z, %pos : $v\n  return %z\n}\n");
  EXPECT_EQ(module.globals[1].type.state, 1);
  EXPECT_EQ(TypeOf(module, func, Operand::OfGlobal(1)), module.globals[1].type);
  EXPECT_EQ(FreshGlobalName(module, Name("v")), Name(-1, "v", 1));
  EXPECT_EQ(FreshGlobalName(module, Name("w")), Name("w"));
  const ValueId id = AddValue(func, Name("x"), {});
  EXPECT_EQ(ToText(func.values[static_cast<size_t>(id)].name), "x.1");
}

TEST(Module, AppendInfersAndNames) {
  Module module = Parse(test::Wrap("  %x = embed $embed, %tokens : f32[S, 32]\n  return %x\n"), "t");
  Func& func = module.funcs[0];
  const Operand w = Operand::OfGlobal(module.FindGlobal(Name("w")));
  const std::vector<ValueId> y = Append(module, func, OpKind::Linear, {Operand::Local(3), w}, {}, {Name("x")});
  ASSERT_EQ(y.size(), 1U);
  EXPECT_EQ(ToText(func.values[static_cast<size_t>(y[0])].name), "x.1");
  EXPECT_EQ(ToText(func.values[static_cast<size_t>(y[0])].type), "f32[S, 32]");
  EXPECT_EQ(std::get<int64_t>(AttrOf(func.ops.back(), "k_split")), 1);
  EXPECT_THROW(Append(module, func, OpKind::Linear, {Operand::Local(3)}, {}, {Name("x")}), InputError);
}

TEST(Module, CopiesOfAConstKeepItsInputs) {
  Module module = Parse(
      "module @m\ndim S = 1..4\nweight $a : f32[4]\nweight $b : f32[4]\nconst $c : f32[4] = add $b {value = 1.0}\n"
      "const $d : f32[4] = cast $c\nweight $embed : f32[8, 4]\n"
      "func @f(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n"
      "  %x = embed $embed, %tokens : f32[S, 4]\n  %y = rms_norm %x, $d {eps = 0.0} : f32[S, 4]\n  return %y\n}\n",
      "t");
  CompactGlobals(module);
  ASSERT_EQ(module.globals.size(), 4U);
  EXPECT_EQ(module.globals[0].name, Name("b"));
  EXPECT_EQ(module.globals[2].recipe.inputs[0], 1);
}

}  // namespace
}  // namespace llmc
