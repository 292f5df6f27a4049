// Saved sessions: a header, then each state's bytes as far as positions below the session's have written them.
#include <algorithm>
#include <cstring>

#include "ir/round_up.h"
#include "runtime/executor.h"
#include "runtime/plan_hash.h"

namespace llmc {
namespace {

constexpr char kMagic[8] = {'l', 'l', 'm', 'c', 'S', 'e', 's', 's'};
constexpr uint32_t kVersion = 1;

struct SavedHeader {
  char magic[8];
  uint32_t version;
  uint32_t position;
  uint64_t plan;   // PlanFile::hash
  uint64_t bytes;  // behind the header
  uint64_t xxh3;   // of what is behind it, and of the header with this field 0
};
static_assert(sizeof(SavedHeader) == 40);

uint64_t HashOf(SavedHeader header, std::string_view payload) {
  header.xxh3 = 0;
  Xxh3 hash;
  hash.Update(&header, sizeof header);
  hash.Update(payload.data(), payload.size());
  return hash.Digest();
}

// visit(offset in the state region, bytes) for each piece that positions below `position` have written.
template <class Visit>
void ForUsed(const Manifest& manifest, uint32_t position, const Visit& visit) {
  if (manifest.states.empty()) {  // plans before 1.2 say no more
    if (manifest.state_bytes > 0) visit(uint64_t{0}, manifest.state_bytes);
    return;
  }
  for (const PlanState& state : manifest.states) {
    uint64_t used = state.block_bytes;
    if (state.slots > 0) {
      const uint64_t positions = std::min(position, state.slots);
      used = RoundUp(positions, state.unit) / state.unit * state.unit_bytes;
    }
    for (uint64_t block = 0; used > 0 && block < state.blocks; ++block)
      visit(state.offset + block * state.block_bytes, used);
  }
}

}  // namespace

uint64_t WrittenStateBytes(const Manifest& manifest, uint32_t position) {
  uint64_t written = 0;
  ForUsed(manifest, position, [&](uint64_t, uint64_t bytes) { written += bytes; });
  return written;
}

std::string Session::SaveState() const {
  if (executable_.interpret) throw PlanError("the interpreter's states can't be saved");
  if (executable_.plan_hash == 0)
    throw PlanError("a session of a model in memory can't be saved: there is no plan to bind it to");
  SavedHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.position = pos_;
  header.plan = executable_.plan_hash;
  header.bytes = WrittenStateBytes(*manifest_, pos_);
  std::string saved(sizeof header, '\0');
  saved.reserve(sizeof header + header.bytes);
  ForUsed(*manifest_, pos_, [&](uint64_t offset, uint64_t bytes) {
    saved.append(reinterpret_cast<const char*>(states_.data()) + offset, bytes);
  });
  header.xxh3 = HashOf(header, std::string_view(saved).substr(sizeof header));
  std::memcpy(saved.data(), &header, sizeof header);
  return saved;
}

void Session::RestoreState(std::string_view saved) {
  SavedHeader header{};
  if (saved.size() < sizeof header)
    throw PlanError("a saved session of " + std::to_string(saved.size()) + " bytes is cut");
  std::memcpy(&header, saved.data(), sizeof header);
  const std::string_view payload = saved.substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    throw PlanError("not a saved session (no magic at byte 0)");
  if (header.version != kVersion)
    throw PlanError("a saved session of version " + std::to_string(header.version) + ", this program reads " +
                    std::to_string(kVersion));
  if (header.bytes != payload.size())
    throw PlanError("a saved session is cut or longer: " + std::to_string(payload.size()) +
                    " bytes behind its header, which says " + std::to_string(header.bytes));
  if (HashOf(header, payload) != header.xxh3) throw PlanError("a saved session is damaged (XXH3 differs)");
  if (executable_.interpret || header.plan != executable_.plan_hash)
    throw PlanError("the saved session is of another plan");
  if (header.position > context_)
    throw PlanError("a saved session of " + std::to_string(header.position) + " positions, the context has " +
                    std::to_string(context_));
  uint64_t wanted = 0;
  ForUsed(*manifest_, header.position, [&](uint64_t, uint64_t bytes) { wanted += bytes; });
  if (wanted != payload.size())
    throw PlanError("a saved session of " + std::to_string(payload.size()) + " bytes, the plan's states have " +
                    std::to_string(wanted));
  size_t at = 0;
  ForUsed(*manifest_, header.position, [&](uint64_t offset, uint64_t bytes) {
    std::memcpy(states_.data() + offset, payload.data() + at, bytes);
    at += bytes;
  });
  pos_ = header.position;
  // How far its calls had reached isn't saved: as far as rings can have been written without losing what `pos_` needs.
  written_ = pos_;
  uint32_t furthest = context_;
  bool rings = false;
  ForRings(pos_, [&](const PlanState& state, uint32_t first) {
    furthest = std::min(furthest, first + state.slots);
    rings = true;
  });
  if (rings) written_ = std::max(written_, furthest);
}

}  // namespace llmc
