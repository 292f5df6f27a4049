// Steps made by hand and run through the library's C interface, on memory with guard bytes around everything that a
// step may write.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/onednn/library.h"
#include "runtime/plan_steps.h"

namespace llmc::onednn_test {

// A program of one or more steps; null with a message when the library refuses them.
class TestProgram {
 public:
  void Add(PlanStepKind kind, std::string payload) { AddKind(static_cast<uint32_t>(kind), std::move(payload)); }
  void AddKind(uint32_t kind, std::string payload) {
    kinds_.push_back(kind);
    payloads_.push_back(std::move(payload));
  }
  void Add(const DnnlStep& step) { Add(PlanStepKind::Dnnl, EncodeStep(step)); }
  void Add(const KernelStep& step) { Add(PlanStepKind::Kernel, EncodeStep(step)); }

  // The library's message, empty when it made the program.
  std::string Create() {
    std::vector<LlmcOnednnStep> steps;
    for (size_t i = 0; i < kinds_.size(); ++i)
      steps.push_back({kinds_[i], payloads_[i].data(), payloads_[i].size(), nullptr});
    char message[400] = {};
    program_ = library_->create(steps.data(), steps.size(), message, sizeof message);
    return message;
  }
  ~TestProgram() {
    if (program_ != nullptr) library_->destroy(program_);
  }
  TestProgram() = default;
  TestProgram(const TestProgram&) = delete;
  TestProgram& operator=(const TestProgram&) = delete;

  const LlmcOnednnProgram* get() const { return program_; }
  std::vector<std::string> Descriptions() const {
    std::vector<std::string> out;
    for (uint64_t i = 0; i < library_->primitives(program_); ++i) out.push_back(library_->describe(program_, i));
    return out;
  }

  // All threads of a step at once.
  void Run(uint64_t step, const LlmcContext& c, uint32_t threads) const {
    const uint64_t bytes = library_->scratchpad_bytes(program_);
    std::vector<uint32_t> status(threads, 0);
    const auto share = [&](uint32_t t) {
      auto* scratchpad = static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
      std::memset(scratchpad + bytes, 0xa5, 64);
      status[t] = library_->run(program_, step, &c, t, threads, scratchpad);
      for (int i = 0; i < 64; ++i) status[t] |= scratchpad[bytes + static_cast<uint64_t>(i)] == 0xa5 ? 0 : 2;
      std::free(scratchpad);
    };
    std::vector<std::thread> others;
    for (uint32_t t = 1; t < threads; ++t) others.emplace_back(share, t);
    share(0);
    for (std::thread& t : others) t.join();
    for (uint32_t t = 0; t < threads; ++t) ASSERT_EQ(status[t], 0u) << "thread " << t << " of " << threads;
  }

 private:
  const LlmcOnednnLibrary* library_ = llmc_onednn_library();
  std::vector<uint32_t> kinds_;
  std::vector<std::string> payloads_;
  LlmcOnednnProgram* program_ = nullptr;
};

// A space of memory: reserved pieces with 64 guard bytes of 0xa5 before, between and after.
class Space {
 public:
  static constexpr size_t kGuard = 64;
  // Offset of `bytes` that start at a multiple of 64, plus `shift`.
  uint64_t Reserve(size_t bytes, size_t shift = 0) {
    const uint64_t at = (size_ + kGuard + 63) / 64 * 64 + shift;
    size_ = at + bytes + kGuard;
    pieces_.push_back({at, bytes});
    return at;
  }
  template <class T>
  uint64_t Put(const std::vector<T>& values, size_t shift = 0) {
    const uint64_t at = Reserve(values.size() * sizeof(T), shift);
    contents_.push_back({at, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))});
    return at;
  }
  // Fills with guards and what was put.
  void Reset(size_t copies = 1) {
    stride_ = (size_ + 63) / 64 * 64;
    bytes_.assign(stride_ * copies + 64, 0xa5);
    for (size_t i = 0; i < copies; ++i) {
      for (const auto& [at, text] : contents_) std::memcpy(data() + i * stride_ + at, text.data(), text.size());
    }
  }
  uint8_t* data() { return bytes_.data() + (64 - reinterpret_cast<uintptr_t>(bytes_.data()) % 64) % 64; }
  size_t stride() const { return stride_; }
  template <class T>
  std::vector<T> Read(uint64_t at, size_t count) {
    std::vector<T> out(count);
    std::memcpy(out.data(), data() + at, count * sizeof(T));
    return out;
  }
  // Everything outside the reserved pieces is as Reset left it, and so is what was put, but for a piece at `written`.
  void CheckGuards(const std::vector<uint64_t>& written, const std::string& what) {
    for (size_t copy = 0; copy * stride_ + 64 < bytes_.size(); ++copy) {
      const uint8_t* base = data() + copy * stride_;
      uint64_t at = 0;
      for (const auto& [begin, bytes] : pieces_) {
        for (; at < begin; ++at) ASSERT_EQ(base[at], 0xa5) << what << ": guard at " << at;
        at = begin + bytes;
      }
      for (; at < stride_; ++at) ASSERT_EQ(base[at], 0xa5) << what << ": guard at " << at;
      for (const auto& [begin, text] : contents_) {
        bool may = false;
        for (uint64_t w : written) may = may || w == begin;
        ASSERT_TRUE(may || std::memcmp(base + begin, text.data(), text.size()) == 0) << what << ": input at " << begin;
      }
    }
  }

 private:
  struct Piece {
    uint64_t at;
    size_t bytes;
  };
  size_t size_ = 0, stride_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::pair<uint64_t, std::string>> contents_;
  std::vector<uint8_t> bytes_;
};

}  // namespace llmc::onednn_test
