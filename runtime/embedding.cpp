// Inputs of embeddings, pooling and length.
#include "runtime/embedding.h"

#include <algorithm>

#include "runtime/math.h"
#include "runtime/plan_error.h"
#include "runtime/plan_finite.h"

namespace llmc {
namespace {

std::string Str(uint64_t value) { return std::to_string(value); }

}  // namespace

EmbeddingInput EmbeddingInputOf(const Tokenizer& tokenizer, std::string_view text, uint32_t most) {
  Encoding encoding = tokenizer.EncodeWithOffsets(text);
  std::vector<int32_t>& ids = encoding.ids;
  if (ids.empty()) throw PlanError("an empty text: no tokens");
  if (ids.size() > most) {
    // What the template added has no place in the text.
    const auto added = [&](size_t i) { return encoding.offsets[i].begin == encoding.offsets[i].end; };
    size_t front = 0, back = 0;
    while (front < ids.size() && added(front)) ++front;
    while (back < ids.size() - front && added(ids.size() - 1 - back)) ++back;
    if (front + back >= most)
      throw PlanError("texts are cut to " + Str(most) + " tokens, and the tokenizer adds " + Str(front + back));
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(most - back), ids.end() - static_cast<std::ptrdiff_t>(back));
  }
  return {std::move(ids), {}};
}

EmbeddingInput PairInputOf(const Tokenizer& tokenizer, std::string_view first, std::string_view second, uint32_t most) {
  Encoding encoding = tokenizer.EncodePair(first, second);
  if (encoding.ids.size() > most)
    throw PlanError("a pair of " + Str(encoding.ids.size()) + " tokens, the most are " + Str(most));
  return {std::move(encoding.ids), {encoding.types.begin(), encoding.types.end()}};
}

static std::string_view PromptOf(const PlanPooling& pooling, const std::optional<std::string>& name) {
  const std::string& wanted = name ? *name : pooling.default_prompt;
  if (!name && wanted.empty()) return "";
  std::string names;
  for (const PlanPooling::Prompt& prompt : pooling.prompts) {
    if (prompt.name == wanted) return prompt.text;
    names += (names.empty() ? "" : ", ") + prompt.name;
  }
  throw PlanError("the model has no prompt \"" + wanted + "\"; it has " + (names.empty() ? "none" : names));
}

std::string TextOfEmbedding(const PlanPooling& pooling, const std::optional<std::string>& prompt,
                            std::string_view text) {
  return std::string(PromptOf(pooling, prompt)).append(text);
}

uint32_t MostTokens(const Session& session, const PlanPooling& pooling) {
  return pooling.max_tokens == 0 ? session.context() : std::min(pooling.max_tokens, session.context());
}

std::vector<float> Embed(Session& session, const EmbeddingInput& input, PoolingKind kind, bool normalize) {
  if (kind == PoolingKind::None)
    throw PlanError("the model's files don't say how rows are pooled: give --pooling mean, cls or last");
  session.Reset();
  std::vector<double> sum(session.hidden_width());
  size_t rows = 0;
  session.Hidden(input.ids, input.types, [&](std::span<const float> row) {
    if (const size_t at = FindNotFinite(row); at < row.size())
      throw PlanError("position " + Str(rows) + ": number " + Str(at) + " of the hidden row isn't finite");
    const bool first = rows++ == 0;
    if (kind == PoolingKind::First && !first) return;
    if (kind == PoolingKind::Last) std::fill(sum.begin(), sum.end(), 0.0);
    for (size_t i = 0; i < row.size(); ++i) sum[i] += static_cast<double>(row[i]);
  });
  const double count = kind == PoolingKind::Mean ? static_cast<double>(rows) : 1;
  std::vector<float> pooled(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) pooled[i] = static_cast<float>(sum[i] / count);
  std::vector<float> out = session.Project(pooled);
  if (!normalize) return out;
  double squares = 0;
  for (const float x : out) squares += static_cast<double>(x) * static_cast<double>(x);
  constexpr double kLeast = 1e-12;  // of a length that is divided by, as torch.nn.functional.normalize has it
  const double length = std::max(SquareRoot(squares), kLeast);
  for (float& x : out) x = static_cast<float>(static_cast<double>(x) / length);
  return out;
}

}  // namespace llmc
