// Whole files: read at once, and written so that the name appears with the last byte or not at all.
#pragma once
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>

namespace llmc {

// All bytes of a file, a pipe or a device, at most `most`. Throws PlanError "PATH: can't open: reason", "can't read",
// "more than N bytes".
std::string ReadWholeFile(const std::string& path, size_t most = size_t{1} << 30);

// Until Publish, and after any failure, `path` is what it was and nothing else is left. Where the file system can, the
// bytes have no name until they are whole, so that not even SIGKILL leaves any behind; else a unique name beside the
// target. Every failure is a PlanError "PATH: what: reason".
class OutputFile {
 public:
  // What is no regular file (a pipe, /dev/stdout) can only be written in place.
  enum class Devices : uint8_t { Refuse, InPlace };
  OutputFile(const std::string& path, Devices devices);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  int fd() const { return fd_; }
  const std::string& folder() const { return folder_; }           // of the target, links resolved
  void Write(const void* bytes, size_t size);                     // at the end of what was written so
  void WriteAt(const void* bytes, size_t size, uint64_t offset);  // not in place
  void SetMode(unsigned mode);                                    // e.g. 0777: an executable; the umask applies
  void Publish(bool sync);                                        // sync: file and name are on the disk when it returns

 private:
  [[noreturn]] void Fail(const std::string& what) const;
  void Create();
  bool CopyTo(const char* name, bool sync);
  template <class Make>
  void NameTemporary(const char* what, Make make);

  std::string path_, target_, folder_;
  std::string temporary_;  // its name; empty: it has none (yet), nothing to remove
  bool in_place_ = false;
  int fd_ = -1;
  // A write over `ulimit -f` raises SIGXFSZ, whose default ends the process and would leave the temporary; ignored, it
  // is EFBIG like any other failure.
  void (*old_signal_)(int);
};

// The folder of a path: "." without one.
std::string FolderOf(const std::string& path);

}  // namespace llmc
