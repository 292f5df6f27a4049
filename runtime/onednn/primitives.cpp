// Matmuls: plain row-major descriptions, so that no bytes of the plan are oneDNN's.
//
// Rows are a run-time dimension: oneDNN's GEMM takes it at no cost, so that one primitive serves every call. For one
// row too: where oneDNN picks something else for a fixed row (brgemm when there is a post-op) it is slower. Arguments
// are kept as the C interface's array, which execution needs anyway; the C++ one builds a hash table for each call.
#include "runtime/onednn/primitives.h"

#include <algorithm>

#include "runtime/plan_error.h"

namespace llmc::onednn {
namespace {

using Desc = dnnl::memory::desc;

using Type = dnnl::memory::data_type;

Desc Rows(int64_t rows, int64_t columns, int64_t stride, Type type) {
  return Desc({rows, columns}, type, dnnl::memory::dims{stride, 1});
}
Desc Batch(int64_t batch, int64_t batch_stride, int64_t rows, int64_t columns, int64_t stride, Type type) {
  if (batch == 1) return Rows(rows, columns, stride, type);
  return Desc({batch, rows, columns}, type, dnnl::memory::dims{batch_stride, stride, 1});
}
Type FactorType(const MatmulShape& s) {
  return s.factors == Factors::Bf16 ? Type::bf16 : s.factors == Factors::I8 ? Type::s8 : Type::f32;
}
Desc XOf(const MatmulShape& s, int64_t rows) { return Batch(s.batch, s.k, rows, s.k, s.x_stride, FactorType(s)); }
Desc WOf(const MatmulShape& s) { return Batch(s.batch, s.k * s.w_stride, s.k, s.width, s.w_stride, FactorType(s)); }
Desc BiasOf(const MatmulShape& s) { return Rows(1, s.width, s.width, Type::f32); }
Desc OutOf(const MatmulShape& s, int64_t rows) {
  return Batch(s.batch, s.batch_stride, rows, s.width, s.out_stride, s.factors == Factors::I8 ? Type::s32 : Type::f32);
}
// There may be no implementation on this CPU.
bool IsOptional(const MatmulShape& s) { return s.factors == Factors::Bf16 || s.factors == Factors::I8; }

bool IsReference(const std::string& implementation) { return implementation.find("ref") != std::string::npos; }

}  // namespace

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::optional<Matmul> Matmul::Make(const MatmulShape& shape) {
  dnnl::post_ops ops;
  if (shape.sum) ops.append_sum(1.0f);
  if (shape.swish) AppendSwish(ops);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever ONEDNN_DEFAULT_FPMATH_MODE allows
  const Desc bias = BiasOf(shape);
  Matmul made;
  try {
    const auto desc = DescribeMatmul(Engine(), XOf(shape, DNNL_RUNTIME_DIM_VAL), WOf(shape),
                                     shape.bias ? &bias : nullptr, OutOf(shape, DNNL_RUNTIME_DIM_VAL), attr);
    made.implementation_ = desc.impl_info_str();
    if (IsReference(made.implementation_)) {
      if (IsOptional(shape)) return std::nullopt;
      throw PlanError("oneDNN has only its reference implementation of an f32 product, a thousand times slower");
    }
    made.primitive_ = dnnl::matmul(desc);
    made.scratchpad_ = desc.scratchpad_desc();
  } catch (const dnnl::error& error) {
    if (IsOptional(shape) && error.status == dnnl_unimplemented) return std::nullopt;
    throw;
  }
  made.shape_ = shape;
  return made;
}

void Matmul::WarmUp() const {
  const int64_t most = shape_.batch == 1 ? 8 : std::min(int64_t{8}, shape_.batch_stride / shape_.out_stride);
  for (const int64_t rows : {int64_t{1}, most}) {
    AlignedBytes x(XOf(shape_, rows).get_size()), w(WOf(shape_).get_size()), bias(BiasOf(shape_).get_size());
    AlignedBytes out(OutOf(shape_, rows).get_size()), scratchpad(scratchpad_.get_size());
    MatmulCall(*this, rows, scratchpad.data())
        .Run(dnnl::stream(Engine()), x.data(), w.data(), reinterpret_cast<const float*>(bias.data()), out.data());
  }
}

std::string Matmul::Describe() const {
  constexpr const char* kFactors[] = {"f32", "bf16", "bf16 as f32", "s8"};
  std::string text = std::string(kFactors[static_cast<size_t>(shape_.factors)]) +
                     (shape_.batch > 1 ? " " + std::to_string(shape_.batch) + " times" : "") + " [*, " +
                     std::to_string(shape_.k) + "] x [" + std::to_string(shape_.k) + ", " +
                     std::to_string(shape_.width) + "]";
  std::string ops;
  if (shape_.bias) ops += ", bias";
  if (shape_.sum) ops += ", sum";
  if (shape_.swish) ops += ", swish";
  if (!ops.empty()) text += " + " + ops.substr(2);
  return text + ": " + implementation_;
}

MatmulCall::MatmulCall(const Matmul& matmul, int64_t rows, uint8_t* scratchpad)
    : matmul_(&matmul),
      x_(XOf(matmul.shape_, rows), Engine(), DNNL_MEMORY_NONE),
      w_(WOf(matmul.shape_), Engine(), DNNL_MEMORY_NONE),
      out_(OutOf(matmul.shape_, rows), Engine(), DNNL_MEMORY_NONE) {
  args_[n_args_++] = {DNNL_ARG_SRC, x_.get()};
  args_[n_args_++] = {DNNL_ARG_WEIGHTS, w_.get()};
  args_[n_args_++] = {DNNL_ARG_DST, out_.get()};
  if (matmul.shape_.bias) {
    bias_ = dnnl::memory(BiasOf(matmul.shape_), Engine(), DNNL_MEMORY_NONE);
    args_[n_args_++] = {DNNL_ARG_BIAS, bias_.get()};
  }
  if (matmul.scratchpad_bytes() != 0) {
    scratchpad_ = dnnl::memory(matmul.scratchpad_, Engine(), scratchpad);
    args_[n_args_++] = {DNNL_ARG_SCRATCHPAD, scratchpad_.get()};
  }
}

void MatmulCall::Run(const dnnl::stream& stream, const void* x, const void* w, const float* bias, void* out) {
  x_.set_data_handle(const_cast<void*>(x));
  w_.set_data_handle(const_cast<void*>(w));
  out_.set_data_handle(out);
  if (matmul_->shape_.bias) bias_.set_data_handle(const_cast<float*>(bias));
  dnnl::error::wrap_c_api(dnnl_primitive_execute(matmul_->primitive_.get(), stream.get(), n_args_, args_),
                          "a matmul can't be executed");
}

}  // namespace llmc::onednn
