// Files of a model: mapped read-only, or read whole when they are small. Only regular files are opened, so no pipe or
// device can make llmc wait or grow.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmc {

// A read-only mapping of a whole regular file; an empty file has an empty span.
class MappedFile {
 public:
  // Throws InputError FileError with the path and the system's reason, also for what git-lfs leaves in a file's place.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole text of a regular file of at most max_bytes; throws InputError FileError, as MappedFile does.
std::string ReadTextFile(const std::string& path, uint64_t max_bytes);

bool IsRegularFile(const std::string& path);
// Whether a folder has an entry of this name, whatever it is: a link that leads nowhere is there too, so that reading
// it fails by name instead of passing for absent.
bool IsPresent(const std::string& path);
// Whether a regular file begins with these bytes.
bool StartsWith(const std::string& path, std::string_view magic);
bool IsDirectory(const std::string& path);
// "dir/name"; just the name when dir is empty.
std::string JoinPath(const std::string& dir, const std::string& name);
// The folder of a path, "" when it has none; the name without it.
std::string DirOf(const std::string& path);
std::string BaseName(const std::string& path);

}  // namespace llmc
