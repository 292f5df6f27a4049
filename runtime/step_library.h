// libllmc_onednn.so, which runs a plan's kernel and dnnl steps: found and opened when a plan has such steps, and only
// then, so that llmc-run links nothing for it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/onednn/library.h"

namespace llmc {

class StepLibrary {
 public:
  // Where the library is looked for: $LLMC_ONEDNN_LIBRARY alone when it is set; else beside the running program, in lib
  // beside the program's folder, and where the system looks for libraries.
  static std::vector<std::string> Places();

  // The first of `places` that exists (a name without a slash: where the system looks). It stays open until the process
  // ends. Throws PlanError, which begins with `where` and says what needs the library (`need`), where it was looked for
  // and what to install; when it is of another version; when the CPU lacks what it was compiled for.
  static std::shared_ptr<const StepLibrary> Open(std::string_view where, const std::string& need,
                                                 const std::vector<std::string>& places = Places());

  const LlmcOnednnLibrary& table() const { return *table_; }
  const std::string& path() const { return path_; }

 private:
  StepLibrary(const LlmcOnednnLibrary* table, std::string path) : table_(table), path_(std::move(path)) {}
  const LlmcOnednnLibrary* table_;
  std::string path_;
};

// A plan's kernel and dnnl steps with their primitives; immutable, for any number of sessions.
class StepProgram {
 public:
  // The library copies what it needs of `steps`. Throws PlanError with the library's message behind `where`.
  StepProgram(std::shared_ptr<const StepLibrary> library, std::span<const LlmcOnednnStep> steps,
              std::string_view where);
  ~StepProgram();
  StepProgram(const StepProgram&) = delete;
  StepProgram& operator=(const StepProgram&) = delete;

  // As LlmcOnednnLibrary::run.
  uint32_t Run(uint64_t step, const LlmcContext* context, uint32_t thread, uint32_t threads,
               uint8_t* scratchpad) const {
    return library_->table().run(program_, step, context, thread, threads, scratchpad);
  }
  uint64_t scratchpad_bytes() const { return scratchpad_bytes_; }  // per thread, a multiple of 64
  uint64_t primitives() const { return library_->table().primitives(program_); }
  // A primitive in words, with the name of its implementation.
  std::string Describe(uint64_t primitive) const { return library_->table().describe(program_, primitive); }
  std::string version() const { return library_->table().version; }  // "oneDNN 2.6.3"
  const std::string& path() const { return library_->path(); }
  double milliseconds() const { return milliseconds_; }  // that making the primitives took

 private:
  std::shared_ptr<const StepLibrary> library_;
  LlmcOnednnProgram* program_;
  uint64_t scratchpad_bytes_;
  double milliseconds_;
};

}  // namespace llmc
