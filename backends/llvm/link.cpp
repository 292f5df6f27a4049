// LLD as a library, and what makes its output a blob that needs no loader.
#include <cstring>
#include <mutex>

#include <lld/Common/Driver.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Object/ELF.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

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

// A private folder under TMPDIR, gone with its files at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (const std::error_code ec = llvm::sys::fs::createUniqueDirectory("llmc", path_)) {
      Fail(DiagKind::FileError, {"TMPDIR", ""}, "cannot make a temporary folder: " + ec.message());
    }
  }
  ~TemporaryFolder() { [[maybe_unused]] const std::error_code ec = llvm::sys::fs::remove_directories(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string File(const std::string& name) const { return path_.str().str() + "/" + name; }
  // The folder's name is random: it has no place in a message.
  std::string Without(std::string text) const {
    const std::string prefix = path_.str().str() + "/";
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }

 private:
  llvm::SmallString<128> path_;
};

std::string RunLld(const std::vector<std::string>& inputs, std::vector<std::string> options) {
  // LLD 19 keeps its state in globals.
  static std::mutex mutex;
  static bool usable = true;
  const std::lock_guard lock(mutex);
  if (!usable) Broken("LLD crashed earlier in this process");
  const TemporaryFolder folder;
  options.insert(options.begin(), "ld.lld");
  for (size_t i = 0; i < inputs.size(); ++i) {
    options.push_back(folder.File("llmc" + std::to_string(i) + ".o"));
    std::error_code ec;
    llvm::raw_fd_ostream stream(options.back(), ec);
    if (!ec) {
      stream << inputs[i];
      stream.close();
      ec = stream.error();
      stream.clear_error();
    }
    if (ec) Fail(DiagKind::FileError, {"TMPDIR", ""}, "cannot write a temporary file: " + ec.message());
  }
  const std::string output = folder.File("llmc.out");
  options.insert(options.end(), {"-o", output});
  std::vector<const char*> args;
  args.reserve(options.size());
  for (const std::string& option : options) args.push_back(option.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) Broken(folder.Without(messages));
  auto buffer = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    Fail(DiagKind::FileError, {"TMPDIR", ""}, "cannot read a temporary file: " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
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
