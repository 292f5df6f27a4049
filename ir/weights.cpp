// Rows of weights and consts: recipes are evaluated by rows, from what they read; nothing is kept.
#include "ir/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/blocks.h"
#include "ir/diag.h"
#include "ir/finite.h"
#include "ir/layout.h"
#include "ir/math_f64.h"
#include "ir/recipe.h"
#include "ir/rope_table.h"

namespace llmc {
namespace {

// A const reads weights or consts made from weights; a chain of more consts than this is a cycle.
constexpr int kDeepest = 64;

const Global& GlobalOf(const Module& module, int index) { return module.globals[static_cast<size_t>(index)]; }

// Elements of one row, as RowCount counts rows.
int64_t RowElements(const Type& type) {
  const int64_t rows = RowCount(type);
  return rows == 0 ? 0 : ElementCount(type) / rows;
}

const std::byte* AsBytes(const std::vector<float>& floats) { return reinterpret_cast<const std::byte*>(floats.data()); }

class Reader {
 public:
  Reader(const Module& module, const WeightSource& source) : module_(module), source_(source) {}

  void Read(int index, int64_t begin, int64_t end, std::byte* out, int depth) const {
    const Global& global = GlobalOf(module_, index);
    LLMC_CHECK(depth < kDeepest, "$" + ToText(global.name) + " is made from itself");
    LLMC_CHECK(begin >= 0 && begin <= end && end <= RowCount(global.type),
               "rows out of range: $" + ToText(global.name));
    LLMC_CHECK(global.kind != GlobalKind::State, "$" + ToText(global.name) + " is a state: it has no rows to read");
    if (global.kind == GlobalKind::Weight) {
      source_.Read(global, begin, end, out);
      return;
    }
    const Recipe& recipe = global.recipe;
    switch (recipe.kind) {
      case RecipeKind::Rows: return ReadPart(global, begin, end, out, depth);
      case RecipeKind::Add: return ReadAdd(global, begin, end, out, depth);
      case RecipeKind::Cast:
      case RecipeKind::Quantize: return ReadConverted(global, begin, end, out, depth);
      case RecipeKind::Lora: return ReadLora(global, begin, end, reinterpret_cast<float*>(out), depth);
      case RecipeKind::RopeTable: return ReadRopeTable(global, begin, end, reinterpret_cast<float*>(out), depth);
      case RecipeKind::Stack: return ReadStacked(global, begin, end, out, depth);
      case RecipeKind::Transpose: return ReadTransposed(global, begin, end, out, depth);
      case RecipeKind::Repeat: return ReadRepeated(global, out, depth);
      case RecipeKind::NegExp: return ReadNegExp(global, begin, end, reinterpret_cast<float*>(out), depth);
      case RecipeKind::Xielu: return ReadXielu(global, reinterpret_cast<float*>(out), depth);
      case RecipeKind::Pack:
        return global.type.dims.size() == 1 ? ReadJoined(global, out, depth)
                                            : ReadPacked(global, begin, end, out, depth);
    }
  }

 private:
  const Type& InputType(const Global& global, size_t i) const {
    return GlobalOf(module_, global.recipe.inputs[i]).type;
  }

  // Runs of rows: row r of the result is row r % count of run r / count. Of a vector: elements.
  void ReadPart(const Global& global, int64_t begin, int64_t end, std::byte* out, int depth) const {
    const int input = global.recipe.inputs[0];
    const int64_t first = global.recipe.attrs.Int("begin");
    const int64_t count = global.recipe.attrs.Int("count");
    const int64_t every = global.recipe.attrs.IntOr("every", 0);
    if (begin == end) return;
    const Type& type = InputType(global, 0);
    if (type.dims.size() == 1) {
      std::vector<std::byte> whole(static_cast<size_t>(StoredRowBytes(type)));
      Read(input, 0, 1, whole.data(), depth + 1);
      for (int64_t at = 0; at < global.type.dims[0].value; at += count) {
        std::memcpy(out + RowBytes(type.dtype, at), whole.data() + RowBytes(type.dtype, first + at / count * every),
                    static_cast<size_t>(RowBytes(type.dtype, count)));
      }
      return;
    }
    while (begin < end) {
      const int64_t n = std::min(end - begin, count - begin % count);
      const int64_t from = first + begin / count * every + begin % count;
      Read(input, from, from + n, out, depth + 1);
      out += n * StoredRowBytes(type);
      begin += n;
    }
  }

  // Columns of the input's matrices, as rows; they are read row by row.
  void ReadTransposed(const Global& global, int64_t begin, int64_t end, std::byte* out, int depth) const {
    const Type& type = InputType(global, 0);
    const auto size = static_cast<size_t>(RowBytes(type.dtype, 1));
    const int64_t columns = type.dims[1].value;
    const int64_t rows = type.dims[0].value / global.recipe.attrs.IntOr("times", 1);  // of a matrix
    std::vector<std::byte> row(static_cast<size_t>(StoredRowBytes(type)));
    while (begin < end) {
      const int64_t matrix = begin / columns;
      const int64_t first = begin % columns;
      const int64_t n = std::min(end - begin, columns - first);
      for (int64_t r = 0; r < rows; ++r) {
        Read(global.recipe.inputs[0], matrix * rows + r, matrix * rows + r + 1, row.data(), depth + 1);
        for (int64_t c = 0; c < n; ++c) {
          std::memcpy(out + static_cast<size_t>(c * rows + r) * size,
                      row.data() + static_cast<size_t>(first + c) * size, size);
        }
      }
      out += n * rows * static_cast<int64_t>(size);
      begin += n;
    }
  }

  // Rows [begin, end) of input i as f32.
  std::vector<float> ReadFloats(const Global& global, int64_t begin, int64_t end, int depth, size_t i = 0) const {
    const Type& type = InputType(global, i);
    std::vector<std::byte> rows(static_cast<size_t>((end - begin) * StoredRowBytes(type)));
    Read(global.recipe.inputs[i], begin, end, rows.data(), depth + 1);
    std::vector<float> floats(static_cast<size_t>((end - begin) * RowElements(type)));
    Dequantize(type.dtype, rows.data(), static_cast<int64_t>(floats.size()), floats.data());
    return floats;
  }

  void ReadAdd(const Global& global, int64_t begin, int64_t end, std::byte* out, int depth) const {
    std::vector<float> floats = ReadFloats(global, begin, end, depth);
    const float value = global.recipe.attrs.F32("value");
    for (float& f : floats) f = f + value;
    std::memcpy(out, floats.data(), floats.size() * sizeof(float));
  }

  void ReadConverted(const Global& global, int64_t begin, int64_t end, std::byte* out, int depth) const {
    const std::vector<float> floats = ReadFloats(global, begin, end, depth);
    const DType dtype = global.type.dtype;
    const auto count = static_cast<int64_t>(floats.size());
    QuantizeRow(dtype, floats.data(), count, out);
    // Block types make codes of a NaN; float types keep it, and what is too large becomes an infinity.
    const bool block = InfoOf(dtype).cls == DTypeClass::BLOCK;
    const std::optional<NotFinite> in = block ? FindNotFinite(DType::F32, AsBytes(floats), count) : std::nullopt;
    const std::optional<NotFinite> made = FindNotFinite(dtype, out, count);
    const bool overflow = made && (block || std::isfinite(floats[static_cast<size_t>(made->at)]));
    if (!in && !overflow) return;
    const int64_t row = count / (end - begin), unit = block ? InfoOf(dtype).block : 1;
    const int64_t at = in ? in->at : made->at * unit;
    Fail(DiagKind::BadValue, {"$" + ToText(GlobalOf(module_, global.recipe.inputs[0]).name), ""},
         "row " + std::to_string(begin + at / row) + (block ? ", block " : ", element ") +
             std::to_string(at % row / unit) + ": " + std::string(InfoOf(dtype).text) +
             " can't store it: " + (in ? "element " + std::to_string(at % row) + " " + in->what : "it " + made->what));
  }

  void ReadLora(const Global& global, int64_t begin, int64_t end, float* out, int depth) const {
    const std::vector<float> w = ReadFloats(global, begin, end, depth, 0);
    const int64_t rank = RowCount(InputType(global, 1));
    const std::vector<float> a = ReadFloats(global, 0, rank, depth, 1);
    const std::vector<float> b = ReadFloats(global, begin, end, depth, 2);
    const float scale = global.recipe.attrs.F32("scale");
    const auto k = static_cast<size_t>(global.type.dims[1].value);
    std::vector<float> sum(k);
    for (int64_t row = 0; row < end - begin; ++row) {
      std::fill(sum.begin(), sum.end(), 0.0F);
      for (int64_t r = 0; r < rank; ++r) {
        const float factor = b[static_cast<size_t>(row * rank + r)];
        const float* from = a.data() + static_cast<size_t>(r) * k;
        for (size_t i = 0; i < k; ++i) sum[i] = sum[i] + factor * from[i];
      }
      const float* own = w.data() + static_cast<size_t>(row) * k;
      for (size_t i = 0; i < k; ++i) *out++ = own[i] + scale * sum[i];
    }
  }

  void ReadRopeTable(const Global& global, int64_t begin, int64_t end, float* out, int depth) const {
    if (global.recipe.inputs.empty()) return RopeTableRows(global.recipe, global.type.dims[1].value, begin, end, out);
    const std::vector<float> divisors = ReadFloats(global, 0, 1, depth);
    RopeTableRows(global.recipe, RopeFrequencies(global.recipe, divisors), begin, end, out);
  }

  void ReadRepeated(const Global& global, std::byte* out, int depth) const {
    const Type& type = InputType(global, 0);
    std::vector<std::byte> whole(static_cast<size_t>(StoredRowBytes(type)));
    Read(global.recipe.inputs[0], 0, 1, whole.data(), depth + 1);
    const auto bytes = static_cast<size_t>(RowBytes(type.dtype, 1));
    for (size_t at = 0; at < whole.size(); at += bytes) {
      for (int64_t i = 0; i < global.recipe.attrs.Int("times"); ++i, out += bytes)
        std::memcpy(out, whole.data() + at, bytes);
    }
  }

  // -e^w, in double until the one rounding; w cut so that f32 has the result.
  void ReadNegExp(const Global& global, int64_t begin, int64_t end, float* out, int depth) const {
    constexpr double kMost = 127;
    for (const float w : ReadFloats(global, begin, end, depth)) {
      const double power = static_cast<double>(w) * math::kLog2E;
      const bool finite = std::isfinite(w) || w < 0;
      *out++ = finite ? static_cast<float>(-math::Exp2(std::clamp(power, -kMost, kMost))) : -w;
    }
  }

  // softplus(alpha_p), beta + softplus(alpha_n), beta, eps; in double until the one rounding.
  void ReadXielu(const Global& global, float* out, int depth) const {
    const auto number = [&](size_t i) { return static_cast<double>(ReadFloats(global, 0, 1, depth, i)[0]); };
    const auto softplus = [](double x) {
      constexpr double kLinear = 40;  // from here on ln(1 + e^x) is x, and down from -40 e^x
      if (!(std::fabs(x) <= kLinear)) return x > kLinear || std::isnan(x) ? x : 0.0;
      return math::Ln(1 + math::Exp2(x * math::kLog2E));
    };
    const double beta = number(2);
    out[0] = static_cast<float>(softplus(number(0)));
    out[1] = static_cast<float>(beta + softplus(number(1)));
    out[2] = static_cast<float>(beta);
    out[3] = static_cast<float>(number(3));
  }

  // Vectors one after another.
  void ReadJoined(const Global& global, std::byte* out, int depth) const {
    for (size_t i = 0; i < global.recipe.inputs.size(); ++i) {
      Read(global.recipe.inputs[i], 0, 1, out, depth + 1);
      out += StoredRowBytes(InputType(global, i));
    }
  }

  // Matrices below one another.
  void ReadStacked(const Global& global, int64_t begin, int64_t end, std::byte* out, int depth) const {
    int64_t first = 0;  // row of the part
    for (size_t part = 0; part < global.recipe.inputs.size() && begin < end; ++part) {
      const int64_t rows = RowCount(InputType(global, part));
      if (begin < first + rows) {
        const int64_t last = std::min(end, first + rows);
        Read(global.recipe.inputs[part], begin - first, last - first, out, depth + 1);
        out += (last - begin) * StoredRowBytes(global.type);
        begin = last;
      }
      first += rows;
    }
  }

  // Matrices in tiles: tile by tile, 16 rows of a part at a time.
  void ReadPacked(const Global& global, int64_t begin, int64_t end, std::byte* out, int depth) const {
    LLMC_CHECK(begin % kTileRows == 0 && (end % kTileRows == 0 || end == RowCount(global.type)),
               "rows that aren't whole tiles");
    const DType dtype = global.type.dtype;
    const int64_t k = global.type.dims[1].value;
    const int64_t row_bytes = RowBytes(dtype, k);
    const bool interleave = std::get<bool>(AttrOf(global.recipe, "interleave"));
    std::vector<std::byte> rows(static_cast<size_t>(kTileRows * row_bytes));
    size_t part = 0;
    int64_t first_tile = 0;  // of `part`
    for (int64_t tile = begin / kTileRows; tile < (end + kTileRows - 1) / kTileRows; ++tile) {
      int64_t tile_in_part = 0;
      if (interleave) {
        part = static_cast<size_t>(tile % 2);
        tile_in_part = tile / 2;
      } else {
        for (;; ++part) {
          const int64_t tiles = (RowCount(InputType(global, part)) + kTileRows - 1) / kTileRows;
          if (tile < first_tile + tiles) break;
          first_tile += tiles;
        }
        tile_in_part = tile - first_tile;
      }
      const int64_t row = tile_in_part * kTileRows;
      const int64_t n = std::min<int64_t>(kTileRows, RowCount(InputType(global, part)) - row);
      Read(global.recipe.inputs[part], row, row + n, rows.data(), depth + 1);
      PackTile(dtype, rows.data(), row_bytes, static_cast<int>(n), k, out);
      out += TileBytes(dtype, k);
    }
  }

  const Module& module_;
  const WeightSource& source_;
};

// splitmix64's finaliser: every bit of the result depends on every bit of the counter.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Values are uniform: gains and divisors (a vector whose name has "norm" or "divisors") in 1 +- 1/8, other vectors in
// +- 1/8, and matrices in +- sqrt(3 / K), which has variance 1 / K. Block types are quantised from them.
class Random : public WeightSource {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    const Type& type = weight.type;
    const int64_t elements = RowElements(type);
    const bool matrix = type.dims.size() > 1;
    const bool factor =
        weight.name.base.find("norm") != std::string::npos || weight.name.base.find("divisors") != std::string::npos;
    const float center = !matrix && factor ? 1.0F : 0.0F;
    const float spread =
        matrix ? static_cast<float>(__builtin_sqrt(3.0 / static_cast<double>(type.dims.back().value))) : 0.125F;
    const uint64_t key = KeyOf(weight.name);
    std::vector<float> row(static_cast<size_t>(elements));
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < elements; ++i) {
        const uint64_t bits = Mix(key + 0x9e3779b97f4a7c15U * static_cast<uint64_t>(r * elements + i + 1));
        // 24 bits, centred: multiples of 2^-23 in (-1, 1).
        const auto unit = static_cast<float>(static_cast<int32_t>(bits >> 40) * 2 - 0xffffff) * 0x1p-24F;
        row[static_cast<size_t>(i)] = center + unit * spread;
      }
      QuantizeRow(type.dtype, row.data(), elements, out);
      out += StoredRowBytes(type);
    }
  }

 private:
  uint64_t KeyOf(const Name& name) const {
    uint64_t hash = 0xcbf29ce484222325U ^ Mix(seed_ + 1);  // FNV-1a over the name
    for (char c : ToText(name)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return Mix(hash);
  }
  uint64_t seed_;
};

}  // namespace

int64_t RowCount(const Type& type) { return type.dims.size() < 2 ? 1 : type.dims[0].value; }

int64_t StoredRowBytes(const Type& type) {
  if (type.layout == Layout::Tiles16) return TileBytes(type.dtype, type.dims[1].value) / kTileRows;
  int64_t bytes = RowBytes(type.dtype, type.dims.empty() ? 1 : type.dims.back().value);
  for (size_t i = 1; i + 1 < type.dims.size(); ++i) bytes *= type.dims[i].value;
  return bytes;
}

void ReadRows(const Module& module, const WeightSource& source, int global, int64_t begin, int64_t end,
              std::byte* out) {
  Reader(module, source).Read(global, begin, end, out, 0);
}

std::unique_ptr<WeightSource> RandomWeights(uint64_t seed) { return std::make_unique<Random>(seed); }

}  // namespace llmc
