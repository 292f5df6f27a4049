// Mapped and whole files by POSIX calls; every failure is an InputError with the system's reason.
#include "frontend/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/diag.h"

namespace llmc {
namespace {

[[noreturn]] void FailErrno(const std::string& path, const char* what) {
  Fail(DiagKind::FileError, {path, ""}, fmt::format("{}: {}", what, std::strerror(errno)));
}

// An open regular file and its size; closed at the end of the scope.
struct OpenFile {
  int fd = -1;
  uint64_t size = 0;
  explicit OpenFile(const std::string& path) {
    // O_NONBLOCK: opening a pipe must not wait for its writer.
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) FailErrno(path, "cannot open");
    struct stat st{};
    if (fstat(fd, &st) != 0) {
      close(fd);
      FailErrno(path, "cannot stat");
    }
    if (!S_ISREG(st.st_mode)) {
      close(fd);
      Fail(DiagKind::FileError, {path, ""}, "not a regular file");
    }
    size = static_cast<uint64_t>(st.st_size);
  }
  ~OpenFile() { close(fd); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
};

// What git-lfs leaves where the file wasn't fetched: a text of some 130 bytes.
void RefusePointer(const std::string& path, std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs.github.com/spec/"))
    Fail(DiagKind::FileError, {path, ""}, "a git-lfs pointer, not the file itself; `git lfs pull` fetches that");
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  OpenFile file(path);
  if (file.size == 0) return;
  void* p = mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (p == MAP_FAILED) FailErrno(path, "cannot map");
  data_ = static_cast<const std::byte*>(p);
  size_ = file.size;
  RefusePointer(path, {static_cast<const char*>(p), size_});
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

std::string ReadTextFile(const std::string& path, uint64_t max_bytes) {
  OpenFile file(path);
  if (file.size > max_bytes) {
    Fail(DiagKind::FileError, {path, ""},
         fmt::format("{} bytes; a file of this kind may have {}", file.size, max_bytes));
  }
  std::string text(file.size, '\0');
  size_t have = 0;
  while (have < text.size()) {
    ssize_t n = read(file.fd, text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailErrno(path, "cannot read");
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  RefusePointer(path, text);
  return text;
}

bool IsRegularFile(const std::string& path) {
  struct stat st{};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool IsPresent(const std::string& path) {
  struct stat st{};
  return lstat(path.c_str(), &st) == 0;
}

bool StartsWith(const std::string& path, std::string_view magic) {
  if (!IsRegularFile(path)) return false;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  std::string bytes(magic.size(), '\0');
  return file && std::fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() && bytes == magic;
}

bool IsDirectory(const std::string& path) {
  struct stat st{};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::string JoinPath(const std::string& dir, const std::string& name) {
  if (dir.empty() || name.starts_with('/')) return name;
  return dir.ends_with('/') ? dir + name : dir + "/" + name;
}

std::string DirOf(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace llmc
