// GGUF files, right and wrong (CASES B09, B11, B12, B14, B15), and models in several files.
#include "frontend/gguf.h"

#include <cstring>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace llmc {
namespace {

using namespace test;  // the writers' names

GgufHeader ParseText(const std::string& file) {
  return ParseGguf({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "f");
}
std::string ErrorFor(DiagKind kind, const std::string& file) {
  return ErrorOf(kind, [&] { ParseText(file); });
}

GgufWriter Tiny() {
  GgufWriter w;
  w.Text("general.architecture", "test")
      .U32("test.count", 7)
      .F32("test.eps", 0.5F)
      .Texts("test.names", {"x", "", "yz"});
  w.Raw("test.flag", kBool, std::string(1, '\1'));
  w.tensors.push_back({"a", {3, 2}, 0, std::string(24, 'a')});
  w.tensors.push_back({"q", {32, 1}, 8, std::string(34, 'q')});
  return w;
}

TEST(Gguf, ReadsKeysAndTensors) {
  std::string file = Tiny().File();
  GgufHeader h = ParseText(file);
  EXPECT_EQ(h.Find("general.architecture")->String(), "test");
  EXPECT_EQ(h.Find("test.count")->Int(), 7);
  EXPECT_EQ(h.Find("test.count")->Float(), std::nullopt);
  EXPECT_EQ(h.Find("test.eps")->Float(), 0.5);
  EXPECT_EQ(h.Find("test.flag")->Bool(), true);
  EXPECT_EQ(h.Find("test.names")->Strings(), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(h.Find("test.names")->Ints(), std::vector<int64_t>{});
  EXPECT_EQ(h.Find("absent"), nullptr);
  ASSERT_EQ(h.tensors.size(), 2U);
  EXPECT_EQ(h.tensors[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(h.tensors[1].dtype, DType::Q8_0);
  EXPECT_EQ(file.substr(h.tensors[1].offset, 34), std::string(34, 'q'));
}

TEST(Gguf, IntegerTypesAndArrays) {
  GgufWriter w;
  w.Raw("u8", kU8, Bytes(uint8_t{200}))
      .Raw("i8", kI8, Bytes(int8_t{-3}))
      .Raw("u16", kU16, Bytes(uint16_t{60000}))
      .Raw("i16", kI16, Bytes(int16_t{-9}));
  w.Raw("i32", kI32, Bytes(int32_t{-70000}))
      .Raw("u64", kU64, Bytes(~uint64_t{0}))
      .Raw("i64", kI64, Bytes(int64_t{-5}))
      .Raw("f64", kF64, Bytes(0.25));
  w.Raw("list", kArray, Bytes(uint32_t{kI32}) + Bytes(uint64_t{2}) + Bytes(int32_t{4}) + Bytes(int32_t{-4}));
  std::string file = w.File();
  GgufHeader h = ParseText(file);
  EXPECT_EQ(h.Find("u8")->Int(), 200);
  EXPECT_EQ(h.Find("i8")->Int(), -3);
  EXPECT_EQ(h.Find("u16")->Int(), 60000);
  EXPECT_EQ(h.Find("i16")->Int(), -9);
  EXPECT_EQ(h.Find("i32")->Int(), -70000);
  EXPECT_EQ(h.Find("u64")->Int(), std::nullopt);
  EXPECT_EQ(h.Find("i64")->Int(), -5);
  EXPECT_EQ(h.Find("f64")->Float(), 0.25);
  EXPECT_EQ(h.Find("list")->Ints(), (std::vector<int64_t>{4, -4}));
}

// CASES B12: magic, version, byte order.
TEST(Gguf, MagicAndVersion) {
  for (uint32_t version : {0U, 1U, 2U, 3U, 4U, 0x03000000U}) {
    GgufWriter w = Tiny();
    w.version = version;
    if (version == 2 || version == 3) {
      EXPECT_EQ(ParseText(w.File()).version, version);
    } else {
      std::string message = ErrorFor(DiagKind::BadFormat, w.File());
      EXPECT_EQ(message.find("byte order") != std::string::npos, version == 0x03000000U) << message;
    }
  }
  for (std::string_view magic : {"GGUf", "FUGG", "\0\0\0\0"}) {
    std::string file = Tiny().File();
    file.replace(0, 4, magic, 0, 4);
    ErrorFor(DiagKind::BadFormat, file);
  }
}

// CASES B09: counts and lengths that lie. Each counter is set to values that would overflow or exhaust memory if
// believed.
TEST(Gguf, CountsThatLie) {
  std::string file = Tiny().File();
  size_t first_key = 24;                                                             // length of the first key
  size_t text_value = first_key + 8 + std::strlen("general.architecture") + 4;       // length of its string
  size_t array_count = file.find("test.names") + std::strlen("test.names") + 4 + 4;  // elements of the array
  size_t tensor_name = file.find("test.flag") + std::strlen("test.flag") + 4 + 1;  // length of the first tensor's name
  for (size_t at : {size_t{8}, size_t{16}, first_key, text_value, array_count, tensor_name}) {
    for (uint64_t value :
         {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 32, static_cast<uint64_t>(file.size() - at - 8 + 1)}) {
      std::string bad = file;
      bad.replace(at, 8, Bytes(value));
      ErrorFor(DiagKind::BadFormat, bad);
    }
  }
}

TEST(Gguf, KeysAndValueTypes) {
  ErrorFor(DiagKind::BadFormat, Tiny().Raw("k", 13, "xxxxxxxx").File());
  ErrorFor(DiagKind::BadFormat,
           Tiny().Raw("k", kArray, Bytes(uint32_t{kArray}) + Bytes(uint64_t{1}) + std::string(12, '\0')).File());
  ErrorFor(DiagKind::BadFormat,
           Tiny().Raw("k", kArray, Bytes(uint32_t{99}) + Bytes(uint64_t{1}) + std::string(12, '\0')).File());
  ErrorFor(DiagKind::BadFormat, Tiny().U32("", 1).File());
  ErrorFor(DiagKind::BadFormat, Tiny().U32(std::string(65536, 'k'), 1).File());
  ErrorFor(DiagKind::BadFormat, Tiny().Raw("k", kBool, "\2").File());
  ErrorFor(DiagKind::DuplicateName, Tiny().U32("test.count", 7).File());
}

TEST(Gguf, Dims) {
  auto with = [](std::vector<int64_t> dims) {
    GgufWriter w = Tiny();
    w.tensors[0].dims = std::move(dims);
    return w.File();
  };
  ErrorFor(DiagKind::BadFormat, with({1, 1, 1, 3, 2}));
  ErrorFor(DiagKind::BadFormat, with({}));
  ErrorFor(DiagKind::BadFormat, with({-3, 2}));
  ErrorFor(DiagKind::BadFormat, with({3, 0}));
  ErrorFor(DiagKind::BadFormat, with({int64_t{1} << 32, int64_t{1} << 32}));
  ErrorFor(DiagKind::BadFormat, with({int64_t{1} << 62, 1}));
  EXPECT_EQ(ParseText(with({3, 2, 1, 1})).tensors[0].dims, (std::vector<int64_t>{1, 1, 2, 3}));
}

// CASES B11: alignment and offsets.
TEST(Gguf, Alignment) {
  for (uint32_t alignment : {8U, 64U, 4096U}) {
    GgufWriter w = Tiny();
    w.U32("general.alignment", alignment);
    w.alignment = alignment;
    std::string file = w.File();
    GgufHeader h = ParseText(file);
    EXPECT_EQ(file.substr(h.tensors[0].offset, 24), std::string(24, 'a')) << alignment;
    EXPECT_EQ(file.substr(h.tensors[1].offset, 34), std::string(34, 'q')) << alignment;
  }
  for (uint32_t alignment : {0U, 3U, 48U})
    ErrorFor(DiagKind::BadFormat, Tiny().U32("general.alignment", alignment).File());
  ErrorFor(DiagKind::BadFormat, Tiny().Raw("general.alignment", kI32, Bytes(int32_t{32})).File());
  ErrorFor(DiagKind::BadFormat, Tiny().U32("general.alignment", 1U << 30).File());
}

TEST(Gguf, Offsets) {
  std::string file = Tiny().File();
  size_t q = file.find(GgufString("q"));
  size_t offset = q + 8 + 1 + 4 + 16 + 4;
  for (uint64_t value : {uint64_t{0}, uint64_t{24}, uint64_t{64}, ~uint64_t{0}, ~uint64_t{31}}) {
    std::string bad = file;
    bad.replace(offset, 8, Bytes(value));
    ErrorFor(DiagKind::BadFormat, bad);
  }
}

// CASES B14: duplicates, names, types, rows that are not whole blocks.
TEST(Gguf, TensorTable) {
  auto with = [](auto change) {
    GgufWriter w = Tiny();
    change(w.tensors[1]);
    return w.File();
  };
  ErrorFor(DiagKind::DuplicateName, with([](GgufTensor& t) { t.name = "a"; }));
  ErrorFor(DiagKind::BadFormat, with([](GgufTensor& t) { t.name = std::string(64, 'n'); }));
  ParseText(with([](GgufTensor& t) { t.name = std::string(63, 'n'); }));
  for (uint32_t removed : {4U, 5U, 200U}) ErrorFor(DiagKind::BadFormat, with([&](GgufTensor& t) { t.type = removed; }));
  EXPECT_NE(ErrorFor(DiagKind::Unsupported, with([](GgufTensor& t) { t.type = 16; })).find("IQ2_XXS"),
            std::string::npos);
  ErrorFor(DiagKind::BadFormat, with([](GgufTensor& t) { t.dims = {33, 1}; }));
  ErrorFor(DiagKind::BadFormat, with([](GgufTensor& t) { t.dims = {16, 2}; }));
}

TEST(Gguf, AllSupportedTypes) {
  for (auto [type, bytes] :
       {std::pair{0U, 128U}, {1U, 64U}, {30U, 64U}, {2U, 18U}, {3U, 20U}, {6U, 22U}, {7U, 24U}, {8U, 34U}}) {
    GgufWriter w;
    w.tensors.push_back({"t", {32, 1}, type, std::string(bytes, 't')});
    EXPECT_EQ(ParseText(w.File()).tensors[0].bytes, bytes);
  }
}

// CASES B15: every cut is refused but the one that lacks the last tensor's padding; so is anything behind it.
TEST(Gguf, EveryTruncation) {
  GgufWriter w = Tiny();
  std::string file = w.File();
  w.pad_last = false;
  size_t least = w.File().size();
  ASSERT_LT(least, file.size());
  for (size_t n = 0; n <= file.size(); ++n) {
    if (n < least) {
      ErrorFor(DiagKind::BadFormat, file.substr(0, n));
    } else {
      ParseText(file.substr(0, n));
    }
  }
  ErrorFor(DiagKind::BadFormat, file + "x");
}

class GgufSplit : public testing::Test {
 protected:
  static GgufWriter Part(uint16_t no, uint16_t count, int32_t tensors) {
    GgufWriter w;
    w.Raw("split.no", kU16, Bytes(no))
        .Raw("split.count", kU16, Bytes(count))
        .Raw("split.tensors.count", kI32, Bytes(tensors));
    w.tensors.push_back({"t" + std::to_string(no), {1}, 0, "data"});
    return w;
  }
  TempDir dir;
};

TEST_F(GgufSplit, ReadsAllFiles) {
  std::string first = dir.Write("m-00001-of-00002.gguf", Part(0, 2, 2).File());
  std::string second = dir.Write("m-00002-of-00002.gguf", Part(1, 2, 2).File());
  GgufModel model = OpenGguf(first);
  ASSERT_EQ(model.tensors.tensors.size(), 2U);
  EXPECT_EQ(std::memcmp(model.tensors.Data(*model.tensors.Find("t1")), "data", 4), 0);
  EXPECT_NE(ErrorOf(DiagKind::BadFormat, [&] { OpenGguf(second); }).find(first), std::string::npos);
}

TEST_F(GgufSplit, MissingWrongAndMiscounted) {
  std::string first = dir.Write("m-00001-of-00002.gguf", Part(0, 2, 2).File());
  EXPECT_NE(ErrorOf(DiagKind::FileError, [&] { OpenGguf(first); }).find("m-00002-of-00002.gguf"), std::string::npos);
  dir.Write("m-00002-of-00002.gguf", Part(0, 2, 2).File());
  ErrorOf(DiagKind::BadFormat, [&] { OpenGguf(first); });
  dir.Write("m-00002-of-00002.gguf", Part(1, 2, 2).File());
  dir.Write("m-00001-of-00002.gguf", Part(0, 2, 3).File());
  ErrorOf(DiagKind::BadFormat, [&] { OpenGguf(first); });
  ErrorOf(DiagKind::BadFormat, [&] { OpenGguf(dir.Write("other.gguf", Part(0, 2, 2).File())); });
}

}  // namespace
}  // namespace llmc
