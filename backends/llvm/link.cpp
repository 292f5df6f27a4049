// LLD as a library, and what makes its output a blob that needs no loader.
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include <lld/Common/Driver.h>
#include <llvm/Object/ELF.h>
#include <llvm/Support/raw_ostream.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/llvm/codegen.h"
#include "ir/diag.h"

LLD_HAS_DRIVER(elf)

namespace llmc {
namespace {

namespace elf = llvm::ELF;
using ElfFile = llvm::object::ELFFile<llvm::object::ELF64LE>;

constexpr uint64_t kCodePage = 4096;
// Code of the largest models is a few hundred KiB; a header that asks for more than this is damaged.
constexpr uint64_t kMaxCode = 1u << 28;

[[noreturn]] void Broken(const std::string& what) { LLMC_CHECK(false, "linking: " + what); }

template <class T>
T Get(llvm::Expected<T> value) {
  if (!value) Broken(llvm::toString(value.takeError()));
  return std::move(*value);
}

[[noreturn]] void NoMemoryFile(const char* what) {
  Fail(DiagKind::FileError, {"linking", ""}, std::string(what) + ": " + std::strerror(errno));
}
std::string PathOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// LLD reads and writes files alone. Its inputs are files in memory, which have paths while they are open.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("llmc", MFD_CLOEXEC)) {
    if (fd_ < 0) NoMemoryFile("cannot make a file in memory");
    while (!bytes.empty()) {
      const ssize_t put = write(fd_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        close(fd_);
        NoMemoryFile("cannot write a file in memory");
      }
      bytes.remove_prefix(static_cast<size_t>(put));
    }
  }
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return PathOf(fd_); }

 private:
  int fd_;
};

// Its output goes into a pipe that a thread empties: for a regular file LLD wants to make another one beside it, which
// /proc doesn't let it.
class OutputPipe {
 public:
  OutputPipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) NoMemoryFile("cannot make a pipe");
    reader_ = std::jthread([this] {
      std::array<char, 1 << 16> part;
      while (true) {
        const ssize_t got = read(ends_[0], part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        bytes_.append(part.data(), static_cast<size_t>(got));
      }
    });
  }
  ~OutputPipe() {
    Finish();
    close(ends_[0]);
  }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;
  std::string path() const { return PathOf(ends_[1]); }
  // What was written by all who opened it.
  std::string Finish() {
    if (reader_.joinable()) {
      close(ends_[1]);
      reader_.join();
    }
    return std::move(bytes_);
  }

 private:
  int ends_[2];  // to read from, to write into
  std::string bytes_;
  std::jthread reader_;
};

std::string RunLld(const std::vector<std::string>& inputs, std::vector<std::string> options) {
  // LLD 19 keeps its state in globals.
  static std::mutex mutex;
  static bool usable = true;
  const std::lock_guard lock(mutex);
  if (!usable) Broken("LLD crashed earlier in this process");
  options.insert(options.begin(), "ld.lld");
  std::vector<MemoryFile> files;
  files.reserve(inputs.size());
  for (const std::string& input : inputs) options.push_back(files.emplace_back(input).path());
  OutputPipe output;
  options.insert(options.end(), {"-o", output.path()});
  std::vector<const char*> args;
  args.reserve(options.size());
  for (const std::string& option : options) args.push_back(option.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) Broken(messages);
  return output.Finish();
}

void CheckSection(const ElfFile& file, const ElfFile::Elf_Shdr& section) {
  const std::string name = Get(file.getSectionName(section)).str();
  switch (section.sh_type) {
    case elf::SHT_REL:
    case elf::SHT_RELA:
    case elf::SHT_RELR:
    case elf::SHT_CREL:
      if (section.sh_size != 0) Broken("relocations are left for the loader: " + name);
      break;
    case elf::SHT_INIT_ARRAY:
    case elf::SHT_FINI_ARRAY:
    case elf::SHT_PREINIT_ARRAY: Broken("code that wants to run at load: " + name);
    case elf::SHT_DYNSYM:
      for (const auto& symbol : Get(file.symbols(&section)).drop_front()) {
        if (symbol.st_shndx == elf::SHN_UNDEF)
          Broken("undefined symbol " + Get(symbol.getName(Get(file.getStringTableForSymtab(section)))).str());
      }
      break;
    default: break;
  }
  if ((section.sh_flags & elf::SHF_ALLOC) == 0 || section.sh_size == 0) return;
  if ((section.sh_flags & elf::SHF_TLS) != 0) Broken("thread-local section " + name);
  if ((section.sh_flags & elf::SHF_WRITE) != 0 && section.sh_type != elf::SHT_DYNAMIC && name != ".relro_padding")
    Broken("writable section " + name);
}

}  // namespace

std::string MergeObjects(const std::vector<std::string>& objects) {
  return objects.size() == 1
             ? objects[0]
             : RunLld(objects, {"-r", "--build-id=none", "--threads=1", "--fatal-warnings", "--no-mmap-output-file"});
}

std::string LinkShared(const std::string& object) {
  return RunLld({object}, {"-shared",
                           "-nostdlib",
                           "--no-undefined",
                           "-z",
                           "text",
                           "-z",
                           "defs",
                           "--no-dynamic-linker",
                           "--build-id=none",
                           "--hash-style=gnu",
                           "-soname=llmc",
                           "--gc-sections",
                           "-Bsymbolic",
                           "--no-rosegment",
                           "-z",
                           "noseparate-code",
                           "-z",
                           "max-page-size=4096",
                           "-z",
                           "norelro",
                           "--threads=1",
                           "--icf=none",
                           "--fatal-warnings",
                           "--no-mmap-output-file"});
}

CodeBlob Flatten(const std::string& shared_object) {
  const ElfFile file = Get(ElfFile::create(shared_object));
  const auto sections = Get(file.sections());
  for (const auto& section : sections) CheckSection(file, section);
  for (const auto& entry : Get(file.dynamicEntries())) {
    if (entry.d_tag == elf::DT_NEEDED || entry.d_tag == elf::DT_TEXTREL || entry.d_tag == elf::DT_JMPREL) {
      Broken("dynamic tag " + std::to_string(entry.d_tag));
    }
  }
  CodeBlob blob;
  for (const auto& segment : Get(file.program_headers())) {
    if (segment.p_type == elf::PT_TLS || segment.p_type == elf::PT_INTERP)
      Broken("segment of type " + std::to_string(segment.p_type));
    if (segment.p_type != elf::PT_LOAD) continue;
    const uint64_t size = segment.p_memsz, at = segment.p_vaddr, from = segment.p_offset, bytes = segment.p_filesz;
    if (at > kMaxCode || size > kMaxCode - at || bytes > size || from > shared_object.size() ||
        bytes > shared_object.size() - from) {
      Broken("segment outside the file");
    }
    if (at + size > blob.bytes.size()) blob.bytes.resize(at + size, '\0');
    std::memcpy(blob.bytes.data() + at, shared_object.data() + from, bytes);
  }
  blob.bytes.resize((blob.bytes.size() + kCodePage - 1) / kCodePage * kCodePage, '\0');
  for (const auto& section : sections) {
    if (section.sh_type != elf::SHT_DYNSYM && section.sh_type != elf::SHT_SYMTAB) continue;
    const llvm::StringRef names = Get(file.getStringTableForSymtab(section));
    for (const auto& symbol : Get(file.symbols(&section)).drop_front()) {
      if (symbol.getType() != elf::STT_FUNC) continue;
      if (symbol.st_value > blob.bytes.size() || symbol.st_size > blob.bytes.size() - symbol.st_value)
        Broken("symbol outside the code");
      const std::string name = Get(symbol.getName(names)).str();
      blob.symbols[name] = {symbol.st_value, symbol.st_size};
      constexpr std::string_view prefix = "llmc_";
      if (section.sh_type == elf::SHT_DYNSYM)
        blob.entries[name.substr(name.starts_with(prefix) ? prefix.size() : 0)] = symbol.st_value;
    }
  }
  return blob;
}

CodeBlob LinkObject(const std::string& object) { return Flatten(LinkShared(object)); }

}  // namespace llmc
