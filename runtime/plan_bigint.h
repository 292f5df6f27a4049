// Integers of any size for chat templates, as Python's: what overflows 64 bits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

class BigInt {
 public:
  static constexpr size_t kMostWords = 2048;  // 65,536 bits; operations that give more throw std::length_error

  BigInt() = default;
  explicit BigInt(int64_t value);
  // Digits of base 2 to 36, at least one, without sign. False: something else.
  static bool Parse(std::string_view digits, uint32_t base, BigInt& out);
  // The integral value of a finite number.
  static BigInt FromDouble(double value);

  bool negative() const { return negative_; }
  bool zero() const { return words_.empty(); }
  bool FitsInt64() const;
  int64_t ToInt64() const;  // only if it fits
  size_t bits() const;      // of the magnitude
  // Nearest, ties to even; infinity when it is too large.
  double ToDouble() const;
  std::string ToString(uint32_t base = 10) const;  // with '-'; lower case

  BigInt operator-() const;
  BigInt operator+(const BigInt& other) const;
  BigInt operator-(const BigInt& other) const;
  BigInt operator*(const BigInt& other) const;
  // Floor division; other isn't 0.
  void DivMod(const BigInt& other, BigInt& quotient, BigInt& remainder) const;
  BigInt Pow(uint64_t exponent) const;
  int Compare(const BigInt& other) const;  // < 0, 0, > 0
  uint64_t Hash() const;

 private:
  using Words = std::vector<uint32_t>;  // little-endian, no zero at the end
  static int CompareWords(const Words& a, const Words& b);
  static Words AddWords(const Words& a, const Words& b);
  static Words SubWords(const Words& a, const Words& b);  // a >= b
  static uint32_t DivWord(Words& a, uint32_t by);         // in place, returns the remainder
  static BigInt Of(bool negative, Words words);

  bool negative_ = false;
  Words words_;
};

}  // namespace llmc
