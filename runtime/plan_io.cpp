// POSIX calls, each checked.
#include "runtime/plan_io.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/plan_error.h"

namespace llmc {
namespace {

std::string FdPath(int file) { return "/proc/self/fd/" + std::to_string(file); }

}  // namespace

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string ReadWholeFile(const std::string& path, size_t most) {
  FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) throw PlanError(path + ": can't open: " + std::strerror(errno));
  std::string bytes;
  char buffer[1 << 16];
  for (bool more = true; more && bytes.size() <= most;) {
    const size_t got = std::fread(buffer, 1, sizeof(buffer), file);
    bytes.append(buffer, got);
    more = got == sizeof(buffer);
  }
  const bool failed = std::ferror(file) != 0;
  const int error = errno;
  std::fclose(file);
  if (failed) throw PlanError(path + ": can't read: " + std::strerror(error));
  if (bytes.size() > most) throw PlanError(path + ": more than " + std::to_string(most) + " bytes");
  return bytes;
}

OutputFile::OutputFile(const std::string& path, Devices devices)
    : path_(path), target_(path), old_signal_(std::signal(SIGXFSZ, SIG_IGN)) {
  try {
    struct stat info{};
    if (stat(path.c_str(), &info) == 0) {
      // A rename would put a file in the place of a device, or of a link such as /dev/stdout.
      in_place_ = !S_ISREG(info.st_mode);
      if (in_place_ && devices == Devices::Refuse)
        throw PlanError(path_ + ": the output exists and isn't a regular file");
      char resolved[PATH_MAX];
      if (!in_place_ && realpath(path.c_str(), resolved) == nullptr) Fail("can't resolve the output's path");
      if (!in_place_) target_ = resolved;
    } else if (errno != ENOENT) {
      Fail("can't look at the output");
    }
    if (target_.empty() || target_.back() == '/') throw PlanError(path_ + ": the output's name is empty");
    folder_ = FolderOf(target_);
    Create();
  } catch (...) {
    if (old_signal_ != SIG_ERR) std::signal(SIGXFSZ, old_signal_);
    throw;
  }
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (old_signal_ != SIG_ERR) std::signal(SIGXFSZ, old_signal_);
}

void OutputFile::Fail(const std::string& what) const {
  throw PlanError(path_ + ": " + what + ": " + std::strerror(errno));
}

// Names beside the target until `make(name)` succeeds; `what` can't be done if it fails for another reason than a name
// that is taken.
template <class Make>
void OutputFile::NameTemporary(const char* what, Make make) {
  for (unsigned attempt = 0; temporary_.empty(); ++attempt) {
    const std::string name = folder_ + "/.llmc-" + std::to_string(getpid()) + "-" + std::to_string(attempt) + ".tmp";
    if (make(name.c_str())) {
      temporary_ = name;
    } else if (errno != EEXIST || attempt > 1000) {
      Fail(what);
    }
  }
}

void OutputFile::Create() {
  if (in_place_) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) Fail("can't create the output");
    return;
  }
  fd_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (fd_ >= 0 && access(FdPath(fd_).c_str(), F_OK) == 0) return;  // it can be named later
  if (fd_ >= 0) close(fd_);
  NameTemporary("can't create the output", [this](const char* name) {
    fd_ = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ >= 0;
  });
}

void OutputFile::Write(const void* bytes, size_t size) {
  for (const char* at = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t put = write(fd_, at, std::min<size_t>(size, 1 << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) Fail("can't write");
    at += put;
    size -= static_cast<size_t>(put);
  }
}

void OutputFile::WriteAt(const void* bytes, size_t size, uint64_t offset) {
  for (const char* at = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t put = pwrite(fd_, at, std::min<size_t>(size, 1 << 30), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) Fail("can't write at byte " + std::to_string(offset));
    at += put;
    offset += static_cast<uint64_t>(put);
    size -= static_cast<size_t>(put);
  }
}

void OutputFile::SetMode(unsigned mode) {
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fd_, static_cast<mode_t>(mode) & ~mask) != 0) Fail("can't set the output's mode");
}

// For file systems that make files without a name and can't give them one.
bool OutputFile::CopyTo(const char* name, bool sync) {
  const int copy = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (copy < 0) return false;
  temporary_ = name;  // from here on there is something to remove
  const int whole = std::exchange(fd_, copy);
  std::string buffer(size_t{1} << 20, '\0');
  uint64_t at = 0;
  for (ssize_t got = 1; got != 0;) {
    got = pread(whole, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(whole);
      errno = error;
      Fail("can't read the output again");
    }
    WriteAt(buffer.data(), static_cast<size_t>(got), at);
    at += static_cast<uint64_t>(got);
  }
  close(whole);
  if (sync && fsync(fd_) != 0) Fail("can't sync the output");
  return true;
}

void OutputFile::Publish(bool sync) {
  if (!in_place_ && sync && fsync(fd_) != 0) Fail("can't sync the output");
  if (!in_place_ && temporary_.empty()) {
    NameTemporary("can't name the output", [&](const char* name) {
      if (linkat(AT_FDCWD, FdPath(fd_).c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) return true;
      return errno != EEXIST && CopyTo(name, sync);
    });
  }
  const int file = std::exchange(fd_, -1);
  if (close(file) != 0) Fail("can't close the output");
  if (in_place_) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) Fail("can't rename " + temporary_);
  temporary_.clear();
  // The name itself reaches the disk with its folder; where folders can't be synced, the file is whole all the same.
  const int folder = sync ? open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

}  // namespace llmc
