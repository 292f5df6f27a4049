// Block formats of GGUF: where scales and codes lie in a block (ggml's quantisation blocks; gguf-py's `quants` decodes
// them the same way, to the bit) and in a step of a tile.
#include "ir/block_format.h"

#include <cstring>
#include <string>

#include "ir/diag.h"
#include "ir/math.h"

namespace llmc {
namespace {

constexpr HeadField kD[] = {{0, 2}};
constexpr HeadField kDM[] = {{0, 2}, {2, 2}};
constexpr HeadField kExponent[] = {{0, 1}};
constexpr HeadField kQ2K[] = {{80, 2}, {82, 2}, {0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}, {10, 2}, {12, 2}, {14, 2}};
constexpr HeadField kQ3K[] = {{108, 2}, {96, 4}, {100, 4}, {104, 4}};
constexpr HeadField kQ4K[] = {{0, 2}, {2, 2}, {4, 4}, {8, 4}, {12, 4}};
constexpr HeadField kQ6K[] = {{208, 2}, {192, 2}, {194, 2}, {196, 2}, {198, 2}, {200, 2}, {202, 2}, {204, 2}, {206, 2}};
constexpr HeadField kIq4Xs[] = {{0, 2}, {2, 2}, {4, 4}};
constexpr HeadField kTq1[] = {{52, 2}};
constexpr HeadField kTq2[] = {{64, 2}};

constexpr CodePlane kBytes[] = {{8, 0}};
constexpr CodePlane kNibbles[] = {{4, 0}};
constexpr CodePlane kFive[] = {{1, 4}, {4, 0}};
constexpr CodePlane kSix[] = {{2, 4}, {4, 0}};
constexpr CodePlane kThree[] = {{1, 2}, {2, 0}};
constexpr CodePlane kTwo[] = {{2, 0}};

constexpr BlockFormat Format(std::span<const HeadField> head, std::span<const CodePlane> planes, bool has_min = false,
                             bool has_mins = false, bool has_scales = false) {
  BlockFormat format{head, planes, 0, 0, has_min, has_mins, has_scales};
  for (const HeadField& field : head) format.head_bytes += 16 * field.bytes;
  for (const CodePlane& plane : planes) format.plane_bytes += 64 * plane.bits;
  return format;
}

constexpr BlockFormat kQ40Format = Format(kD, kNibbles), kQ41Format = Format(kDM, kNibbles, true),
                      kQ50Format = Format(kD, kFive), kQ51Format = Format(kDM, kFive, true),
                      kQ80Format = Format(kD, kBytes), kQ2KFormat = Format(kQ2K, kTwo, true, true, true),
                      kQ3KFormat = Format(kQ3K, kThree, false, false, true), kQ4KFormat = Format(kQ4K, kNibbles, true),
                      kQ5KFormat = Format(kQ4K, kFive, true), kQ6KFormat = Format(kQ6K, kSix, false, false, true),
                      kIq4XsFormat = Format(kIq4Xs, kNibbles), kMxfp4Format = Format(kExponent, kNibbles),
                      kTq1Format = Format(kTq1, kTwo), kTq2Format = Format(kTq2, kTwo);

// Values of the codes of iq4_nl and iq4_xs, and of mxfp4 (E2M1, doubled).
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

[[noreturn]] void NotBlocks(DType dtype) {
  LLMC_CHECK(false, "not a type of blocks: " + std::string(InfoOf(dtype).text));
}

int Byte(const std::byte* p) { return std::to_integer<int>(*p); }
int SignedByte(const std::byte* p) { return Byte(p) < 128 ? Byte(p) : Byte(p) - 256; }
float Half(const std::byte* p) {
  uint16_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return math::HalfToFloat(v);
}

// Scale and minimum j of the 12 bytes of q4_k and q5_k: 0..3 in six bits of a byte, 4..7 in a nibble and the two bits
// left over by 0..3.
void SixBitPair(const std::byte* p, int j, int& scale, int& min) {
  if (j < 4) {
    scale = Byte(p + j) & 63;
    min = Byte(p + j + 4) & 63;
  } else {
    scale = (Byte(p + j + 4) & 15) | ((Byte(p + j - 4) >> 6) << 4);
    min = (Byte(p + j + 4) >> 4) | ((Byte(p + j) >> 6) << 4);
  }
}

// Scale i of 16 in the 12 bytes of q3_k: nibbles of the first 8 bytes, two bits each of the last 4.
int SixBits(const std::byte* p, int i) {
  const int low = i < 8 ? Byte(p + i) & 15 : Byte(p + i - 8) >> 4;
  return (low | (((Byte(p + 8 + i % 4) >> (2 * (i / 4))) & 3) << 4)) - 32;
}

// 2^(e - 128), a denormal for e < 2.
float HalfOfExponent(int e) { return math::FromBits(e < 2 ? 0x00200000U << e : static_cast<uint32_t>(e - 1) << 23); }

// Bits [shift, shift + bits) of 32 bytes, to bits [up, ..) of the codes.
template <int kBits>
void TakeBits(const std::byte* from, int shift, int up, uint8_t* raw) {
  for (int k = 0; k < kCodes; ++k) {
    raw[k] = static_cast<uint8_t>(raw[k] | (((Byte(from + k) >> shift) & ((1 << kBits) - 1)) << up));
  }
}
template <int kBits>
void PutBits(const uint8_t* raw, int up, int shift, std::byte* to) {
  for (int k = 0; k < kCodes; ++k) {
    to[k] |= static_cast<std::byte>(((raw[k] >> up) & ((1 << kBits) - 1)) << shift);
  }
}

// 16 bytes: codes 0..15 in the low nibbles, 16..31 in the high ones.
void TakeNibbles(const std::byte* from, uint8_t* raw) {
  for (int k = 0; k < 16; ++k) {
    raw[k] = static_cast<uint8_t>(Byte(from + k) & 15);
    raw[k + 16] = static_cast<uint8_t>(Byte(from + k) >> 4);
  }
}
void PutNibbles(const uint8_t* raw, std::byte* to) {
  for (int k = 0; k < 16; ++k) to[k] = static_cast<std::byte>((raw[k] & 15) | (raw[k + 16] << 4));
}

void TakeFifthBits(const std::byte* from, uint8_t* raw) {
  uint32_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  for (int k = 0; k < kCodes; ++k) raw[k] = static_cast<uint8_t>(raw[k] | ((bits >> k) & 1U) << 4);
}
void PutFifthBits(const uint8_t* raw, std::byte* to) {
  uint32_t bits = 0;
  for (int k = 0; k < kCodes; ++k) bits |= static_cast<uint32_t>((raw[k] >> 4) & 1) << k;
  std::memcpy(to, &bits, sizeof bits);
}

// tq1_0: weight k is trit `trit` of byte `at`. Bytes 0..31 hold weights 0..159 (byte k mod 32), 32..47 the next 80 (mod
// 16), 48..51 the last 16 (mod 4). A byte is a fraction of 256 in base 3, rounded up; its first digit is trit 0.
struct Trit {
  int at, trit;
};
Trit TritOf(int k) {
  if (k < 160) return {k % 32, k / 32};
  if (k < 240) return {32 + (k - 160) % 16, (k - 160) / 16};
  return {48 + (k - 240) % 4, (k - 240) / 4};
}
int PowerOf3(int n) {
  int power = 1;
  for (int i = 0; i < n; ++i) power *= 3;
  return power;
}

void TakeTrits(const std::byte* block, int j, uint8_t* raw) {
  for (int k = 0; k < kCodes; ++k) {
    const Trit trit = TritOf(kCodes * j + k);
    const int rest = (Byte(block + trit.at) * PowerOf3(trit.trit)) & 255;
    raw[k] = static_cast<uint8_t>(rest * 3 >> 8);
  }
}
// Digits are summed in the bytes; those of the last part turn them into fractions.
void PutTrits(const uint8_t* raw, int j, std::byte* block) {
  for (int k = 0; k < kCodes; ++k) {
    const Trit trit = TritOf(kCodes * j + k);
    const int digit = raw[k] * PowerOf3(4 - trit.trit);
    block[trit.at] = static_cast<std::byte>(Byte(block + trit.at) + digit);
  }
  if (j < 7) return;
  for (int i = 0; i < 52; ++i) block[i] = static_cast<std::byte>((Byte(block + i) * 256 + 242) / 243);
}

}  // namespace

const BlockFormat& BlockFormatOf(DType dtype) {
  switch (dtype) {
    case DType::Q4_0:
    case DType::IQ4_NL: return kQ40Format;
    case DType::Q4_1: return kQ41Format;
    case DType::Q5_0: return kQ50Format;
    case DType::Q5_1: return kQ51Format;
    case DType::Q8_0: return kQ80Format;
    case DType::Q2_K: return kQ2KFormat;
    case DType::Q3_K: return kQ3KFormat;
    case DType::Q4_K: return kQ4KFormat;
    case DType::Q5_K: return kQ5KFormat;
    case DType::Q6_K: return kQ6KFormat;
    case DType::IQ4_XS: return kIq4XsFormat;
    case DType::MXFP4: return kMxfp4Format;
    case DType::TQ1_0: return kTq1Format;
    case DType::TQ2_0: return kTq2Format;
    default: NotBlocks(dtype);
  }
}

BlockScales ReadScales(DType dtype, const std::byte* block, int j) {
  BlockScales s;
  switch (dtype) {
    case DType::Q4_1:
    case DType::Q5_1: s.m = Half(block + 2); [[fallthrough]];
    case DType::Q4_0:
    case DType::Q5_0:
    case DType::Q8_0:
    case DType::IQ4_NL: s.d = Half(block); return s;
    case DType::Q2_K:
      s.d = Half(block + 80);
      s.m = -Half(block + 82);
      for (int h = 0; h < 2; ++h) {
        s.scale[h] = Byte(block + 2 * j + h) & 15;
        s.min[h] = Byte(block + 2 * j + h) >> 4;
      }
      return s;
    case DType::Q3_K:
      s.d = Half(block + 108);
      for (int h = 0; h < 2; ++h) s.scale[h] = SixBits(block + 96, 2 * j + h);
      return s;
    case DType::Q4_K:
    case DType::Q5_K: {
      int scale = 0;
      int min = 0;
      SixBitPair(block + 4, j, scale, min);
      s.d = Half(block) * static_cast<float>(scale);
      s.m = -(Half(block + 2) * static_cast<float>(min));
      return s;
    }
    case DType::Q6_K:
      s.d = Half(block + 208);
      for (int h = 0; h < 2; ++h) s.scale[h] = SignedByte(block + 192 + 2 * j + h);
      return s;
    case DType::IQ4_XS: {
      const int high = (Byte(block + 2 + j / 4) >> (2 * (j % 4))) & 3;
      const int low = (Byte(block + 4 + j / 2) >> (4 * (j % 2))) & 15;
      s.d = Half(block) * static_cast<float>((low | (high << 4)) - 32);
      return s;
    }
    case DType::MXFP4: s.d = HalfOfExponent(Byte(block)); return s;
    case DType::TQ1_0: s.d = Half(block + 52); return s;
    case DType::TQ2_0: s.d = Half(block + 64); return s;
    default: NotBlocks(dtype);
  }
}

void ReadCodes(DType dtype, const std::byte* block, int j, uint8_t* raw) {
  switch (dtype) {
    case DType::Q4_0:
    case DType::IQ4_NL: return TakeNibbles(block + 2, raw);
    case DType::Q4_1: return TakeNibbles(block + 4, raw);
    case DType::Q5_0: TakeNibbles(block + 6, raw); return TakeFifthBits(block + 2, raw);
    case DType::Q5_1: TakeNibbles(block + 8, raw); return TakeFifthBits(block + 4, raw);
    case DType::Q8_0: std::memcpy(raw, block + 2, kCodes); return;
    case DType::MXFP4: return TakeNibbles(block + 1, raw);
    case DType::IQ4_XS: return TakeNibbles(block + 8 + 16 * j, raw);
    case DType::TQ1_0: return TakeTrits(block, j, raw);
    default: break;
  }
  std::memset(raw, 0, kCodes);
  switch (dtype) {
    case DType::Q2_K: return TakeBits<2>(block + 16 + 32 * (j / 4), 2 * (j % 4), 0, raw);
    case DType::Q3_K: TakeBits<2>(block + 32 + 32 * (j / 4), 2 * (j % 4), 0, raw); return TakeBits<1>(block, j, 2, raw);
    case DType::Q4_K: return TakeBits<4>(block + 16 + 32 * (j / 2), 4 * (j % 2), 0, raw);
    case DType::Q5_K:
      TakeBits<4>(block + 48 + 32 * (j / 2), 4 * (j % 2), 0, raw);
      return TakeBits<1>(block + 16, j, 4, raw);
    case DType::Q6_K:
      TakeBits<4>(block + 64 * (j / 4) + 32 * (j % 2), 4 * (j % 4 / 2), 0, raw);
      return TakeBits<2>(block + 128 + 32 * (j / 4), 2 * (j % 4), 4, raw);
    case DType::TQ2_0: return TakeBits<2>(block + 32 * (j / 4), 2 * (j % 4), 0, raw);
    default: NotBlocks(dtype);
  }
}

void WriteCodes(DType dtype, const uint8_t* raw, int j, std::byte* block) {
  switch (dtype) {
    case DType::Q4_0:
    case DType::IQ4_NL: return PutNibbles(raw, block + 2);
    case DType::Q4_1: return PutNibbles(raw, block + 4);
    case DType::Q5_0: PutNibbles(raw, block + 6); return PutFifthBits(raw, block + 2);
    case DType::Q5_1: PutNibbles(raw, block + 8); return PutFifthBits(raw, block + 4);
    case DType::Q8_0: std::memcpy(block + 2, raw, kCodes); return;
    case DType::MXFP4: return PutNibbles(raw, block + 1);
    case DType::IQ4_XS: return PutNibbles(raw, block + 8 + 16 * j);
    case DType::TQ1_0: return PutTrits(raw, j, block);
    case DType::Q2_K: return PutBits<2>(raw, 0, 2 * (j % 4), block + 16 + 32 * (j / 4));
    case DType::Q3_K: PutBits<2>(raw, 0, 2 * (j % 4), block + 32 + 32 * (j / 4)); return PutBits<1>(raw, 2, j, block);
    case DType::Q4_K: return PutBits<4>(raw, 0, 4 * (j % 2), block + 16 + 32 * (j / 2));
    case DType::Q5_K:
      PutBits<4>(raw, 0, 4 * (j % 2), block + 48 + 32 * (j / 2));
      return PutBits<1>(raw, 4, j, block + 16);
    case DType::Q6_K:
      PutBits<4>(raw, 0, 4 * (j % 4 / 2), block + 64 * (j / 4) + 32 * (j % 2));
      return PutBits<2>(raw, 4, 2 * (j % 4), block + 128 + 32 * (j / 4));
    case DType::TQ2_0: return PutBits<2>(raw, 0, 2 * (j % 4), block + 32 * (j / 4));
    default: NotBlocks(dtype);
  }
}

int SignedCode(DType dtype, uint8_t raw) {
  switch (dtype) {
    case DType::Q4_0: return raw - 8;
    case DType::Q5_0: return raw - 16;
    case DType::Q8_0: return static_cast<int8_t>(raw);
    case DType::Q3_K: return raw - 4;
    case DType::Q6_K: return raw - 32;
    case DType::IQ4_NL:
    case DType::IQ4_XS: return kIq4Values[raw & 15];
    case DType::MXFP4: return kMxfp4Values[raw & 15];
    case DType::TQ1_0:
    case DType::TQ2_0: return raw - 1;
    default: return raw;
  }
}

}  // namespace llmc
