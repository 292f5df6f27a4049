// safetensors files, right and wrong (CASES B02, B03, B15): every rule of the header, shards and their index.
#include "frontend/safetensors.h"

#include <limits>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "frontend/mxfp4_pairs.h"
#include "ir/block_format.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace llmc {
namespace {

using test::Bytes;
using test::ErrorOf;
using test::F32Tensor;
using test::SafetensorsFile;
using test::TempDir;

std::vector<TensorInfo> ParseText(const std::string& file) {
  return ParseSafetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "f");
}

std::string Entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, ReadsTensors) {
  std::string file = SafetensorsFile("{\"__metadata__\":{\"format\":\"pt\"}," + Entry("b", "[2]", "[8,12]", "BF16") +
                                         "," + Entry("a", "[1,2]", "[0,8]") + "," + Entry("s", "[]", "[12,14]", "F16") +
                                         "," + Entry("e", "[0,3]", "[14,14]", "F16") + "}  ",
                                     std::string(14, 'x'));
  std::vector<TensorInfo> tensors = ParseText(file);
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dims, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensors[1].dtype, DType::BF16);
  EXPECT_EQ(tensors[1].offset, file.size() - 6);
  EXPECT_EQ(tensors[1].bytes, 4U);
}

// CASES B02: a header length that wraps or lies is refused before anything is allocated.
TEST(Safetensors, HeaderLength) {
  std::string good = SafetensorsFile({F32Tensor("a", {1}, {1.0F})});
  for (uint64_t n : {uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 4, uint64_t{1} << 32,
                     static_cast<uint64_t>(good.size()) - 7, uint64_t{0}, uint64_t{1}}) {
    std::string bad = good;
    bad.replace(0, 8, Bytes(n));
    ErrorOf(DiagKind::BadFormat, [&] { ParseText(bad); });
  }
}

// CASES B02: sizes that overflow, offsets beyond int64.
TEST(Safetensors, Overflow) {
  auto parse = [](const std::string& entry, size_t data = 0) {
    ParseText(SafetensorsFile("{" + entry + "}", std::string(data, 'x')));
  };
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[4294967296,4294967296]", "[0,0]")); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[4294967296,4294967296,0]", "[0,0]")); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[9223372036854775807]", "[0,0]")); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[0,18446744073709551615]"), 4); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[18446744073709551612,0]"), 4); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[-1]", "[0,4]"), 4); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1.0]", "[0,4]"), 4); });
}

TEST(Safetensors, RangesCoverTheDataExactly) {
  auto parse = [](const std::string& entries, size_t data) {
    ParseText(SafetensorsFile("{" + entries + "}", std::string(data, 'x')));
  };
  parse(Entry("a", "[1]", "[0,4]") + "," + Entry("b", "[1]", "[4,8]"), 8);
  EXPECT_NE(
      ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[2]", "[0,8]") + "," + Entry("b", "[1]", "[4,8]"), 8); })
          .find("overlap"),
      std::string::npos);
  EXPECT_NE(
      ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[0,4]") + "," + Entry("b", "[1]", "[8,12]"), 12); })
          .find("hole"),
      std::string::npos);
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[0,4]") + "," + Entry("b", "[1]", "[0,4]"), 4); });
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[0,4]"), 8); });  // bytes behind the last tensor
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[0,4]"), 3); });  // truncated
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[4,0]"), 4); });  // reversed
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[2]", "[0,4]"), 4); });  // shape and range differ
  ErrorOf(DiagKind::BadFormat, [&] { parse(Entry("a", "[1]", "[0,4,4]"), 4); });
}

TEST(Safetensors, HeaderText) {
  auto parse = [](const std::string& header) { ParseText(SafetensorsFile(header, "xxxx")); };
  ErrorOf(DiagKind::DuplicateName,
          [&] { parse("{" + Entry("a", "[1]", "[0,4]") + "," + Entry("a", "[1]", "[0,4]") + "}"); });
  // Taken, as by the format's own reader.
  parse(" {" + Entry("a", "[1]", "[0,4]") + "}");
  parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}");
  parse("{\"__metadata__\":{\"format\":\"pt\"}," + Entry("a", "[1]", "[0,4]") + "}");
  ErrorOf(DiagKind::BadFormat, [&] { parse("{\"__metadata__\":{\"format\":1}," + Entry("a", "[1]", "[0,4]") + "}"); });
  ErrorOf(DiagKind::SyntaxError, [&] { parse("{" + Entry("a", "[1]", "[0,4]")); });
  ErrorOf(DiagKind::BadValue, [&] { parse("[]  "); });
  ErrorOf(DiagKind::BadFormat, [&] { parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}"); });
  ErrorOf(DiagKind::BadValue, [&] { parse("{\"a\":[]}"); });
  ErrorOf(DiagKind::TooLarge, [&] { parse("{\"a\":[[[[[[]]]]]]}"); });
  EXPECT_NE(ErrorOf(DiagKind::Unsupported, [&] { parse("{" + Entry("a", "[1]", "[0,4]", "I32") + "}"); }).find("I32"),
            std::string::npos);
  ErrorOf(DiagKind::Unsupported, [&] { parse("{" + Entry("a", "[4]", "[0,4]", "F8_E4M3") + "}"); });
  ErrorOf(DiagKind::BadFormat, [&] { parse("{" + Entry("a", "[1]", "[0,4]", "F33") + "}"); });
}

// CASES B15: every proper prefix of a file is refused.
TEST(Safetensors, EveryTruncation) {
  std::string file = SafetensorsFile({F32Tensor("a", {3}, {1, 2, 3}), F32Tensor("b", {1}, {4})});
  ParseText(file);
  for (size_t n = 0; n < file.size(); ++n) ErrorOf(DiagKind::BadFormat, [&] { ParseText(file.substr(0, n)); });
}

// CASES B03: what an index says is checked against the files.
class SafetensorsIndex : public testing::Test {
 protected:
  void SetUp() override {
    dir.Write("model-00001-of-00002.safetensors", SafetensorsFile({F32Tensor("a", {1}, {1})}));
    dir.Write("model-00002-of-00002.safetensors", SafetensorsFile({F32Tensor("b", {2}, {2, 3})}));
  }
  std::string Index(const std::string& a, const std::string& b) {
    return dir.Write("model.safetensors.index.json",
                     "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"" + a + "\",\"b\":\"" + b + "\"}}");
  }
  TempDir dir;
};

TEST_F(SafetensorsIndex, ReadsShards) {
  TensorSet set = OpenSafetensors(Index("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  ASSERT_EQ(set.tensors.size(), 2U);
  float b[2];
  std::memcpy(b, set.Data(*set.Find("b")), sizeof(b));
  EXPECT_EQ(b[1], 3.0F);
  EXPECT_EQ(FindSafetensors(dir.path()), dir / "model.safetensors.index.json");
}

TEST_F(SafetensorsIndex, MissingShard) {
  std::string index = Index("model-00001-of-00002.safetensors", "model-00003-of-00003.safetensors");
  EXPECT_NE(ErrorOf(DiagKind::FileError, [&] { OpenSafetensors(index); }).find("model-00003-of-00003.safetensors"),
            std::string::npos);
}

TEST_F(SafetensorsIndex, TensorMappedToTheWrongShard) {
  std::string index = Index("model-00002-of-00002.safetensors", "model-00002-of-00002.safetensors");
  std::string message = ErrorOf(DiagKind::MissingTensor, [&] { OpenSafetensors(index); });
  EXPECT_NE(message.find("\"a\""), std::string::npos) << message;
  EXPECT_NE(message.find("model-00002"), std::string::npos) << message;
}

TEST_F(SafetensorsIndex, TensorThatTheIndexDoesNotName) {
  std::string index = dir.Write("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"two.safetensors\"}}");
  dir.Write("two.safetensors", SafetensorsFile({F32Tensor("a", {1}, {1}), F32Tensor("c", {1}, {1})}));
  EXPECT_NE(ErrorOf(DiagKind::UnusedTensor, [&] { OpenSafetensors(index); }).find("tensor c"), std::string::npos);
}

TEST_F(SafetensorsIndex, SameTensorInTwoShards) {
  dir.Write("model-00002-of-00002.safetensors", SafetensorsFile({F32Tensor("a", {1}, {1}), F32Tensor("b", {1}, {1})}));
  ErrorOf(DiagKind::DuplicateName,
          [&] { OpenSafetensors(Index("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")); });
}

TEST_F(SafetensorsIndex, BadIndexText) {
  ErrorOf(DiagKind::BadValue, [&] { OpenSafetensors(Index("../x.safetensors", "model-00002-of-00002.safetensors")); });
  ErrorOf(DiagKind::MissingKey, [&] { OpenSafetensors(dir.Write("model.safetensors.index.json", "{}")); });
}

test::StTensor ByteTensor(std::string name, std::vector<int64_t> dims, std::string data) {
  return {std::move(name), std::move(dims), std::move(data), "U8"};
}

// mxfp4 as codes and exponents, in two files: the blocks have code k in the lower bits of byte k, code k + 16 above it.
TEST_F(SafetensorsIndex, CodesAndExponentsAreOneTensor) {
  std::string codes, exponents = "\x7f\x80\x01";
  for (int i = 0; i < 3 * 16; ++i) codes += static_cast<char>((2 * i) % 16 | ((2 * i + 1) % 16) << 4);
  dir.Write("model-00001-of-00002.safetensors", SafetensorsFile({ByteTensor("a_blocks", {3, 1, 16}, codes)}));
  dir.Write("model-00002-of-00002.safetensors", SafetensorsFile({ByteTensor("a_scales", {3, 1}, exponents)}));
  const TensorSet set = OpenSafetensors(dir.Write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a_blocks": "model-00001-of-00002.safetensors", "a_scales": "model-00002-of-00002.safetensors"}})"));
  ASSERT_EQ(set.tensors.size(), 1U);
  const TensorInfo& t = *set.Find("a_blocks");
  EXPECT_EQ(t.dtype, DType::MXFP4);
  EXPECT_EQ(t.dims, (std::vector<int64_t>{3, 32}));
  std::byte blocks[2 * 17];
  ReadMxfp4(set, t, 1, 2, blocks);
  EXPECT_EQ(blocks[0], std::byte{0x80});
  EXPECT_EQ(blocks[17], std::byte{0x01});
  for (int block = 0; block < 2; ++block) {
    uint8_t raw[32];
    ReadCodes(DType::MXFP4, blocks + 17 * block, 0, raw);
    for (int k = 0; k < 32; ++k) EXPECT_EQ(raw[k], k % 16) << block << " " << k;
  }
}

TEST(Safetensors, BytesThatAreNoPair) {
  TempDir dir;
  const auto open = [&](const std::vector<test::StTensor>& tensors) {
    OpenSafetensors(dir.Write("m.safetensors", SafetensorsFile(tensors)));
  };
  const std::string codes(32, '\x11'), exponents(2, '\x7f');
  open({ByteTensor("a_blocks", {1, 2, 16}, codes), ByteTensor("a_scales", {1, 2}, exponents)});
  const auto alone = [&](const test::StTensor& tensor) {
    return ErrorOf(DiagKind::Unsupported, [&] { open({tensor}); });
  };
  EXPECT_NE(alone(ByteTensor("a_blocks", {1, 2, 16}, codes)).find("a_blocks"), std::string::npos);
  EXPECT_NE(alone(ByteTensor("a_scales", {1, 2}, exponents)).find("NAME_blocks and NAME_scales"), std::string::npos);
  alone(ByteTensor("a", {32}, codes));
  ErrorOf(DiagKind::Unsupported,
          [&] { open({ByteTensor("a_blocks", {1, 2, 16}, codes), F32Tensor("a_scales", {1, 2}, {1, 1})}); });
  const auto unfit = [&](std::vector<int64_t> blocks, std::vector<int64_t> scales) {
    const auto bytes = [](const std::vector<int64_t>& dims) {
      size_t n = 1;
      for (int64_t d : dims) n *= static_cast<size_t>(d);
      return std::string(n, '\x11');
    };
    const std::string message = ErrorOf(DiagKind::ShapeMismatch, [&] {
      open({ByteTensor("a_blocks", blocks, bytes(blocks)), ByteTensor("a_scales", scales, bytes(scales))});
    });
    EXPECT_NE(message.find("a_scales"), std::string::npos) << message;
  };
  unfit({1, 2, 16}, {2, 1});
  unfit({1, 2, 16}, {1, 3});
  unfit({2, 8}, {2});
  unfit({16}, {});
  unfit({0, int64_t{1} << 58, 16}, {0, int64_t{1} << 58});  // 2^63 columns beside no row
}

TEST(Safetensors, FilesThatAreNone) {
  TempDir dir;
  ErrorOf(DiagKind::FileError, [&] { OpenSafetensors(dir / "absent.safetensors"); });
  ErrorOf(DiagKind::FileError, [&] { OpenSafetensors(dir.path()); });
  ErrorOf(DiagKind::FileError, [&] { OpenSafetensors("/dev/zero"); });
  ErrorOf(DiagKind::BadFormat, [&] { OpenSafetensors(dir.Write("empty.safetensors", "")); });
  EXPECT_EQ(FindSafetensors(dir.path()), "");
}

}  // namespace
}  // namespace llmc
