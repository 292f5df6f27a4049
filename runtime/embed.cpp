// --hidden and --embed: rows of one input, embeddings of texts.
#include <charconv>

#include "runtime/embedding.h"
#include "runtime/generate.h"
#include "runtime/npy.h"
#include "runtime/plan_finite.h"
#include "runtime/report.h"

namespace llmc {
namespace {

Tokenizer TokenizerOf(const RunState& run) {
  if (run.executable.tokenizer.empty()) throw PlanError("the plan has no tokenizer: only --tokens works on it");
  return Tokenizer(run.executable.tokenizer);
}

// A text in a file or from standard input is a line; one of -p is all of it.
std::vector<std::string_view> TextsOf(const RunOptions& options) {
  std::string_view all = *options.prompt;
  if (!options.file) return {all};
  std::vector<std::string_view> texts;
  for (;;) {
    const size_t end = all.find('\n');
    std::string_view line = all.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    texts.push_back(line);
    if (end == std::string_view::npos) return texts;
    all.remove_prefix(end + 1);
  }
}

std::string JsonArray(std::span<const float> row) {
  std::string text = "[";
  char buffer[32];
  for (const float x : row) {
    if (text.size() > 1) text += ", ";
    text.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), x).ptr);
  }
  return text + "]\n";
}

}  // namespace

void RunHidden(RunState& run) {
  const RunOptions& o = run.options;
  RefuseThePlan(run, *o.hidden);
  EmbeddingInput input;
  if (o.tokens) {
    input.ids = ParseTokens(*o.tokens);
  } else if (o.pair) {
    input = PairInputOf(TokenizerOf(run), *o.prompt, *o.pair, run.session.context());
  } else {
    input.ids = TokenizerOf(run).Encode(*o.prompt);
  }
  const uint32_t width = run.session.hidden_width();
  std::vector<float> rows;
  run.session.Hidden(input.ids, input.types, [&](std::span<const float> row) {
    if (const size_t at = FindNotFinite(row); at < row.size())
      throw PlanError("position " + std::to_string(rows.size() / width) + ": number " + std::to_string(at) +
                      " of the hidden row isn't finite" +
                      CacheOverflowText(run.executable.manifest->options, run.session.Overflow()));
    rows.insert(rows.end(), row.begin(), row.end());
  });
  if (run.executable.check_unchanged) run.executable.check_unchanged();
  NpyWriter out(*o.hidden, input.ids.size(), width);
  for (size_t at = 0; at < rows.size(); at += width) out.Append(std::span(rows).subspan(at, width));
  out.Finish();
}

void RunEmbed(RunState& run) {
  const RunOptions& o = run.options;
  const PlanPooling& pooling = run.executable.manifest->pooling;
  const PoolingKind kind = o.pooling ? *PoolingFromText(*o.pooling) : pooling.kind;
  const uint32_t most = MostTokens(run.session, pooling);
  if (o.embed_file) RefuseThePlan(run, *o.embed_file);
  std::vector<std::vector<float>> all;
  const auto add = [&](const EmbeddingInput& input) {
    std::vector<float> row = Embed(run.session, input, kind, pooling.normalize);
    if (run.executable.check_unchanged) run.executable.check_unchanged();
    if (o.embed_file) {
      all.push_back(std::move(row));
    } else {
      WriteOut(JsonArray(row));
    }
  };
  if (o.tokens) {
    add({ParseTokens(*o.tokens), {}});
  } else {
    const Tokenizer tokenizer = TokenizerOf(run);
    for (const std::string_view text : TextsOf(o)) {
      const std::string first = TextOfEmbedding(pooling, o.prompt_name, text);
      if (o.pair) {
        add(PairInputOf(tokenizer, first, *o.pair, most));
      } else {
        add(EmbeddingInputOf(tokenizer, first, most));
      }
    }
  }
  if (!o.embed_file) return;
  NpyWriter out(*o.embed_file, all.size(), all[0].size());
  for (const std::vector<float>& row : all) out.Append(row);
  out.Finish();
}

}  // namespace llmc
