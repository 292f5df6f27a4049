// Opens a plan and checks it: header, table, sections in bounds and apart, hashes, manifest. Nothing is trusted before
// its check, and what is used later (code, tables) is read into memory of its own and hashed there, so a file that
// changes afterwards can't bring in other bytes.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/context.h"
#include "runtime/plan_encoding.h"
#include "runtime/plan_hash.h"
#include "runtime/plan_layout.h"

namespace llmc {
namespace {

constexpr size_t kPiece = 1 << 20;          // what is hashed at a time without being kept
constexpr uint64_t kMaxTable = 256u << 20;  // manifest and steps are decoded in memory

class FileBytes : public PlanBytes {
 public:
  FileBytes(int fd, PlanExtent extent, std::string name)
      : fd_(fd), begin_(extent.offset), size_(extent.size), name_(std::move(name)) {}
  ~FileBytes() override { close(fd_); }
  uint64_t size() const override { return size_; }
  void Read(uint64_t offset, void* to, size_t size) const override {
    auto* out = static_cast<char*>(to);
    while (size > 0) {
      const ssize_t got = pread(fd_, out, std::min<size_t>(size, 1 << 30), static_cast<off_t>(begin_ + offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw PlanError(name_ + ": can't read at byte " + std::to_string(offset) + ": " + std::strerror(errno));
      if (got == 0) throw PlanError(name_ + ": the file ends at byte " + std::to_string(offset) + " while it is read");
      out += got;
      offset += static_cast<uint64_t>(got);
      size -= static_cast<size_t>(got);
    }
  }

 private:
  int fd_;
  uint64_t begin_, size_;
  std::string name_;
};

std::string SectionName(const PlanSection& section) {
  std::string name(SectionKindName(section.kind));
  if (section.kind == SectionKind::Code) name += " " + std::to_string(section.index);
  return name;
}

bool Known(uint32_t kind) { return kind >= 1 && kind <= static_cast<uint32_t>(SectionKind::Chat); }

}  // namespace

std::optional<PlanExtent> FindPlan(int fd, uint64_t size) {
  char magic[8] = {};
  if (pread(fd, magic, sizeof magic, 0) != sizeof magic) return std::nullopt;
  if (std::memcmp(magic, kPlanMagic, sizeof magic) == 0) return PlanExtent{0, size};
  StandaloneTrailer trailer{};
  if (size < sizeof trailer ||
      pread(fd, &trailer, sizeof trailer, static_cast<off_t>(size - sizeof trailer)) != sizeof trailer)
    return std::nullopt;
  const bool whole = std::memcmp(trailer.magic, kStandaloneMagic, sizeof kStandaloneMagic) == 0 &&
                     trailer.offset % kPage == 0 && trailer.zero == 0 && trailer.offset < size &&
                     trailer.size == size - sizeof trailer - trailer.offset;
  return whole ? std::optional(PlanExtent{trailer.offset, trailer.size}) : std::nullopt;
}

std::string_view SectionKindName(SectionKind kind) {
  switch (kind) {
    case SectionKind::Manifest: return "manifest";
    case SectionKind::Steps: return "steps";
    case SectionKind::Weights: return "weights";
    case SectionKind::Code: return "code";
    case SectionKind::Tokenizer: return "tokenizer";
    case SectionKind::ChatTemplate: return "chat_template";
    case SectionKind::ImportIr: return "import_ir";
    case SectionKind::FinalIr: return "final_ir";
    case SectionKind::Chat: break;
  }
  return "chat";
}

PlanFile::PlanFile(const std::string& path) : PlanFile(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path) {}

PlanFile::PlanFile(int fd, std::string name) : name_(std::move(name)) {
  const std::string& path = name_;
  if (fd < 0) throw PlanError(path + ": can't open: " + std::strerror(errno));
  struct stat info{};
  const bool known = fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    close(fd);
    throw PlanError(path + ": not a regular file");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  const PlanExtent extent = FindPlan(fd, size).value_or(PlanExtent{0, size});  // what is no plan is refused below
  bytes_ = std::make_unique<FileBytes>(fd, extent, path);
  fd_ = fd;
  file_offset_ = extent.offset;
  Load();
}

PlanFile::PlanFile(std::unique_ptr<PlanBytes> bytes, std::string name)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  Load();
}
PlanFile::~PlanFile() = default;
PlanFile::PlanFile(PlanFile&&) noexcept = default;

void PlanFile::Load() {
  const auto fail = [this](const std::string& rule) { throw PlanError(name_ + ": " + rule); };
  const uint64_t size = bytes_->size();
  char page[kPage] = {};
  bytes_->Read(0, page, std::min<size_t>(size, kPage));
  PlanHeader header;
  std::memcpy(&header, page, sizeof(header));
  hash_ = header.xxh3;  // compared below
  if (size < sizeof(header) || std::memcmp(header.magic, kPlanMagic, sizeof(kPlanMagic)) != 0)
    fail("not a plan of llmc (no magic at byte 0)");
  if (header.major != kPlanMajor || header.minor > kPlanMinor) {
    fail("plan format " + std::to_string(header.major) + "." + std::to_string(header.minor) + ", this program reads " +
         std::to_string(kPlanMajor) + ".0 to " + std::to_string(kPlanMajor) + "." + std::to_string(kPlanMinor));
  }
  if (header.file_size != size)
    fail("the plan is cut or longer: " + std::to_string(size) + " bytes, the header says " +
         std::to_string(header.file_size));
  page_.assign(page, sizeof(page));
  if (size < kPage) fail("the header's page is cut: " + std::to_string(size) + " bytes");
  if (header.sections > kMaxSections)
    fail(std::to_string(header.sections) + " sections, at most " + std::to_string(kMaxSections));
  for (uint32_t s = 0; s < header.sections; ++s) {
    PlanTableEntry entry;
    std::memcpy(&entry, page + sizeof(header) + s * sizeof(entry), sizeof(entry));
    if (!Known(entry.kind))
      fail("section " + std::to_string(s) + " is of kind " + std::to_string(entry.kind) + ", which isn't known");
    PlanSection& section = sections_.emplace_back();
    section = {static_cast<SectionKind>(entry.kind), entry.index, entry.offset, entry.size, entry.xxh3, {}};
    std::memcpy(section.sha256.data(), entry.sha256, sizeof(entry.sha256));
  }
  // Header and table have one encoding, so this compares hash, reserved bytes and the rest of the page at once.
  if (EncodeHeader(header.minor, header.abi, size, sections_) != std::string_view(page, kPage))
    fail("the header or the section table is damaged (XXH3 differs)");

  uint64_t end = kPage;
  std::map<std::pair<SectionKind, uint32_t>, bool> seen;
  for (const PlanSection& section : sections_) {
    const std::string what = "section " + SectionName(section);
    if (section.offset < end || section.size == 0 || section.offset > size || section.size > size - section.offset) {
      fail(what + ": bytes " + std::to_string(section.offset) + " + " + std::to_string(section.size) +
           " overlap others or leave the file");
    }
    if (section.offset % SectionAlignment(section.kind, section.size) != 0)
      fail(what + ": offset " + std::to_string(section.offset) + " isn't aligned");
    if (!seen.emplace(std::pair(section.kind, section.index), true).second) fail(what + " is there twice");
    if (section.index > 0 && (section.kind != SectionKind::Code || !seen.contains({section.kind, section.index - 1})))
      fail(what + " has index " + std::to_string(section.index));
    end = section.offset + section.size;
  }
  if (end != size) fail(std::to_string(size - end) + " bytes behind the last section");

  std::vector<uint64_t> code_sizes;
  std::string piece;
  for (const PlanSection& section : sections_) {
    if (section.kind == SectionKind::Code) code_sizes.push_back(section.size);
    if (section.kind == SectionKind::Weights) continue;
    Xxh3 hash;
    for (uint64_t at = 0; at < section.size; at += piece.size()) {
      piece.resize(std::min<uint64_t>(kPiece, section.size - at));
      bytes_->Read(section.offset + at, piece.data(), piece.size());
      hash.Update(piece.data(), piece.size());
    }
    if (hash.Digest() != section.xxh3) fail("section " + SectionName(section) + " is damaged (XXH3 differs)");
  }
  for (SectionKind kind : {SectionKind::Manifest, SectionKind::Steps}) {
    const PlanSection* section = Find(kind);
    if (section != nullptr && section->size > kMaxTable)
      fail("section " + SectionName(*section) + " of " + std::to_string(section->size) + " bytes is too large");
  }
  if (Find(SectionKind::Manifest) == nullptr) fail("there is no manifest");
  manifest_ = DecodeManifest(Read(SectionKind::Manifest), Read(SectionKind::Steps), name_);
  if (manifest_.abi != header.abi)
    fail("the header's ABI is " + std::to_string(header.abi) + ", the manifest's " + std::to_string(manifest_.abi));
  if (const uint16_t minor = PlanMinorOf(manifest_, Find(SectionKind::Chat) != nullptr); minor != header.minor) {
    fail("the header says format 1." + std::to_string(header.minor) + ", and what it has is of 1." +
         std::to_string(minor));
  }
  const PlanSection* weights = Find(SectionKind::Weights);
  CheckManifest(manifest_, code_sizes, weights == nullptr ? 0 : weights->size, name_);
}

const PlanSection* PlanFile::Find(SectionKind kind, uint32_t index) const {
  for (const PlanSection& section : sections_) {
    if (section.kind == kind && section.index == index) return &section;
  }
  return nullptr;
}

void PlanFile::ReadInto(const PlanSection& section, void* to) const {
  bytes_->Read(section.offset, to, section.size);
  if (Xxh3Of(to, section.size) != section.xxh3)
    throw PlanError(name_ + ": section " + SectionName(section) + " is damaged (XXH3 differs)");
}

bool PlanFile::Unchanged() const {
  std::string page(kPage, '\0');
  try {
    bytes_->Read(0, page.data(), page.size());
    for (const PlanSection& section : sections_) {
      if (section.kind != SectionKind::Weights) Read(section.kind, section.index);
    }
  } catch (const PlanError&) {
    return false;
  }
  return page == page_;
}

std::string PlanFile::Read(SectionKind kind, uint32_t index) const {
  std::string bytes;
  if (const PlanSection* section = Find(kind, index)) {
    bytes.resize(section->size);
    ReadInto(*section, bytes.data());
  }
  return bytes;
}

void PlanFile::VerifyAll(const Sha256Factory& sha256) const {
  std::string piece;
  uint64_t end = kPage;
  for (const PlanSection& section : sections_) {
    while (end < section.offset) {
      piece.resize(std::min<uint64_t>(kPiece, section.offset - end));
      bytes_->Read(end, piece.data(), piece.size());
      if (piece.find_first_not_of('\0') != std::string::npos)
        throw PlanError(name_ + ": bytes before section " + SectionName(section) + " aren't zero");
      end += piece.size();
    }
    const std::unique_ptr<Sha256> sha = sha256();
    Xxh3 hash;
    for (; end < section.offset + section.size; end += piece.size()) {
      piece.resize(std::min<uint64_t>(kPiece, section.offset + section.size - end));
      bytes_->Read(end, piece.data(), piece.size());
      sha->Update(piece.data(), piece.size());
      hash.Update(piece.data(), piece.size());
    }
    if (hash.Digest() != section.xxh3 || sha->Finish() != section.sha256) {
      throw PlanError(name_ + ": section " + SectionName(section) + " is damaged (SHA-256 or XXH3 differs)");
    }
  }
}

}  // namespace llmc
