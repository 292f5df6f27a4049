// The C interface (llmc.h) for C++17: objects that release what they hold, errors as exceptions. Header only.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llmc.h"  // beside this file, where it is installed too

namespace llmc_api {

struct Error : std::runtime_error {
  Error(llmc_status s, const char* message) : std::runtime_error(message), status(s) {}
  llmc_status status;
};
inline void Check(llmc_status status) {
  if (status != LLMC_OK) throw Error(status, llmc_last_error());
}

// A pointer of the C interface with its release.
template <class T, void (*Release)(T*)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Handle() { Release(pointer_); }
  T* get() const { return pointer_; }
  T** out() { return &pointer_; }

 private:
  T* pointer_ = nullptr;
};

class Model {
 public:
  explicit Model(const std::string& path) { Check(llmc_model_open(path.c_str(), model_.out())); }
  Model(const void* plan, size_t size) { Check(llmc_model_open_memory(plan, size, model_.out())); }
  llmc_model* get() const { return model_.get(); }
  llmc_model_info info() const {
    llmc_model_info info{};
    info.size = sizeof info;
    Check(llmc_model_get_info(get(), &info));
    return info;
  }
  std::vector<int32_t> Tokenize(std::string_view text, uint32_t flags = 0) const {
    size_t count = 0;
    const llmc_status asked = llmc_tokenize(get(), text.data(), text.size(), flags, nullptr, 0, &count);
    if (asked != LLMC_ERROR_USAGE) Check(asked);
    std::vector<int32_t> ids(count);
    if (count > 0) Check(llmc_tokenize(get(), text.data(), text.size(), flags, ids.data(), ids.size(), &count));
    return ids;
  }
  std::string Detokenize(const std::vector<int32_t>& ids) const {
    size_t count = 0;
    const llmc_status asked = llmc_detokenize(get(), ids.data(), ids.size(), nullptr, 0, &count);
    if (asked != LLMC_ERROR_USAGE) Check(asked);
    std::string text(count, '\0');
    if (count > 0) Check(llmc_detokenize(get(), ids.data(), ids.size(), text.data(), text.size(), &count));
    return text;
  }

 private:
  Handle<llmc_model, llmc_model_close> model_;
};

using Snapshot = Handle<llmc_snapshot, llmc_snapshot_free>;

class Session {
 public:
  explicit Session(const Model& model, uint32_t threads = 1) : vocab_(model.info().vocab) {
    llmc_session_options options{};
    options.size = sizeof options;
    options.threads = threads;
    Check(llmc_session_create(model.get(), &options, session_.out()));
  }
  llmc_session* get() const { return session_.get(); }
  // Pointer to f32[vocab()], valid until the next call.
  const float* Prefill(const std::vector<int32_t>& ids) {
    Check(llmc_prefill(get(), ids.data(), ids.size()));
    return llmc_logits(get());
  }
  const float* Decode(int32_t id) {
    Check(llmc_decode(get(), id));
    return llmc_logits(get());
  }
  // The embedding of a text, as the model's files say; pooling and prompt may name others.
  std::vector<float> Embed(const std::string& text, const char* pooling = nullptr, const char* prompt = nullptr) {
    size_t count = 0;
    std::vector<float> embedding(1 << 12);
    for (;;) {
      const llmc_status status =
          llmc_embed(get(), text.data(), text.size(), pooling, prompt, embedding.data(), embedding.size(), &count);
      if (status != LLMC_ERROR_USAGE || count <= embedding.size()) Check(status);
      const bool fits = count <= embedding.size();
      embedding.resize(count);
      if (fits) return embedding;
    }
  }
  int32_t Sample(const llmc_sampling& sampling) {
    int32_t id = -1;
    Check(llmc_sample(get(), &sampling, &id));
    return id;
  }
  // What Sample gives from now on is a text of a grammar; kind LLMC_UNCONSTRAINED ends that.
  void Constrain(llmc_constraint_kind kind, std::string_view text = {}) {
    Check(llmc_constrain(get(), kind, text.data(), text.size()));
  }
  bool finished() const { return llmc_constraint_finished(get()) != 0; }
  uint32_t vocab() const { return vocab_; }
  uint32_t position() const { return llmc_position(get()); }
  void Cancel() { llmc_cancel(get()); }
  void Reset() { Check(llmc_reset(get())); }
  Snapshot Take() const {
    Snapshot snapshot;
    Check(llmc_snapshot_take(get(), snapshot.out()));
    return snapshot;
  }
  void Restore(const Snapshot& snapshot) { Check(llmc_snapshot_restore(get(), snapshot.get())); }
  void Save(const std::string& path) const { Check(llmc_session_save(get(), path.c_str())); }
  void Load(const std::string& path) { Check(llmc_session_load(get(), path.c_str())); }

 private:
  Handle<llmc_session, llmc_session_destroy> session_;
  uint32_t vocab_;
};

}  // namespace llmc_api
