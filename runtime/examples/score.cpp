// score PLAN TEXT..: the log-probability of each text, and of each behind the first one as its beginning, which is
// computed once and restored.
#include <cmath>
#include <cstdio>

#include <llmc.hpp>

namespace {

double LogProbability(const float* logits, uint32_t vocab, int32_t id) {
  double highest = logits[0], sum = 0;
  for (uint32_t i = 1; i < vocab; ++i) highest = logits[i] > highest ? logits[i] : highest;
  for (uint32_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - highest);
  return logits[id] - highest - std::log(sum);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    const llmc_api::Model model(argv[1]);
    llmc_api::Session session(model);
    const std::vector<int32_t> first = model.Tokenize(argv[2]);
    std::vector<float> behind;  // the last logits of the first text
    {
      const float* logits = session.Prefill(first);
      behind.assign(logits, logits + session.vocab());
    }
    const llmc_api::Snapshot start = session.Take();
    for (int i = 3; i < argc; ++i) {
      double sum = 0;
      session.Restore(start);
      const float* logits = behind.data();
      for (const int32_t id : model.Tokenize(argv[i], LLMC_NO_SPECIAL)) {
        sum += LogProbability(logits, session.vocab(), id);
        logits = session.Decode(id);
      }
      std::printf("%.6f\n", sum);
    }
    return 0;
  } catch (const llmc_api::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
