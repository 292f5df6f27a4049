// The cases of the op suite: one module an op, with operands of every kind that its record allows.
#include "tests/e2e/op_cases.h"

#include <span>
#include <string_view>
#include <tuple>

#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

std::string Rows(int64_t n) { return "f32[S, " + std::to_string(n) + "]"; }
std::string Shape(int64_t n, int64_t k) { return "[" + std::to_string(n) + ", " + std::to_string(k) + "]"; }

void AddLinears(std::vector<OpCase>& cases) {
  for (const char* type : {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}) {
    for (const std::string activations : {"f32", "q8", "bf16"}) {
      const bool block = std::string_view(type).starts_with("q");
      if ((activations == "q8" && !block) || (activations == "bf16" && std::string_view(type) != "bf16")) continue;
      for (const int64_t n : {int64_t{64}, int64_t{activations == "q8" ? 96 : 100}}) {
        const std::string w = std::string("weight $w : ") + type + Shape(n, kOpWidth) + "\n";
        const std::string suffix = std::string("_") + type + "_" + activations;
        if (n == kOpWidth) {
          cases.push_back({"linear" + suffix, w, "%y = linear %x, $w : " + Rows(n) + "\n", activations});
          cases.push_back({"residual" + suffix, w,
                           "%p = linear %x, $w : " + Rows(n) + "\n%y = add %x, %p : " + Rows(n) + "\n", activations});
        } else {
          cases.push_back({"odd_bias" + suffix, w + "weight $bias : f32[" + std::to_string(n) + "]\n",
                           "%y = linear %x, $w, $bias : " + Rows(n) + "\n", activations, "f32", n});
          cases.push_back({"gated" + suffix,
                           std::string("weight $g : ") + type + Shape(n, kOpWidth) + "\n" + "weight $u : " + type +
                               Shape(n, kOpWidth) + "\n",
                           "%p = linear %x, $g : " + Rows(n) + "\n%q = linear %x, $u : " + Rows(n) +
                               "\n%y = gated %p, %q : " + Rows(n) + "\n",
                           activations, "f32", n});
        }
      }
    }
    cases.push_back(
        {std::string("embed_") + type, std::string("weight $table : ") + type + Shape(50, kOpWidth) + "\n",
         "%t = embed $table, %tokens : " + Rows(kOpWidth) + "\n%y = add %x, %t : " + Rows(kOpWidth) + "\n"});
  }
}

void AddRowOps(std::vector<OpCase>& cases) {
  const std::string gain = "weight $gain : f32[64]\n";
  cases.push_back({"rms_norm", gain, "%y = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n"});
  cases.push_back({"add_rms_norm", gain,
                   "%n = rms_norm %x, $gain {eps = 1e-06} : f32[S, 64]\n%s = add %x, %n : f32[S, 64]\n"
                   "%y = rms_norm %s, $gain {eps = 1e-05} : f32[S, 64]\n"});
  cases.push_back({"rms_norm_plain", "", "%y = rms_norm %x {eps = 1e-05} : f32[S, 64]\n"});
  cases.push_back({"layer_norm_plain", "", "%y = layer_norm %x {eps = 1e-05} : f32[S, 64]\n"});
  cases.push_back({"layer_norm", gain + "weight $bias : f32[64]\n",
                   "%n = layer_norm %x, $gain, $bias {eps = 1e-05} : f32[S, 64]\n%y = add %n, %x : f32[S, 64]\n"});
  cases.push_back({"layer_norm_heads", gain,
                   "%h = reshape %x {to = [S, 4, 16]} : f32[S, 4, 16]\n"
                   "%n = layer_norm %h, $gain {eps = 1e-05} : f32[S, 4, 16]\n"
                   "%f = reshape %n {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n"});
  cases.push_back({"mul", gain, "%n = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n%y = mul %x, %n : f32[S, 64]\n"});
  cases.push_back({"rows", gain, "%m = mul %x, $gain : f32[S, 64]\n%y = add %m, $gain : f32[S, 64]\n"});
  cases.push_back({"scale", "", "%y = scale %x {factor = 0.37} : f32[S, 64]\n"});
  cases.push_back({"clamp", "", "%y = clamp %x {limit = 0.5} : f32[S, 64]\n"});
  cases.push_back({"at_least", "", "%y = at_least %x {least = -0.2} : f32[S, 64]\n"});
  cases.push_back({"soft_cap", "", "%y = soft_cap %x {cap = 0.8} : f32[S, 64]\n"});
  cases.push_back({"steps", gain,
                   "%s = scale %x {factor = 3.0} : f32[S, 64]\n%c = soft_cap %s {cap = 2.0} : f32[S, 64]\n"
                   "%a = act %c {kind = sigmoid} : f32[S, 64]\n%m = mul %a, %x : f32[S, 64]\n"
                   "%y = add %m, $gain : f32[S, 64]\n"});
  OpCase capped{"capped_head", "", "%y = scale %x {factor = 2.0} : f32[S, 64]\n"};
  capped.tail = "%s = scale %l {factor = 0.125} : f32[S, 64]\n%logits = soft_cap %s {cap = 3.0} : f32[S, 64]\n";
  cases.push_back(capped);
  cases.push_back({"xielu", "weight $numbers : f32[4]\n",
                   "%s = scale %x {factor = 4.0} : f32[S, 64]\n%y = xielu %s, $numbers : f32[S, 64]\n"});
  cases.push_back(
      {"position_embed", "weight $table : bf16[100, 64]\n",
       "%p = position_embed $table, %tokens, %pos {offset = 2} : f32[S, 64]\n%y = add %x, %p : f32[S, 64]\n"});
  cases.push_back(
      {"gated_alone", gain, "%n = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n%y = gated %x, %n : f32[S, 64]\n"});
  cases.push_back({"round", "", "%r = round %x {to = bf16} : f32[S, 64]\n%y = add %x, %r : f32[S, 64]\n"});
  cases.push_back({"head_norm", "weight $gain : f32[16]\n",
                   "%h = reshape %x {to = [S, 4, 16]} : f32[S, 4, 16]\n"
                   "%n = rms_norm %h, $gain {eps = 1e-05} : f32[S, 4, 16]\n"
                   "%f = reshape %n {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n"});
  for (const char* pairs : {"half", "interleaved"}) {
    cases.push_back(
        {std::string("rope_") + pairs, "const $rope : f32[96, 8] = rope_table {theta = 10000.0}\n",
         "%h = reshape %x {to = [S, 4, 16]} : f32[S, 4, 16]\n%r = rope %h, $rope, %pos {pairs = " + std::string(pairs) +
             "} : f32[S, 4, 16]\n"
             "%f = reshape %r {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n"});
  }
}

void AddAttention(std::vector<OpCase>& cases) {
  for (const bool many : {false, true}) {  // kv heads: attention by groups of keys, or by heads
    for (const char* kv_type : {"f32", "f16"}) {
      for (const int window : {0, 7}) {
        const int heads = many ? 8 : 4, kv_heads = many ? 8 : 2, dim = kOpWidth / heads;
        const std::string h = std::to_string(heads), kv = std::to_string(kv_heads), d = std::to_string(dim);
        const std::string none = window == 0 ? "none" : std::to_string(window);
        const std::string limit = window == 0 ? "" : ", window = " + none;
        std::string globals = "weight $wkv : f32" + Shape(kv_heads * dim, kOpWidth) + "\n";
        for (const char* name : {"k", "v"})
          globals += std::string("state $") + name + " : " + kv_type + "[96, " + kv + ", " + d +
                     "] {kind = kv, window = " + none + "}\n";
        const std::string shape = "[S, " + kv + ", " + d + "]";
        cases.push_back(
            {std::string(many ? "attention_heads_" : "attention_groups_") + kv_type + (window > 0 ? "_window" : ""),
             globals,
             "%kv = linear %x, $wkv : " + Rows(kv_heads * dim) + "\n%kh = reshape %kv {to = " + shape + "} : f32" +
                 shape + "\n%q = reshape %x {to = [S, " + h + ", " + d + "]} : f32[S, " + h + ", " + d +
                 "]\n%ck = kv_append $k, %kh, %pos : $k\n%cv = kv_append $v, %kh, %pos : $v\n" +
                 "%a = attention %q, %ck, %cv, %pos {scale = 0.25" + limit + "} : f32[S, " + h + ", " + d +
                 "]\n%f = reshape %a {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n",
             "f32", kv_type});
      }
    }
  }
}

// Every activation: behind a product, as a gate of two, and alone.
void AddActivations(std::vector<OpCase>& cases) {
  for (const char* kind : {
#define ACTIVATION(name, text) text,
#include "ir/activations.def"
#undef ACTIVATION
           "swiglu_clamped"}) {
    const std::string name = kind;
    const std::string act =
        name == "swiglu_clamped" ? "act = swiglu_clamped, alpha = 1.702, limit = 0.5" : "act = " + name;
    const std::string w = "weight $g : q8_0[96, 64]\nweight $u : q8_0[96, 64]\n";
    for (const std::string activations : {"f32", "q8"}) {
      cases.push_back({"gate_" + name + "_" + activations, w,
                       "%p = linear %x, $g : f32[S, 96]\n%q = linear %x, $u : f32[S, 96]\n%y = gated %p, %q {" + act +
                           "} : f32[S, 96]\n",
                       activations, "f32", 96});
      if (name == "swiglu_clamped") continue;
      cases.push_back({"plain_" + name + "_" + activations, w,
                       "%p = linear %x, $g : f32[S, 96]\n%y = act %p {kind = " + name + "} : f32[S, 96]\n", activations,
                       "f32", 96});
    }
    if (name != "swiglu_clamped")
      cases.push_back({"act_" + name, "", "%y = act %x {kind = " + name + "} : f32[S, 64]\n"});
  }
}

// Caps and sinks, by heads and by groups of keys. Masks that see behind a query need whole sequences in one call.
void AddCapsAndSinks(std::vector<OpCase>& cases) {
  for (const bool many : {false, true}) {
    const int heads = many ? 8 : 4, kv_heads = many ? 8 : 2, dim = kOpWidth / heads;
    const std::string h = std::to_string(heads), kv = std::to_string(kv_heads), d = std::to_string(dim);
    const std::string shape = "[S, " + kv + ", " + d + "]", q = "[S, " + h + ", " + d + "]";
    const std::string state = " : f16[96, " + kv + ", " + d + "] {kind = kv, window = none}\n";
    cases.push_back({std::string("attention_cap_sinks_") + (many ? "heads" : "groups"),
                     "weight $wkv : f32" + Shape(kv_heads * dim, kOpWidth) + "\nweight $sinks : f32[" + h +
                         "]\nstate $k" + state + "state $v" + state,
                     "%kv = linear %x, $wkv : " + Rows(kv_heads * dim) + "\n%kh = reshape %kv {to = " + shape +
                         "} : f32" + shape + "\n%q = reshape %x {to = " + q + "} : f32" + q +
                         "\n%ck = kv_append $k, %kh, %pos : $k\n%cv = kv_append $v, %kh, %pos : $v\n" +
                         "%a = attention %q, %ck, %cv, %pos, $sinks {scale = 0.25, cap = 1.5} : f32" + q +
                         "\n%f = reshape %a {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n",
                     "f32", "f16"});
  }
}

// Latent attention, absorbed: queries meet each head's own weight, one state is keys and values, and each head's sums
// meet a weight of its own. And keys wider than values, with a part that all heads share.
void AddLatents(std::vector<OpCase>& cases) {
  for (const auto& [type, activations, kv_type] :
       {std::tuple{"f32", "f32", "f16"}, {"bf16", "bf16", "q8_0"}, {"q8_0", "q8", "f16"}, {"q4_1", "q8", "f32"}}) {
    const std::string w = std::string(" : ") + type;
    cases.push_back({std::string("latent_") + type + "_" + kv_type,
                     "weight $wq" + w + "[192, 64]\nweight $wc" + w + "[32, 64]\nweight $wr : f32[32, 64]\nweight $wk" +
                         w + "[192, 32]\nweight $wv" + w + "[96, 32]\nstate $c : " + kv_type +
                         "[96, 1, 64] {kind = kv, window = none}\n",
                     "%ql = linear %x, $wq : f32[S, 192]\n%qh = reshape %ql {to = [S, 6, 32]} : f32[S, 6, 32]\n"
                     "%cl = linear %x, $wc : f32[S, 32]\n%ch = reshape %cl {to = [S, 1, 32]} : f32[S, 1, 32]\n"
                     "%rl = linear %x, $wr : f32[S, 32]\n%rh = reshape %rl {to = [S, 1, 32]} : f32[S, 1, 32]\n"
                     "%qa = head_linear %qh, $wk : f32[S, 6, 32]\n%q = concat %qa, %rh : f32[S, 6, 64]\n"
                     "%k = concat %ch, %rh : f32[S, 1, 64]\n%cc = kv_append $c, %k, %pos : $c\n"
                     "%a = attention %q, %cc, %cc, %pos {scale = 0.25, values = 32} : f32[S, 6, 32]\n"
                     "%v = head_linear %a, $wv : f32[S, 6, 16]\n%f = reshape %v {to = [S, 96]} : f32[S, 96]\n"
                     "%y = act %f {kind = tanh} : f32[S, 96]\n",
                     activations, kv_type, 96});
  }
  cases.push_back({"wide_keys",
                   "weight $wk : f32[96, 64]\nstate $k : f16[96, 8, 20] {kind = kv, window = none}\n"
                   "state $v : f16[96, 8, 8] {kind = kv, window = none}\n",
                   "%kl = linear %x, $wk : f32[S, 96]\n%kh = reshape %kl {to = [S, 8, 12]} : f32[S, 8, 12]\n"
                   "%xh = reshape %x {to = [S, 8, 8]} : f32[S, 8, 8]\n%k = concat %kh, %xh : f32[S, 8, 20]\n"
                   "%ck = kv_append $k, %k, %pos : $k\n%cv = kv_append $v, %xh, %pos : $v\n"
                   "%a = attention %k, %ck, %cv, %pos {scale = 0.25} : f32[S, 8, 8]\n"
                   "%y = reshape %a {to = [S, 64]} : f32[S, 64]\n",
                   "f32", "f16"});
}

// A mixture of 8 experts of which a row uses 3: every way to score them, groups, biases, weights of floats and blocks.
void AddExperts(std::vector<OpCase>& cases) {
  const std::string many = "f32[S, 3, 96]";
  const auto add = [&](const std::string& name, const std::string& route, const std::string& type, bool bias,
                       const std::string& act, const std::string& activations) {
    std::string globals = "weight $router : f32[8, 64]\nweight $wg : " + type + "[768, 64]\nweight $wu : " + type +
                          "[768, 64]\nweight $wd : " + type + "[512, 96]\n";
    if (bias) globals += "weight $bias : f32[8]\nweight $bg : f32[768]\nweight $bu : f32[768]\nweight $bd : f32[512]\n";
    const auto with = [&](const char* b) { return bias ? std::string(", ") + b : ""; };
    cases.push_back(
        {"experts_" + name, globals,
         "%l = linear %x, $router : f32[S, 8]\n%i, %w = route %l" + with("$bias") + " {used = 3, score = " + route +
             "} : i32[S, 3], f32[S, 3]\n%g = expert_linear %x, $wg, %i" + with("$bg") + " {experts = 8} : " + many +
             "\n%u = expert_linear %x, $wu, %i" + with("$bu") + " {experts = 8} : " + many + "\n%h = gated %g, %u {" +
             act + "} : " + many + "\n%d = expert_linear %h, $wd, %i" + with("$bd") +
             " {experts = 8} : f32[S, 3, 64]\n%c = combine %d, %w : f32[S, 64]\n%y = add %x, %c : " + "f32[S, 64]\n",
         activations});
  };
  add("softmax", "softmax", "f32", false, "act = silu", "f32");
  add("softmax_norm", "softmax, norm = add, norm_by = 1e-20", "q4_1", false, "act = silu", "q8");
  add("sigmoid_groups", "sigmoid, groups = 4, keep = 2, by = sum2, norm = add, scale = 2.5", "q8_0", true, "act = silu",
      "q8");
  add("chosen", "softmax_of_chosen", "bf16", true, "act = swiglu_clamped, alpha = 1.702, limit = 0.5", "f32");
  add("least", "sigmoid, groups = 2, norm = least, norm_by = 0.5", "q5_0", false, "act = gelu_tanh", "f32");
}

// Convolutions over the last rows, alone and with what goes along, and the delta rule, by heads of keys in both orders.
void AddRecurrent(std::vector<OpCase>& cases) {
  const std::string state = "state $s : f32[2, 64] {kind = history}\nweight $w : f32[3, 64]\n";
  cases.push_back({"conv1d", state, "%c = conv1d $s, %x, $w, %pos : f32[S, 64]\n%y = add %x, %c : f32[S, 64]\n"});
  cases.push_back({"conv1d_bias", state + "weight $b : f32[64]\n",
                   "%c = conv1d $s, %x, $w, %pos, $b : f32[S, 64]\n%a = act %c {kind = silu} : f32[S, 64]\n"
                   "%y = mul %a, %x : f32[S, 64]\n",
                   "q8"});
  for (const std::string attrs : {"", "tiled = true", "correct = false"}) {
    cases.push_back(
        {"delta_rule" + (attrs.empty() ? "" : "_" + attrs.substr(0, attrs.find(' '))),
         "state $s : f32[4, 16, 20] {kind = recurrent}\nweight $wq : f32[32, 64]\nweight $wk : f32[32, 64]\n"
         "weight $wv : f32[80, 64]\nweight $wd : f32[4, 64]\nweight $wb : f32[4, 64]\nweight $wo : f32[64, 80]\n",
         "%q = linear %x, $wq : f32[S, 32]\n%qh = reshape %q {to = [S, 2, 16]} : f32[S, 2, 16]\n"
         "%k = linear %x, $wk : f32[S, 32]\n%kh = reshape %k {to = [S, 2, 16]} : f32[S, 2, 16]\n"
         "%kn = rms_norm %kh {eps = 1e-06} : f32[S, 2, 16]\n%ku = scale %kn {factor = 0.25} : f32[S, 2, 16]\n"
         "%v = linear %x, $wv : f32[S, 80]\n%vh = reshape %v {to = [S, 4, 20]} : f32[S, 4, 20]\n"
         "%d = linear %x, $wd : f32[S, 4]\n%da = act %d {kind = sigmoid} : f32[S, 4]\n"
         "%b = linear %x, $wb : f32[S, 4]\n%ba = act %b {kind = sigmoid} : f32[S, 4]\n"
         "%o = delta_rule $s, %qh, %ku, %vh, %da, %ba, %pos" +
             (attrs.empty() ? "" : " {" + attrs + "}") +
             " : f32[S, 4, 20]\n%f = reshape %o {to = [S, 80]} : f32[S, 80]\n"
             "%p = linear %f, $wo : f32[S, 64]\n%y = add %x, %p : f32[S, 64]\n"});
  }
}

}  // namespace

std::vector<OpCase> OpCases() {
  std::vector<OpCase> cases;
  AddRowOps(cases);
  AddLinears(cases);
  AddActivations(cases);
  AddAttention(cases);
  AddCapsAndSinks(cases);
  AddLatents(cases);
  AddExperts(cases);
  AddRecurrent(cases);
  return cases;
}

std::vector<OpCase> SampleOf(const std::vector<OpCase>& cases) {
  std::vector<OpCase> sample;
  for (size_t i = 0; i < cases.size(); i += 4) sample.push_back(cases[i]);
  return sample;
}

Module ImportOp(const OpCase& c) {
  Module module = Parse("module @op {after = import, numerics = 2, context = 96, kv_type = " + c.kv_type +
                            ", activations = " + c.activations + ", chunk = 40}\ndim S = 1..96\n" +
                            "weight $embed : f32[64, 64]\nweight $head : " + (c.activations == "q8" ? "q8_0" : "f32") +
                            Shape(kOpWidth, c.width) + "\n" + c.globals +
                            "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n"
                            "%x = embed $embed, %tokens : f32[S, 64]\n" +
                            c.body + (c.tail.empty() ? "%logits" : "%l") + " = linear %y, $head : f32[S, 64]\n" +
                            c.tail + "return %logits\n}\n",
                        c.name);
  Verify(module, c.name);
  return module;
}

std::vector<float> OracleRows(Module module, const WeightSource& weights, const std::vector<int32_t>& tokens) {
  PipelineOptions options;
  options.passes = {"specialize-phases", "quantize-activations"};
  RunPipeline(module, {}, options);
  std::vector<float> expected;
  Interpreter interpreter(module, weights);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> row = interpreter.Run("decode", std::span(tokens).subspan(i, 1), static_cast<int64_t>(i),
                                                   static_cast<int64_t>(i + 1));
    expected.insert(expected.end(), row.begin(), row.end());
  }
  return expected;
}

std::vector<float> AsRunAll(const std::vector<float>& rows, size_t tokens) {
  const size_t width = rows.size() / tokens;
  std::vector<float> all(rows.end() - static_cast<std::ptrdiff_t>(4 * width), rows.end());
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

std::vector<float> RunAll(const Executable& executable, const std::vector<int32_t>& tokens, uint32_t threads) {
  Session session(executable, {.threads = threads, .context = 0, .chunk = 0, .adapt = false});
  std::vector<float> rows;
  const auto keep = [&](std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); };
  const size_t prompt = tokens.size() - 3;
  keep(session.Prefill(std::span(tokens).first(prompt)));
  for (size_t i = prompt; i < tokens.size(); ++i) keep(session.Decode(tokens[i]));
  session.Reset();
  session.Score(tokens, keep);
  return rows;
}

}  // namespace llmc
