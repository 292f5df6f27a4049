// Preloaded: linkat fails as it does on file systems that can make a file without a name and can't name it.
#include <cerrno>

extern "C" int linkat(int, const char*, int, const char*, int) {
  errno = EPERM;
  return -1;
}
