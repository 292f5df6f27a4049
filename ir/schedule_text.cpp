// Parsing of schedules.
#include "ir/schedule_text.h"

#include <algorithm>
#include <array>

namespace llmc {
namespace {

constexpr int64_t kMaxGrain = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxNumber = 1'000'000;        // fn and step
constexpr int64_t kMaxBytes = int64_t{1} << 40;  // scratch
constexpr std::array<std::string_view, 6> kNames = {"fn", "step", "over", "grain", "scratch_bytes", "scratch"};

}  // namespace

bool IsScheduleAttr(std::string_view name) { return std::find(kNames.begin(), kNames.end(), name) != kNames.end(); }

Schedule ScheduleOf(const ScheduleAttrs& attrs, const std::function<void(const std::string&)>& fail) {
  const auto number = [&](const char* name, int64_t least, int64_t most, int64_t otherwise) {
    const auto found = attrs.find(name);
    if (found == attrs.end()) {
      if (otherwise < 0) fail(std::string("a schedule needs fn, step and over; ") + name + " is missing");
      return otherwise;
    }
    const int64_t* value = std::get_if<int64_t>(&found->second);
    if (value == nullptr || *value < least || *value > most) {
      fail(std::string(name) + " must be " + std::to_string(least) + " to " + std::to_string(most));
    }
    return *value;
  };
  Schedule schedule;
  schedule.fn = static_cast<int>(number("fn", 0, kMaxNumber, -1));
  schedule.step = static_cast<int>(number("step", 0, kMaxNumber, -1));
  schedule.grain = number("grain", 1, kMaxGrain, 1);
  const auto over = attrs.find("over");
  const std::string* text = over == attrs.end() ? nullptr : std::get_if<std::string>(&over->second);
  const std::optional<Over> parsed = text == nullptr ? std::nullopt : OverFromText(*text);
  if (!parsed) fail("over must be all, one, tiles, heads, keys, rows or queries");
  schedule.over = *parsed;
  if (attrs.contains("scratch_bytes")) {
    schedule.scratch = Scratch{number("scratch_bytes", 1, kMaxBytes, 1), -1};
    if (attrs.contains("scratch")) schedule.scratch->offset = number("scratch", 0, kMaxBytes, 0);
  } else if (attrs.contains("scratch")) {
    fail("scratch needs scratch_bytes");
  }
  return schedule;
}

}  // namespace llmc
