// What functions and states declare (ir/entries.def, ir/states.def): the tables as C++. Needs nothing else, so that the
// IR, the backends, plans and the loader read the same rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmc {

enum class EntryInput : uint8_t {
#define ENTRY_INPUT(name, number, text, dtype, per) name = number,
#define ENTRY_INPUT(name, number, text, dtype, per) name = number,
#include "ir/entries.def"
};
enum class EntryOutput : uint8_t {
#define ENTRY_OUTPUT(name, number, text) name = number,
#define ENTRY_OUTPUT(name, number, text) name = number,
#include "ir/entries.def"
};
enum class EntryKind : uint8_t {
#define ENTRY_KIND(name, number, text) name = number,
#define ENTRY_KIND(name, number, text) name = number,
#include "ir/entries.def"
};

enum class InputPer : uint8_t { CALL, ROW, EITHER, ROWS };
struct EntryInputInfo {
  EntryInput value;
  std::string_view text;
  std::string_view dtype;  // "I32": the enumerator of ir/dtypes.def
  InputPer per;
};
struct EntryOutputInfo {
  EntryOutput value;
  std::string_view text;
};
struct EntryKindInfo {
  EntryKind value;
  std::string_view text;
};
inline constexpr EntryInputInfo kEntryInputs[] = {
#define ENTRY_INPUT(name, number, text, dtype, per) {EntryInput::name, text, #dtype, InputPer::per},
#define ENTRY_INPUT(name, number, text, dtype, per) {EntryInput::name, text, #dtype, InputPer::per},
#include "ir/entries.def"
};
inline constexpr EntryOutputInfo kEntryOutputs[] = {
#define ENTRY_OUTPUT(name, number, text) {EntryOutput::name, text},
#define ENTRY_OUTPUT(name, number, text) {EntryOutput::name, text},
#include "ir/entries.def"
};
inline constexpr EntryKindInfo kEntryKinds[] = {
#define ENTRY_KIND(name, number, text) {EntryKind::name, text},
#define ENTRY_KIND(name, number, text) {EntryKind::name, text},
#include "ir/entries.def"
};

enum class StateKind : uint8_t {
#define STATE_KIND(name, number, text, rank, holds, reset, abort) name = number,
#include "ir/states.def"
#undef STATE_KIND
};
enum class StateHolds : uint8_t { POSITIONS, PAST };
enum class StateReset : uint8_t { KEEP, CLEAR };
enum class StateAbort : uint8_t { KEEP, COPY };
struct StateKindInfo {
  StateKind value;
  std::string_view text;
  size_t rank;
  StateHolds holds;
  StateReset reset;
  StateAbort abort;
};
inline constexpr StateKindInfo kStateKinds[] = {
#define STATE_KIND(name, number, text, rank, holds, reset, abort) \
  {StateKind::name, text, rank, StateHolds::holds, StateReset::reset, StateAbort::abort},
#include "ir/states.def"
#undef STATE_KIND
};

// The row of a table by its value or its text; null: there is none.
template <class Row, size_t N, class Value>
constexpr const Row* FindRow(const Row (&table)[N], Value value) {
  for (const Row& row : table) {
    if (row.value == value) return &row;
  }
  return nullptr;
}
template <class Row, size_t N>
constexpr const Row* FindRow(const Row (&table)[N], std::string_view text) {
  for (const Row& row : table) {
    if (row.text == text) return &row;
  }
  return nullptr;
}
constexpr std::string_view EntryInputText(EntryInput value) { return FindRow(kEntryInputs, value)->text; }
constexpr std::string_view EntryOutputText(EntryOutput value) { return FindRow(kEntryOutputs, value)->text; }
constexpr std::string_view EntryKindText(EntryKind value) { return FindRow(kEntryKinds, value)->text; }

}  // namespace llmc
