// Every tensor of a plan's weight section.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "ir/text.h"
#include "runtime/plan_hash.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

uint64_t HashOf(const PlanFile& plan, uint64_t begin, uint64_t size) {
  std::string piece(std::min<uint64_t>(size, 1 << 20), '\0');
  Xxh3 hash;
  for (uint64_t done = 0; done < size;) {
    const size_t wanted = std::min<uint64_t>(piece.size(), size - done);
    const ssize_t n = pread(plan.fd(), piece.data(), wanted, static_cast<off_t>(plan.file_offset() + begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw PlanError(plan.name() + ": " + (n < 0 ? std::strerror(errno) : "the file ends early"));
    hash.Update(piece.data(), static_cast<size_t>(n));
    done += static_cast<uint64_t>(n);
  }
  return hash.Digest();
}

}  // namespace

Report WeightsReport(const PlanFile& plan) {
  const Module module = FinalModule(plan);
  const PlanSection* section = plan.Find(SectionKind::Weights);
  std::vector<const Global*> stored;
  for (const Global& global : module.globals)
    if (global.kind != GlobalKind::State && global.offset) stored.push_back(&global);
  std::stable_sort(stored.begin(), stored.end(),
                   [](const Global* a, const Global* b) { return *a->offset < *b->offset; });
  ReportTable table{"weights", {"name", "type", "layout", "offset", "bytes", "xxh3", "made by"}};
  int64_t total = 0;
  for (const Global* global : stored) {
    const auto begin = static_cast<uint64_t>(*global->offset);
    const auto bytes = static_cast<uint64_t>(ByteSize(global->type));
    if (section == nullptr || begin > section->size || bytes > section->size - begin)
      throw PlanError(fmt::format("{}: ${} at {} of {} bytes lies outside the weights", plan.name(),
                                  ToText(global->name), begin, bytes));
    Type type = global->type;
    type.layout = Layout::Rows;
    table.rows.push_back(
        {"$" + ToText(global->name), ToText(type), std::string(LayoutText(global->type.layout)), *global->offset,
         static_cast<int64_t>(bytes), fmt::format("{:016x}", HashOf(plan, section->offset + begin, bytes)),
         global->kind == GlobalKind::Const ? RecipeText(module, global->recipe) : std::string("file")});
    total += static_cast<int64_t>(bytes);
  }
  return {{{"tensors", static_cast<int64_t>(stored.size())},
           {"bytes", total},
           {"padding", static_cast<int64_t>(section == nullptr ? 0 : section->size) - total}},
          {std::move(table)}};
}

}  // namespace llmc
