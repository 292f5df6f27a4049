// Fuzzes what reads plans. The first byte chooses: 'F' the rest is a file; 'M' the rest is a manifest and, behind the
// separator, step lists, put into a file whose hashes are right; 'T' the rest is the text form (assembled to a folder
// that doesn't exist, so nothing is written).
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/plan.h"
#include "runtime/plan_hash.h"
#include "runtime/plan_layout.h"

namespace {

using namespace llmc;

constexpr std::string_view kSeparator = "\xff\xfe-steps-\xfe\xff";

class FuzzBytes : public PlanBytes {
 public:
  explicit FuzzBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  void Read(uint64_t offset, void* to, size_t size) const override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) __builtin_trap();
    std::memcpy(to, bytes_.data() + offset, size);
  }

 private:
  std::string bytes_;
};

class NoSha256 : public Sha256 {
 public:
  void Update(const void*, size_t) override {}
  Sha256Digest Finish() override { return {}; }
};

std::string FileOf(std::string_view manifest, std::string_view steps) {
  std::string body;
  std::vector<PlanSection> sections;
  const auto add = [&](SectionKind kind, std::string_view bytes) {
    if (bytes.empty()) return;
    const uint64_t unit = SectionAlignment(kind, bytes.size());
    body.resize((body.size() + unit - 1) / unit * unit);
    sections.push_back({kind, 0, kPage + body.size(), bytes.size(), Xxh3Of(bytes.data(), bytes.size()), {}});
    body += bytes;
  };
  static const std::string weights(4096, '\0');  // what a step list of the corpus reads
  add(SectionKind::Weights, weights);
  add(SectionKind::Code, "\xc3");
  add(SectionKind::Manifest, manifest);
  add(SectionKind::Steps, steps);
  uint16_t minor = 0;
  try {
    minor = PlanMinorOf(DecodeManifest(manifest, steps, "fuzz"));
  } catch (const PlanError&) {
    minor = kPlanMinor;  // refused later
  }
  return EncodeHeader(minor, 1, kPage + body.size(), sections) + body;
}

void Read(std::string bytes) {
  const PlanFile plan(std::make_unique<FuzzBytes>(std::move(bytes)), "fuzz");
  if (DumpPlan(plan).empty()) __builtin_trap();
  plan.VerifyAll([] { return std::make_unique<NoSha256>(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'F') {
      Read(std::string(rest));
    } else if (data[0] == 'M') {
      const size_t at = std::min(rest.find(kSeparator), rest.size());
      Read(FileOf(rest.substr(0, at), at == rest.size() ? "" : rest.substr(at + kSeparator.size())));
    } else if (data[0] == 'T') {
      PlanWriter::Options options;
      options.path = "/nonexistent/a.plan";
      options.sha256 = [] { return std::make_unique<NoSha256>(); };
      AssemblePlan(rest, "/nonexistent", options);
    }
  } catch (const PlanError&) {
    return 0;
  }
  return 0;
}
