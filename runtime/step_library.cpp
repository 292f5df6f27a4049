// Finding, opening and checking the library, and a program's life.
#include "runtime/step_library.h"

#include <cstdlib>

#include <dlfcn.h>
#include <unistd.h>

#include "ir/round_up.h"
#include "runtime/plan.h"
#include "runtime/plan_words.h"
#include "runtime/threads.h"

namespace llmc {
namespace {

constexpr char kFile[] = "libllmc_onednn.so";
constexpr uint64_t kMaxScratchpad = uint64_t{1} << 40;

std::string ProgramFolder() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) return "";
  path.resize(static_cast<size_t>(size));
  return path.substr(0, path.rfind('/'));
}

}  // namespace

std::vector<std::string> StepLibrary::Places() {
  if (const char* named = std::getenv("LLMC_ONEDNN_LIBRARY"); named != nullptr && *named != '\0') {
    const std::string file = named;
    return {file.find('/') == std::string::npos ? "./" + file : file};
  }
  std::vector<std::string> places;
  if (const std::string folder = ProgramFolder(); !folder.empty()) {
    for (const char* below : {"/", "/../lib/"}) places.push_back(Joined({folder, below, kFile}));
  }
  places.emplace_back(kFile);
  return places;
}

std::shared_ptr<const StepLibrary> StepLibrary::Open(std::string_view where, const std::string& need,
                                                     const std::vector<std::string>& places) {
  const auto fail = [&](std::initializer_list<std::string_view> rule) {
    throw PlanError(Joined({where, ": ", need, " needs ", kFile, Joined(rule)}));
  };
  void* handle = nullptr;
  std::string path, looked;
  for (const std::string& place : places) {
    const bool file = place.find('/') != std::string::npos;
    looked = Joined({looked, looked.empty() ? "" : ", ", file ? place : "the system's folders of libraries"});
    if (file && access(place.c_str(), F_OK) != 0) continue;
    path = place;
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    const char* error = dlerror();
    const std::string_view why = error == nullptr ? "no reason given" : error;
    if (why.find("libdnnl") != std::string_view::npos)
      fail({", which can't be opened without oneDNN (", why,
            "): install it (Debian: libdnnl2 on bookworm, libdnnl3 on newer ones)"});
    if (file) fail({", which can't be opened: ", why});
  }
  if (handle == nullptr) {
    fail({", which isn't there (looked for: ", looked,
          "). It is built with llmc where oneDNN is installed, and belongs beside the program; LLMC_ONEDNN_LIBRARY "
          "names it elsewhere"});
  }
  // POSIX: an object pointer from dlsym may be used as a function pointer.
  const auto get = reinterpret_cast<const LlmcOnednnLibrary* (*)()>(dlsym(handle, LLMC_ONEDNN_SYMBOL));
  const LlmcOnednnLibrary* table = get == nullptr ? nullptr : get();
  if (table == nullptr) fail({", and ", path, " isn't one: it has no ", LLMC_ONEDNN_SYMBOL});
  const auto check = [&](const char* what, uint32_t has, uint32_t wants) {
    if (has != wants)
      fail({" of ", what, " ", std::to_string(wants), ", and ", path, " has ", std::to_string(has),
            ": take it from the build that this program is of"});
  };
  check("version", table->abi, LLMC_ONEDNN_ABI);
  check("ABI", table->context_abi, LLMC_ABI_VERSION);
  std::string lacks;
  const std::vector<std::string_view> words = Words(table->features);
  const std::vector<std::string> features(words.begin(), words.end());
  for (const std::string& feature : MissingCpuFeatures(features)) lacks += " " + feature;
  if (!lacks.empty()) fail({", which this CPU (", CpuName(), ") can't run: ", path, " needs", lacks});
  return std::shared_ptr<const StepLibrary>(new StepLibrary(table, path));
}

StepProgram::StepProgram(std::shared_ptr<const StepLibrary> library, std::span<const LlmcOnednnStep> steps,
                         std::string_view where)
    : library_(std::move(library)) {
  const LlmcOnednnLibrary& table = library_->table();
  char message[1024] = "";
  const uint64_t start = NowNanoseconds();
  program_ = table.create(steps.data(), steps.size(), message, sizeof(message));
  milliseconds_ = static_cast<double>(NowNanoseconds() - start) * 1e-6;
  message[sizeof(message) - 1] = '\0';
  if (program_ == nullptr) throw PlanError(Joined({where, ": ", library_->path(), ": ", message}));
  const uint64_t bytes = table.scratchpad_bytes(program_);
  if (bytes > kMaxScratchpad) {
    table.destroy(program_);
    throw PlanError(Joined({where, ": ", library_->path(), ": scratchpads of ", std::to_string(bytes), " bytes"}));
  }
  scratchpad_bytes_ = RoundUp(bytes, 64);
}

StepProgram::~StepProgram() { library_->table().destroy(program_); }

}  // namespace llmc
