// Writes a plan: a unique temporary beside the target, every call checked, hashed on the way, header last, synced,
// renamed. Where the file system can, the temporary has no name until it is whole, so that not even SIGKILL leaves it
// behind.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/plan_hash.h"
#include "runtime/plan_layout.h"

namespace llmc {
namespace {

constexpr size_t kBuffer = 4 << 20;  // few, large, sequential writes

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// A write over `ulimit -f` raises SIGXFSZ, whose default ends the process and would leave the temporary; ignored, it is
// EFBIG like any other failure.
class IgnoreFileSizeSignal {
 public:
  IgnoreFileSizeSignal() : old_(std::signal(SIGXFSZ, SIG_IGN)) {}
  ~IgnoreFileSizeSignal() {
    if (old_ != SIG_ERR) std::signal(SIGXFSZ, old_);
  }
  IgnoreFileSizeSignal(const IgnoreFileSizeSignal&) = delete;
  IgnoreFileSizeSignal& operator=(const IgnoreFileSizeSignal&) = delete;

 private:
  void (*old_)(int);
};

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

struct PlanWriter::Impl {
  Options options;
  IgnoreFileSizeSignal ignore;
  std::string path;       // of the target, symbolic links resolved
  std::string temporary;  // its name; empty: it has none (yet), nothing to remove
  int fd = -1;
  uint64_t at = 0;  // end of what was appended, buffered or not
  std::string buffer;
  std::vector<PlanSection> sections;
  Xxh3 weights_hash;
  std::unique_ptr<Sha256> weights_sha;
  uint64_t weights_left = 0;
  void* map = MAP_FAILED;
  size_t map_size = 0;

  [[noreturn]] void Fail(const std::string& what) const { throw PlanError(options.path + ": " + what); }
  [[noreturn]] void FailErrno(const std::string& what) const { Fail(what + ": " + std::strerror(errno)); }

  ~Impl() {
    if (map != MAP_FAILED) munmap(map, map_size);
    if (fd >= 0) close(fd);
    if (!temporary.empty()) unlink(temporary.c_str());
  }

  void CheckTarget() {
    path = options.path;
    struct stat target{};
    if (stat(path.c_str(), &target) == 0) {
      if (!S_ISREG(target.st_mode)) Fail("the output exists and isn't a regular file");
      for (const std::string& input : options.inputs) {
        struct stat info{};
        if (stat(input.c_str(), &info) == 0 && info.st_dev == target.st_dev && info.st_ino == target.st_ino)
          Fail("the output is the input " + input);
      }
      char resolved[PATH_MAX];
      if (realpath(path.c_str(), resolved) == nullptr) FailErrno("can't resolve the output's path");
      path = resolved;
    } else if (errno != ENOENT) {
      FailErrno("can't look at the output");
    }
    if (path.empty() || path.back() == '/') Fail("the output's name is empty");
    const std::string folder = FolderOf(path);
    struct statvfs disk{};
    if (statvfs(folder.c_str(), &disk) != 0) FailErrno("can't write into " + folder);
    const uint64_t need = options.weights_size + options.other_size;
    const uint64_t have = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (have < need)
      Fail("too little disk space in " + folder + ": the plan needs " + std::to_string(need) + " bytes, " +
           std::to_string(have) + " are free");
  }

  std::string TemporaryName(unsigned attempt) const {
    return FolderOf(path) + "/.llmc-" + std::to_string(getpid()) + "-" + std::to_string(attempt) + ".tmp";
  }

  // Names beside the target until `make(name)` succeeds; `what` can't be done if it fails for another reason than a
  // name that is taken.
  template <typename Make>
  void NameTemporary(const char* what, Make make) {
    for (unsigned attempt = 0; temporary.empty(); ++attempt) {
      const std::string name = TemporaryName(attempt);
      if (make(name.c_str())) {
        temporary = name;
      } else if (errno != EEXIST || attempt > 1000) {
        FailErrno(what);
      }
    }
  }

  static std::string FdPath(int file) { return "/proc/self/fd/" + std::to_string(file); }

  bool NameFile(int file, const char* name) {
    return linkat(AT_FDCWD, FdPath(file).c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
  }

  void CreateTemporary() {
    fd = open(FolderOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0 && access(FdPath(fd).c_str(), F_OK) == 0) return;  // it can be named later
    if (fd >= 0) close(fd);
    NameTemporary("can't create the output", [this](const char* name) {
      fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return fd >= 0;
    });
  }

  void Publish() {
    if (fsync(fd) != 0) FailErrno("can't sync the output");
    if (temporary.empty()) {
      NameTemporary("can't name the output", [this](const char* name) { return NameFile(fd, name); });
    }
    const int file = std::exchange(fd, -1);
    if (close(file) != 0) FailErrno("can't close the output");
    if (rename(temporary.c_str(), path.c_str()) != 0) FailErrno("can't rename " + temporary);
    temporary.clear();
    // The name itself reaches the disk with its folder; where folders can't be synced, the plan is whole all the same.
    const int folder = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
      fsync(folder);
      close(folder);
    }
  }

  void WriteAll(const char* bytes, size_t size, uint64_t offset) {
    while (size > 0) {
      const ssize_t put = pwrite(fd, bytes, std::min<size_t>(size, 1 << 30), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) FailErrno("can't write at byte " + std::to_string(offset));
      bytes += put;
      offset += static_cast<uint64_t>(put);
      size -= static_cast<size_t>(put);
    }
  }

  void Flush() {
    WriteAll(buffer.data(), buffer.size(), at - buffer.size());
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

  static uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

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

PlanWriter::PlanWriter(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->CheckTarget();
  impl_->CreateTemporary();
  impl_->at = kPage;
  impl_->weights_left = impl_->options.weights_size;
  if (impl_->weights_left > 0) {
    impl_->SkipTo(Impl::RoundUp(kPage, SectionAlignment(SectionKind::Weights, impl_->weights_left)));
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
    impl_->map = mmap(nullptr, impl_->map_size, PROT_READ, MAP_SHARED, impl_->fd,
                      static_cast<off_t>(impl_->sections.front().offset));
    if (impl_->map == MAP_FAILED) impl_->FailErrno("can't map the weights");
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
  for (const PlanSection& section : w.sections) {
    if (section.kind == SectionKind::Code) code_sizes.push_back(section.size);
  }
  CheckManifest(manifest, code_sizes, w.options.weights_size, w.options.path);
  const ManifestBytes bytes = EncodeManifest(manifest);
  w.Add(SectionKind::Manifest, bytes.manifest);
  w.Add(SectionKind::Steps, bytes.steps);
  w.Flush();
  const std::string header = EncodeHeader(PlanMinorOf(manifest), manifest.abi, w.at, w.sections);
  w.WriteAll(header.data(), header.size(), 0);
  w.Publish();
  return w.at;
}

}  // namespace llmc
