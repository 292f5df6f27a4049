// Text of a tiny model at any choice of sizes, types and heads.
#include "tests/e2e/tiny.h"

#include <cmath>
#include <sstream>

#include "ir/text.h"
#include "ir/verify.h"

namespace llmc {
namespace {

class Text {
 public:
  explicit Text(const TinyModel& t) : t_(t) {}

  std::string Write() {
    os_ << "module @tiny {after = import, numerics = 2, context = " << t_.context << ", kv_type = " << t_.kv_type
        << ", activations = " << t_.activations << ", chunk = " << t_.chunk << "}\n"
        << "dim S = 1.." << t_.context << "\n";
    Matrix("embed", t_.vocab, t_.d);
    for (layer_ = 0; layer_ < t_.layers; ++layer_) Globals();
    os_ << "weight $final_norm : f32[" << t_.d << "]\n";
    if (!t_.tied) Matrix("head", t_.vocab, t_.d);
    os_ << "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n";
    os_ << "%b0.x = embed $embed, %tokens : " << Rows(t_.d) << "\n";
    for (layer_ = 0; layer_ < t_.layers; ++layer_) Layer();
    os_ << "%n = rms_norm %b" << t_.layers << ".x, $final_norm {eps = 1e-05} : " << Rows(t_.d) << "\n"
        << "%logits = linear %n, $" << (t_.tied ? "embed" : "head") << " : " << Rows(t_.vocab) << "\n"
        << "return %logits\n}\n";
    return os_.str();
  }

 private:
  static std::string Rows(int64_t n) { return "f32[S, " + std::to_string(n) + "]"; }
  std::string Heads(int64_t n) const {
    return "f32[S, " + std::to_string(n) + ", " + std::to_string(t_.head_dim) + "]";
  }
  std::string B(const std::string& base) const { return "b" + std::to_string(layer_) + "." + base; }

  void Matrix(const std::string& name, int64_t n, int64_t k) {
    os_ << "weight $" << name << " : " << t_.weights << "[" << n << ", " << k << "]\n";
  }
  void Vector(const std::string& name, int64_t n) { os_ << "weight $" << name << " : f32[" << n << "]\n"; }

  void Globals() {
    const int64_t q = t_.heads * t_.head_dim, kv = t_.kv_heads * t_.head_dim;
    Vector(B("attn_norm"), t_.d);
    Matrix(B("wq"), q, t_.d);
    Matrix(B("wk"), kv, t_.d);
    Matrix(B("wv"), kv, t_.d);
    if (t_.qkv_bias) {
      Vector(B("bq"), q);
      Vector(B("bk"), kv);
      Vector(B("bv"), kv);
    }
    if (t_.qk_norm) {
      Vector(B("q_norm"), t_.head_dim);
      Vector(B("k_norm"), t_.head_dim);
    }
    Matrix(B("wo"), t_.d, q);
    Vector(B("mlp_norm"), t_.d);
    Matrix(B("w_gate"), t_.ff, t_.d);
    Matrix(B("w_up"), t_.ff, t_.d);
    Matrix(B("w_down"), t_.d, t_.ff);
    os_ << "const $" << B("rope") << " : f32[" << t_.context << ", " << t_.head_dim
        << "] = rope_table {theta = 10000.0}\n";
    for (const char* name : {"k", "v"}) {
      os_ << "state $" << B(std::string(name) + "_cache") << " : " << t_.kv_type << "[" << t_.context << ", "
          << t_.kv_heads << ", " << t_.head_dim << "] {kind = kv, window = ";
      os_ << (t_.window > 0 ? std::to_string(t_.window) : "none") << "}\n";
    }
  }

  // %b{i}.NAME projected to heads, normed and turned as the model says; leaves its name in the text's last line.
  std::string Project(const std::string& name, int64_t heads, bool turn) {
    os_ << "%" << B(name) << " = linear %" << B("n") << ", $" << B("w" + name)
        << (t_.qkv_bias ? ", $" + B("b" + name) : "") << " : " << Rows(heads * t_.head_dim) << "\n";
    std::string last = B(name + "h");
    os_ << "%" << last << " = reshape %" << B(name) << " {to = [S, " << heads << ", " << t_.head_dim
        << "]} : " << Heads(heads) << "\n";
    if (t_.qk_norm && turn) {
      os_ << "%" << B(name + "n") << " = rms_norm %" << last << ", $" << B(name + "_norm")
          << " {eps = 1e-06} : " << Heads(heads) << "\n";
      last = B(name + "n");
    }
    if (turn) {
      os_ << "%" << B(name + "r") << " = rope %" << last << ", $" << B("rope")
          << ", %pos {pairs = " << (t_.interleaved ? "interleaved" : "half") << "} : " << Heads(heads) << "\n";
      last = B(name + "r");
    }
    return last;
  }

  void Layer() {
    const int64_t q = t_.heads * t_.head_dim;
    os_ << "%" << B("n") << " = rms_norm %" << B("x") << ", $" << B("attn_norm") << " {eps = 1e-05} : " << Rows(t_.d)
        << "\n";
    const std::string query = Project("q", t_.heads, true), key = Project("k", t_.kv_heads, true),
                      value = Project("v", t_.kv_heads, false);
    os_ << "%" << B("ck") << " = kv_append $" << B("k_cache") << ", %" << key << ", %pos : $" << B("k_cache") << "\n";
    os_ << "%" << B("cv") << " = kv_append $" << B("v_cache") << ", %" << value << ", %pos : $" << B("v_cache") << "\n";
    std::ostringstream scale;
    scale.precision(9);
    scale << std::showpoint << static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(t_.head_dim)));
    os_ << "%" << B("a") << " = attention %" << query << ", %" << B("ck") << ", %" << B("cv")
        << ", %pos {scale = " << scale.str();
    if (t_.window > 0) os_ << ", window = " << t_.window;
    os_ << "} : " << Heads(t_.heads) << "\n";
    os_ << "%" << B("ar") << " = reshape %" << B("a") << " {to = [S, " << q << "]} : " << Rows(q) << "\n"
        << "%" << B("o") << " = linear %" << B("ar") << ", $" << B("wo") << " : " << Rows(t_.d) << "\n"
        << "%" << B("x1") << " = add %" << B("x") << ", %" << B("o") << " : " << Rows(t_.d) << "\n"
        << "%" << B("m") << " = rms_norm %" << B("x1") << ", $" << B("mlp_norm") << " {eps = 1e-05} : " << Rows(t_.d)
        << "\n"
        << "%" << B("g") << " = linear %" << B("m") << ", $" << B("w_gate") << " : " << Rows(t_.ff) << "\n"
        << "%" << B("u") << " = linear %" << B("m") << ", $" << B("w_up") << " : " << Rows(t_.ff) << "\n"
        << "%" << B("h") << " = gated %" << B("g") << ", %" << B("u") << " : " << Rows(t_.ff) << "\n"
        << "%" << B("y") << " = linear %" << B("h") << ", $" << B("w_down") << " : " << Rows(t_.d) << "\n"
        << "%b" << layer_ + 1 << ".x = add %" << B("x1") << ", %" << B("y") << " : " << Rows(t_.d) << "\n";
  }

  const TinyModel& t_;
  std::ostringstream os_;
  int layer_ = 0;
};

}  // namespace

Module ImportTiny(const TinyModel& tiny) {
  Module module = Parse(Text(tiny).Write(), "tiny");
  Verify(module, "tiny");
  return module;
}

}  // namespace llmc
