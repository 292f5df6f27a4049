// Schoolbook arithmetic on 32-bit words: numbers of templates are short.
#include "runtime/plan_bigint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace llmc {

BigInt::BigInt(int64_t value) : negative_(value < 0) {
  uint64_t magnitude = negative_ ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) words_.push_back(static_cast<uint32_t>(magnitude));
}

BigInt BigInt::Of(bool negative, Words words) {
  while (!words.empty() && words.back() == 0) words.pop_back();
  if (words.size() > kMostWords) throw std::length_error("an integer of more than 65536 bits");
  BigInt result;
  result.negative_ = negative && !words.empty();
  result.words_ = std::move(words);
  return result;
}

bool BigInt::Parse(std::string_view digits, uint32_t base, BigInt& out) {
  if (digits.empty() || digits.size() > kMostWords * 32) return false;
  Words words;
  for (const char c : digits) {
    const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                           : c >= 'a' && c <= 'z' ? static_cast<uint32_t>(c - 'a') + 10
                           : c >= 'A' && c <= 'Z' ? static_cast<uint32_t>(c - 'A') + 10
                                                  : 99;
    if (digit >= base) return false;
    uint64_t carry = digit;
    for (uint32_t& word : words) {
      carry += static_cast<uint64_t>(word) * base;
      word = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words.push_back(static_cast<uint32_t>(carry));
    if (words.size() > kMostWords) return false;
  }
  out = Of(false, std::move(words));
  return true;
}

BigInt BigInt::FromDouble(double value) {
  int exponent = 0;
  const double fraction =
      std::frexp(std::fabs(value), &exponent);  // value = fraction * 2^exponent, 0.5 <= fraction < 1
  if (exponent <= 0) return {};
  const uint64_t mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
  const int shift = exponent - 53;
  BigInt result = shift <= 0 ? BigInt(static_cast<int64_t>(mantissa >> -shift))
                             : BigInt(static_cast<int64_t>(mantissa)) * BigInt(2).Pow(static_cast<uint64_t>(shift));
  result.negative_ = value < 0 && !result.zero();
  return result;
}

bool BigInt::FitsInt64() const {
  if (words_.size() > 2) return false;
  uint64_t magnitude = 0;
  for (size_t i = words_.size(); i-- > 0;) magnitude = magnitude << 32 | words_[i];
  return magnitude <= (uint64_t{1} << 63) - (negative_ ? 0 : 1);
}

int64_t BigInt::ToInt64() const {
  uint64_t magnitude = 0;
  for (size_t i = words_.size(); i-- > 0;) magnitude = magnitude << 32 | words_[i];
  return static_cast<int64_t>(negative_ ? 0 - magnitude : magnitude);
}

size_t BigInt::bits() const {
  return words_.empty() ? 0 : words_.size() * 32 - static_cast<size_t>(std::countl_zero(words_.back()));
}

double BigInt::ToDouble() const {
  const size_t count = bits();
  if (count > 1024)
    return negative_ ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  // The upper 64 bits, the last of them set if any bit below is: rounding to 53 bits then rounds the whole number.
  uint64_t top = 0;
  const size_t shift = count > 64 ? count - 64 : 0;
  bool rest = false;
  for (size_t bit = 0; bit < shift; ++bit) rest = rest || (words_[bit / 32] >> (bit % 32) & 1) != 0;
  for (size_t bit = count; bit-- > shift;) top = top << 1 | (words_[bit / 32] >> (bit % 32) & 1);
  const double value = std::ldexp(static_cast<double>(top | (rest ? 1 : 0)), static_cast<int>(shift));
  return negative_ ? -value : value;
}

std::string BigInt::ToString(uint32_t base) const {
  if (words_.empty()) return "0";
  // As many digits at once as a word holds.
  uint32_t chunk = base, digits = 1;
  while (static_cast<uint64_t>(chunk) * base <= std::numeric_limits<uint32_t>::max()) {
    chunk *= base;
    ++digits;
  }
  std::string text;
  for (Words rest = words_; !rest.empty();) {
    uint32_t part = DivWord(rest, chunk);
    for (uint32_t i = 0; i < digits && (part != 0 || !rest.empty()); ++i, part /= base)
      text.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[part % base]);
  }
  if (negative_) text.push_back('-');
  std::reverse(text.begin(), text.end());
  return text;
}

int BigInt::CompareWords(const Words& a, const Words& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

BigInt::Words BigInt::AddWords(const Words& a, const Words& b) {
  const Words &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  Words sum = longer;
  uint64_t carry = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    carry += static_cast<uint64_t>(sum[i]) + (i < shorter.size() ? shorter[i] : 0);
    sum[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) sum.push_back(static_cast<uint32_t>(carry));
  return sum;
}

BigInt::Words BigInt::SubWords(const Words& a, const Words& b) {
  Words difference = a;
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t word = static_cast<int64_t>(a[i]) - (i < b.size() ? b[i] : 0) - borrow;
    borrow = word < 0 ? 1 : 0;
    difference[i] = static_cast<uint32_t>(word + (borrow << 32));
  }
  while (!difference.empty() && difference.back() == 0) difference.pop_back();
  return difference;
}

uint32_t BigInt::DivWord(Words& a, uint32_t by) {
  uint64_t rest = 0;
  for (size_t i = a.size(); i-- > 0;) {
    rest = rest << 32 | a[i];
    a[i] = static_cast<uint32_t>(rest / by);
    rest %= by;
  }
  while (!a.empty() && a.back() == 0) a.pop_back();
  return static_cast<uint32_t>(rest);
}

BigInt BigInt::operator-() const {
  BigInt result = *this;
  result.negative_ = !negative_ && !zero();
  return result;
}

BigInt BigInt::operator+(const BigInt& other) const {
  if (negative_ == other.negative_) return Of(negative_, AddWords(words_, other.words_));
  const int order = CompareWords(words_, other.words_);
  if (order == 0) return {};
  return order > 0 ? Of(negative_, SubWords(words_, other.words_))
                   : Of(other.negative_, SubWords(other.words_, words_));
}

BigInt BigInt::operator-(const BigInt& other) const { return *this + -other; }

BigInt BigInt::operator*(const BigInt& other) const {
  Words product(words_.size() + other.words_.size());
  for (size_t i = 0; i < words_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < other.words_.size(); ++j) {
      carry += product[i + j] + static_cast<uint64_t>(words_[i]) * other.words_[j];
      product[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    product[i + other.words_.size()] = static_cast<uint32_t>(carry);
  }
  return Of(negative_ != other.negative_, std::move(product));
}

void BigInt::DivMod(const BigInt& other, BigInt& quotient, BigInt& remainder) const {
  Words q(words_.size()), r;
  if (other.words_.size() == 1) {
    q = words_;
    if (const uint32_t rest = DivWord(q, other.words_[0]); rest != 0) r.push_back(rest);
  } else {
    // Bit by bit: both are rare and short.
    for (size_t bit = bits(); bit-- > 0;) {
      uint32_t carry = words_[bit / 32] >> (bit % 32) & 1;
      for (uint32_t& word : r) {
        const uint32_t next = word >> 31;
        word = word << 1 | carry;
        carry = next;
      }
      if (carry != 0) r.push_back(carry);
      if (CompareWords(r, other.words_) >= 0) {
        r = SubWords(r, other.words_);
        q[bit / 32] |= 1u << (bit % 32);
      }
    }
  }
  quotient = Of(negative_ != other.negative_, std::move(q));
  remainder = Of(negative_, std::move(r));
  if (!remainder.zero() && negative_ != other.negative_) {  // truncated so far; floor is one less
    quotient = quotient - BigInt(1);
    remainder = remainder + other;
  }
}

BigInt BigInt::Pow(uint64_t exponent) const {
  BigInt result(1), square = *this;
  if (bits() > 1 && exponent > kMostWords * 32) throw std::length_error("an integer of more than 65536 bits");
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * square;
    if (exponent > 1) square = square * square;
  }
  return result;
}

int BigInt::Compare(const BigInt& other) const {
  if (negative_ != other.negative_) return negative_ ? -1 : 1;
  const int order = CompareWords(words_, other.words_);
  return negative_ ? -order : order;
}

uint64_t BigInt::Hash() const {
  uint64_t hash = negative_ ? 1 : 0;
  for (uint32_t word : words_) hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash;
}

}  // namespace llmc
