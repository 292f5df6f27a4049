// Writes a plan: hashed on the way, header last, published when it is whole (plan_io.h).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "ir/round_up.h"
#include "runtime/plan_hash.h"
#include "runtime/plan_io.h"
#include "runtime/plan_layout.h"

namespace llmc {
namespace {

constexpr size_t kBuffer = 4 << 20;  // few, large, sequential writes

}  // namespace

std::string EncodeHeader(uint16_t minor, uint32_t abi, uint64_t file_size, const std::vector<PlanSection>& sections) {
  PlanHeader header{};
  std::memcpy(header.magic, kPlanMagic, sizeof(kPlanMagic));
  header.major = kPlanMajor;
  header.minor = minor;
  header.abi = abi;
  header.file_size = file_size;
  header.sections = static_cast<uint32_t>(sections.size());
  std::string page(kPage, '\0');
  std::memcpy(page.data(), &header, sizeof(header));
  size_t used = sizeof(header);
  for (const PlanSection& section : sections) {
    PlanTableEntry entry{
        static_cast<uint32_t>(section.kind), section.index, section.offset, section.size, section.xxh3, {}};
    std::memcpy(entry.sha256, section.sha256.data(), sizeof(entry.sha256));
    std::memcpy(page.data() + used, &entry, sizeof(entry));
    used += sizeof(entry);
  }
  header.xxh3 = Xxh3Of(page.data(), used);
  std::memcpy(page.data(), &header, sizeof(header));
  return page;
}

// The output isn't one of the inputs, through links too, and there is room for it.
void CheckTarget(const PlanWriter::Options& options) {
  struct stat target{};
  if (stat(options.path.c_str(), &target) == 0) {
    for (const std::string& input : options.inputs) {
      struct stat info{};
      if (stat(input.c_str(), &info) == 0 && info.st_dev == target.st_dev && info.st_ino == target.st_ino)
        throw PlanError(options.path + ": the output is the input " + input);
    }
  }
  const std::string folder = FolderOf(options.path);
  struct statvfs disk{};
  if (statvfs(folder.c_str(), &disk) != 0)
    throw PlanError(options.path + ": can't write into " + folder + ": " + std::strerror(errno));
  const uint64_t need = options.weights_size + options.other_size + options.loader.size();
  const uint64_t have = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (have < need)
    throw PlanError(options.path + ": too little disk space in " + folder + ": the plan needs " + std::to_string(need) +
                    " bytes, " + std::to_string(have) + " are free");
}

struct PlanWriter::Impl {
  Options options;
  OutputFile file;
  uint64_t at = kPage;  // end of what was appended, buffered or not
  std::string buffer;
  std::vector<PlanSection> sections;
  Xxh3 weights_hash;
  std::unique_ptr<Sha256> weights_sha;
  uint64_t weights_left;
  uint64_t begin = 0;  // of the plan in the file
  void* map = MAP_FAILED;
  size_t map_size = 0;

  explicit Impl(Options given)
      : options(std::move(given)),
        file((CheckTarget(options), options.path), OutputFile::Devices::Refuse),
        weights_left(options.weights_size) {
    if (options.loader.empty()) return;
    begin = RoundUp(options.loader.size(), options.weights_size >= kHugeWeights ? kHugePage : kPage);
    file.SetMode(0777);
    file.WriteAt(options.loader.data(), options.loader.size(), 0);
  }
  ~Impl() {
    if (map != MAP_FAILED) munmap(map, map_size);
  }
  [[noreturn]] void Fail(const std::string& what) const { throw PlanError(options.path + ": " + what); }

  void Flush() {
    file.WriteAt(buffer.data(), buffer.size(), begin + at - buffer.size());
    buffer.clear();
  }

  // Writes end at multiples of kBuffer in the file, so that the page cache holds it in folios of whole huge pages,
  // which the loader can map as such.
  void Append(const char* bytes, size_t size) {
    while (size > 0) {
      const size_t part = std::min<size_t>(size, kBuffer - at % kBuffer);
      buffer.append(bytes, part);
      at += part;
      bytes += part;
      size -= part;
      if (at % kBuffer == 0) Flush();
    }
  }

  // The file has a hole before `offset`: it reads as zeros.
  void SkipTo(uint64_t offset) {
    Flush();
    at = offset;
  }

  void Add(SectionKind kind, std::string_view bytes) {
    if (bytes.empty()) return;
    if (sections.size() >= kMaxSections) Fail("more than " + std::to_string(kMaxSections) + " sections");
    SkipTo(RoundUp(at, SectionAlignment(kind, bytes.size())));
    const auto same =
        std::count_if(sections.begin(), sections.end(), [kind](const PlanSection& s) { return s.kind == kind; });
    const std::unique_ptr<Sha256> sha = options.sha256();
    sha->Update(bytes.data(), bytes.size());
    sections.push_back(
        {kind, static_cast<uint32_t>(same), at, bytes.size(), Xxh3Of(bytes.data(), bytes.size()), sha->Finish()});
    Append(bytes.data(), bytes.size());
  }

  void CloseWeights() {
    if (options.weights_size == 0 || !weights_sha) return;
    sections.front().xxh3 = weights_hash.Digest();
    sections.front().sha256 = weights_sha->Finish();
    weights_sha.reset();
  }

  void NeedWeights() const {
    if (weights_left > 0)
      throw std::logic_error("PlanWriter: " + std::to_string(weights_left) + " bytes of weights are missing");
  }
};

PlanWriter::PlanWriter(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {
  if (impl_->weights_left > 0) {
    impl_->SkipTo(RoundUp(kPage, SectionAlignment(SectionKind::Weights, impl_->weights_left)));
    impl_->sections.push_back({SectionKind::Weights, 0, impl_->at, impl_->weights_left, 0, {}});
    impl_->weights_sha = impl_->options.sha256();
    impl_->buffer.reserve(kBuffer);
  }
}

PlanWriter::~PlanWriter() = default;

void PlanWriter::AppendWeights(std::span<const uint8_t> bytes) {
  if (bytes.size() > impl_->weights_left) throw std::logic_error("PlanWriter: more weights than announced");
  impl_->weights_left -= bytes.size();
  impl_->weights_hash.Update(bytes.data(), bytes.size());
  impl_->weights_sha->Update(bytes.data(), bytes.size());
  impl_->Append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

const uint8_t* PlanWriter::MapWeights() {
  if (impl_->options.weights_size == 0) return nullptr;
  impl_->NeedWeights();
  if (impl_->map == MAP_FAILED) {
    impl_->Flush();
    impl_->map_size = impl_->options.weights_size;
    impl_->map = mmap(nullptr, impl_->map_size, PROT_READ, MAP_SHARED, impl_->file.fd(),
                      static_cast<off_t>(impl_->begin + impl_->sections.front().offset));
    if (impl_->map == MAP_FAILED) impl_->Fail(std::string("can't map the weights: ") + std::strerror(errno));
  }
  return static_cast<const uint8_t*>(impl_->map);
}

void PlanWriter::AddSection(SectionKind kind, std::string_view bytes) {
  impl_->NeedWeights();
  if (kind == SectionKind::Manifest || kind == SectionKind::Steps || kind == SectionKind::Weights) {
    throw std::logic_error("PlanWriter: section " + std::string(SectionKindName(kind)) + " is written by the writer");
  }
  impl_->Add(kind, bytes);
}

uint64_t PlanWriter::Finish(const Manifest& manifest) {
  Impl& w = *impl_;
  w.NeedWeights();
  w.CloseWeights();
  std::vector<uint64_t> code_sizes;
  bool chat = false;
  for (const PlanSection& section : w.sections) {
    chat = chat || section.kind == SectionKind::Chat;
    if (section.kind == SectionKind::Code) code_sizes.push_back(section.size);
  }
  CheckManifest(manifest, code_sizes, w.options.weights_size, w.options.path);
  const ManifestBytes bytes = EncodeManifest(manifest);
  w.Add(SectionKind::Manifest, bytes.manifest);
  w.Add(SectionKind::Steps, bytes.steps);
  w.Flush();
  const std::string header = EncodeHeader(PlanMinorOf(manifest, chat), manifest.abi, w.at, w.sections);
  w.file.WriteAt(header.data(), header.size(), w.begin);
  uint64_t size = w.begin + w.at;
  if (!w.options.loader.empty()) {
    StandaloneTrailer trailer{};
    std::memcpy(trailer.magic, kStandaloneMagic, sizeof kStandaloneMagic);
    trailer.offset = w.begin;
    trailer.size = w.at;
    w.file.WriteAt(&trailer, sizeof trailer, size);
    size += sizeof trailer;
  }
  w.file.Publish(true);
  return size;
}

}  // namespace llmc
