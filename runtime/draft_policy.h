// How many guesses a call should verify, by what calls have cost and how often guesses were right so far.
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace llmc {

// Classes of guesses: those of a class are as often right, as far as their proposer knows.
inline constexpr uint32_t kDraftClasses = 8;

// Decides by time alone, and time never changes a text.
class DraftPolicy {
 public:
  static constexpr uint32_t kMostRows = 16;

  // prior: share of right guesses of each class before any was seen, worth four of them.
  explicit DraftPolicy(const std::array<double, kDraftClasses>& prior);

  // A call of `rows` rows (1 .. kMostRows) took so long. The least counts, since whatever else the machine does makes a
  // call slower alone, and of several rows only from the second time on; higher times come through slowly, and what
  // wasn't measured for 256 calls is forgotten.
  void Took(uint32_t rows, double nanoseconds);
  // A guess of this class was right, or wrong. Older ones count less: half after some 35 of the class.
  void Saw(uint32_t draft_class, bool right);

  // Of guesses of these classes, each of which counts only if those before it are right, the number for which most
  // tokens a second are expected. each: nanoseconds that making a guess takes. 0: a plain call is as good, or nothing is
  // known of one.
  uint32_t Choose(std::span<const uint32_t> classes, double each) const;

  double ShareOfRight(uint32_t draft_class) const;
  // The time of a call; of one that wasn't measured, by those around it. 0 while no call of one row was measured.
  double Cost(uint32_t rows) const;

 private:
  struct Time {
    double nanoseconds = 0;
    uint64_t call = 0;  // when it was last measured
    uint64_t seen = 0;  // how often, since it was last forgotten
  };
  bool Known(uint32_t rows) const;
  std::array<Time, kMostRows + 1> times_;  // by rows
  uint64_t calls_ = 0;
  std::array<double, kDraftClasses> right_, seen_;
};

}  // namespace llmc
