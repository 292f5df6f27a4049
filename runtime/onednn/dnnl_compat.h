// What differs between oneDNN 2.6 and 3.x, and between builds of it: no other file looks at a version or a runtime.
//
// The library keeps to a small common surface: matmuls of plain row-major matrices with a run-time number of rows and
// the post-ops sum and swish. Binary post-ops are not part of it: neither version takes one with run-time rows, and
// 2.6 falls to its reference code for some strides.
#pragma once
#include <string>

#include <oneapi/dnnl/dnnl.hpp>

#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)
#error "llmc needs oneDNN 2.6 or newer"
#endif

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
// Of whatever OpenMP oneDNN brought into the process; weak, so that this library doesn't name one.
extern "C" {
__attribute__((weak)) int omp_get_max_threads(void);
__attribute__((weak)) void omp_set_num_threads(int);
}
#elif DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_SEQ
#error "llmc needs a oneDNN built for OpenMP or without threads (tools/cmake/onednn.cmake looks for one)"
#endif

namespace llmc::onednn {

// While one lives, oneDNN uses no thread but the calling one. OpenMP's setting belongs to the thread, and is put back.
class OneThread {
 public:
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
  OneThread() : before_(omp_get_max_threads != nullptr ? omp_get_max_threads() : 1) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }

 private:
  int before_;
#else
  OneThread() {}
  ~OneThread() {}

 public:
#endif
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

// Whether OneThread can hold oneDNN to one thread: its OpenMP was found.
inline bool ThreadsAreHeld() {
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
  return omp_get_max_threads != nullptr && omp_set_num_threads != nullptr;
#else
  return true;
#endif
}

// Of the library that was loaded: "oneDNN 2.6.3".
inline std::string VersionText() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

// bias: null for none. Throws dnnl::error when there is no implementation.
inline dnnl::matmul::primitive_desc DescribeMatmul(const dnnl::engine& engine, const dnnl::memory::desc& x,
                                                   const dnnl::memory::desc& w, const dnnl::memory::desc* bias,
                                                   const dnnl::memory::desc& out, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) return dnnl::matmul::primitive_desc(engine, x, w, *bias, out, attr);
  return dnnl::matmul::primitive_desc(engine, x, w, out, attr);
#else
  using Desc = dnnl::matmul::desc;
  return dnnl::matmul::primitive_desc(bias != nullptr ? Desc(x, w, *bias, out) : Desc(x, w, out), attr, engine);
#endif
}

// x / (1 + e^-x).
inline void AppendSwish(dnnl::post_ops& ops) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_swish, 1.0f, 0.0f);
#else
  ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_swish, 1.0f, 0.0f);
#endif
}

}  // namespace llmc::onednn
