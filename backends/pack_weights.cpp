// Streams the weight section: consts evaluated and packed by rows, in parallel, in bounded memory and in one order.
#include "backends/pack_weights.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ir/diag.h"
#include "ir/round_up.h"

namespace llmc {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;

// Rows [begin, end) of a global, at `offset` of the section. Pieces touch: `bytes` runs to the next one's offset, what
// the rows don't fill is zero.
struct Piece {
  int global;
  int64_t begin, end;
  uint64_t offset, bytes;
};

std::vector<Piece> CutUp(const Module& module) {
  std::vector<Piece> pieces;
  for (size_t g = 0; g < module.globals.size(); ++g) {
    const Global& global = module.globals[g];
    if (global.kind == GlobalKind::State || !global.offset) continue;
    const int64_t row_bytes = StoredRowBytes(global.type), rows = RowCount(global.type);
    // Tiles are 16 rows.
    const int64_t step = std::max<int64_t>(kPieceBytes / std::max<int64_t>(row_bytes, 1) / 16, 1) * 16;
    for (int64_t row = 0; row < rows; row += std::min(step, rows - row)) {
      pieces.push_back({static_cast<int>(g), row, std::min(row + step, rows),
                        static_cast<uint64_t>(*global.offset + row * row_bytes), 0});
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  const uint64_t size = WeightBytes(module);
  for (size_t i = 0; i < pieces.size(); ++i) {
    Piece& piece = pieces[i];
    const Type& type = module.globals[static_cast<size_t>(piece.global)].type;
    const uint64_t next = i + 1 < pieces.size() ? pieces[i + 1].offset : size;
    int64_t rows = piece.end - piece.begin;
    if (type.layout == Layout::Tiles16) rows = RoundUp(rows, 16);
    if (next < piece.offset || next - piece.offset < static_cast<uint64_t>(rows * StoredRowBytes(type))) {
      Fail(DiagKind::BadPlan, {}, fmt::format("weights overlap at byte {} of the weight section", piece.offset));
    }
    piece.bytes = next - piece.offset;
  }
  if (pieces.empty() ? size != 0 : pieces[0].offset != 0) {
    Fail(DiagKind::BadPlan, {}, "the weight section doesn't begin with a weight");
  }
  return pieces;
}

// work(i) for i < count on `jobs` threads, in order of their start. The first exception stops all and is thrown.
void Parallel(size_t count, int jobs, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr error;
  std::mutex mutex;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < std::min(count, static_cast<size_t>(std::max(jobs, 1))); ++t) threads.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

uint64_t WeightBytes(const Module& module) { return static_cast<uint64_t>(module.options.Int("weight_bytes")); }

void StreamWeights(const Module& module, const WeightSource& source, int jobs,
                   const std::function<void(std::span<const uint8_t>)>& append,
                   const std::function<void(double)>& progress) {
  const std::vector<Piece> pieces = CutUp(module);
  // A thread that is done waits for its turn, so there are never more pieces in memory than threads.
  std::mutex mutex;
  std::condition_variable turn;
  size_t appended = 0;
  bool failed = false;
  Parallel(pieces.size(), jobs, [&](size_t i) {
    try {
      const Piece& piece = pieces[i];
      std::vector<uint8_t> bytes(piece.bytes);
      ReadRows(module, source, piece.global, piece.begin, piece.end, reinterpret_cast<std::byte*>(bytes.data()));
      std::unique_lock lock(mutex);
      turn.wait(lock, [&] { return appended == i || failed; });
      if (failed) return;
      append(bytes);
      ++appended;
      if (progress) progress(static_cast<double>(appended) / static_cast<double>(pieces.size()));
      turn.notify_all();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = true;
      turn.notify_all();
      throw;
    }
  });
}

void FillWeights(const Module& module, const WeightSource& source, int jobs, uint8_t* to,
                 const std::function<void(double)>& progress) {
  const std::vector<Piece> pieces = CutUp(module);
  std::mutex mutex;
  size_t done = 0;
  Parallel(pieces.size(), jobs, [&](size_t i) {
    const Piece& piece = pieces[i];
    ReadRows(module, source, piece.global, piece.begin, piece.end, reinterpret_cast<std::byte*>(to + piece.offset));
    if (!progress) return;
    const std::lock_guard lock(mutex);
    progress(static_cast<double>(++done) / static_cast<double>(pieces.size()));
  });
}

}  // namespace llmc
