// Texts of small models for the tests of passes: what import makes, by parameters.
#pragma once
#include <cstdint>
#include <string>

namespace llmc::test {

struct ModelShape {
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 8;
  int ffn = 48;
  int vocab = 40;
  int context = 64;
  int chunk = 16;
  std::string dtype = "f32";  // of matrices
  std::string kv_type = "f16";
  std::string activations = "q8";
  int window = 0;        // 0: none
  int full_every = 0;    // n: every n-th layer has no window
  bool bias = false;     // of query, key, value
  bool qk_norm = false;  // a norm per head before rope
  bool tied = true;
};

// The module after import, unfolded and without unused declarations; layer i is like every other.
inline std::string ModelText(const ModelShape& m) {
  const auto n = [](int64_t value) { return std::to_string(value); };
  const int d = m.heads * m.head_dim;
  const int kv = m.kv_heads * m.head_dim;
  std::string text = "module @tiny {after = import, context = " + n(m.context) + ", kv_type = " + m.kv_type +
                     ", activations = " + m.activations + ", chunk = " + n(m.chunk) + "}\ndim S = 1.." + n(m.context) +
                     "\n";
  const auto weight = [&](const std::string& name, const std::string& type) {
    text += "weight $" + name + " : " + type + "\n";
  };
  const auto matrix = [&](int64_t rows, int64_t columns) { return m.dtype + "[" + n(rows) + ", " + n(columns) + "]"; };
  const auto window_of = [&](int layer) {
    return m.full_every > 0 && layer % m.full_every == m.full_every - 1 ? 0 : m.window;
  };
  weight("embed", matrix(m.vocab, d));
  for (int i = 0; i < m.layers; ++i) {
    const std::string b = "b" + n(i) + ".";
    weight(b + "attn_norm", "f32[" + n(d) + "]");
    weight(b + "wq", matrix(d, d));
    weight(b + "wk", matrix(kv, d));
    weight(b + "wv", matrix(kv, d));
    if (m.bias) {
      weight(b + "bq", "f32[" + n(d) + "]");
      weight(b + "bk", "f32[" + n(kv) + "]");
      weight(b + "bv", "f32[" + n(kv) + "]");
    }
    if (m.qk_norm) {
      weight(b + "q_norm", "f32[" + n(m.head_dim) + "]");
      weight(b + "k_norm", "f32[" + n(m.head_dim) + "]");
    }
    weight(b + "wo", matrix(d, d));
    weight(b + "ffn_norm", "f32[" + n(d) + "]");
    weight(b + "wg", matrix(m.ffn, d));
    weight(b + "wu", matrix(m.ffn, d));
    weight(b + "wd", matrix(d, m.ffn));
    text += "const $" + b + "rope : f32[" + n(m.context) + ", " + n(m.head_dim) + "] = rope_table {theta = 10000.0}\n";
    const std::string state = " : " + m.kv_type + "[" + n(m.context) + ", " + n(m.kv_heads) + ", " + n(m.head_dim) +
                              "] {kind = kv, window = " + (window_of(i) > 0 ? n(window_of(i)) : "none") + "}\n";
    text += "state $" + b + "k" + state + "state $" + b + "v" + state;
  }
  weight("norm", "f32[" + n(d) + "]");
  if (!m.tied) weight("head", matrix(m.vocab, d));

  text += "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n";
  const auto op = [&](const std::string& line, const std::string& type) { text += "  " + line + " : " + type + "\n"; };
  const std::string row = "f32[S, " + n(d) + "]";
  const std::string q_heads = "[S, " + n(m.heads) + ", " + n(m.head_dim) + "]";
  const std::string kv_heads = "[S, " + n(m.kv_heads) + ", " + n(m.head_dim) + "]";
  op("%b0.x = embed $embed, %tokens", row);
  for (int i = 0; i < m.layers; ++i) {
    const std::string b = "b" + n(i) + ".";
    op("%" + b + "n0 = rms_norm %" + b + "x, $" + b + "attn_norm {eps = 1e-05}", row);
    for (const std::string part : {"q", "k", "v"}) {
      const std::string bias = m.bias ? ", $" + b + "b" + part : "";
      op("%" + b + part + "0 = linear %" + b + "n0, $" + b + "w" + part + bias,
         part == "q" ? row : "f32[S, " + n(kv) + "]");
      op("%" + b + part + "1 = reshape %" + b + part + "0 {to = " + (part == "q" ? q_heads : kv_heads) + "}",
         "f32" + (part == "q" ? q_heads : kv_heads));
    }
    for (const std::string part : {"q", "k"}) {
      const std::string type = "f32" + (part == "q" ? q_heads : kv_heads);
      std::string input = "%" + b + part + "1";
      if (m.qk_norm) {
        op("%" + b + part + "n = rms_norm " + input + ", $" + b + part + "_norm {eps = 1e-05}", type);
        input = "%" + b + part + "n";
      }
      op("%" + b + part + "2 = rope " + input + ", $" + b + "rope, %pos {pairs = half}", type);
    }
    op("%" + b + "ck = kv_append $" + b + "k, %" + b + "k2, %pos", "$" + b + "k");
    op("%" + b + "cv = kv_append $" + b + "v, %" + b + "v1, %pos", "$" + b + "v");
    op("%" + b + "a0 = attention %" + b + "q2, %" + b + "ck, %" + b + "cv, %pos {scale = 0.5" +
           (window_of(i) > 0 ? ", window = " + n(window_of(i)) : "") + "}",
       "f32" + q_heads);
    op("%" + b + "a1 = reshape %" + b + "a0 {to = [S, " + n(d) + "]}", row);
    op("%" + b + "o = linear %" + b + "a1, $" + b + "wo", row);
    op("%" + b + "x1 = add %" + b + "x, %" + b + "o", row);
    op("%" + b + "n1 = rms_norm %" + b + "x1, $" + b + "ffn_norm {eps = 1e-05}", row);
    op("%" + b + "gate = linear %" + b + "n1, $" + b + "wg", "f32[S, " + n(m.ffn) + "]");
    op("%" + b + "up = linear %" + b + "n1, $" + b + "wu", "f32[S, " + n(m.ffn) + "]");
    op("%" + b + "h = gated %" + b + "gate, %" + b + "up", "f32[S, " + n(m.ffn) + "]");
    op("%" + b + "d = linear %" + b + "h, $" + b + "wd", row);
    op("%b" + n(i + 1) + ".x = add %" + b + "x1, %" + b + "d", row);
  }
  op("%n = rms_norm %b" + n(m.layers) + ".x, $norm {eps = 1e-05}", row);
  op(std::string("%logits = linear %n, ") + (m.tied ? "$embed" : "$head"), "f32[S, " + n(m.vocab) + "]");
  return text + "  return %logits\n}\n";
}

}  // namespace llmc::test
