/* logits PLAN TEXT: the five likeliest tokens behind a text, with their logits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llmc.h>

static void Check(llmc_status status) {
  if (status == LLMC_OK) return;
  fprintf(stderr, "%s\n", llmc_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  llmc_model* model;
  llmc_session* session;
  llmc_model_info info = {.size = sizeof info};
  static int32_t ids[4096];
  size_t count = 0;
  Check(llmc_model_open(argv[1], &model));
  Check(llmc_model_get_info(model, &info));
  Check(llmc_tokenize(model, argv[2], strlen(argv[2]), 0, ids, 4096, &count));
  Check(llmc_session_create(model, NULL, &session));
  Check(llmc_prefill(session, ids, count));
  const float* logits = llmc_logits(session);
  int32_t best[5];
  for (int k = 0; k < 5; ++k) {
    best[k] = -1;
    for (int32_t id = 0; id < (int32_t)info.vocab; ++id) {
      int taken = 0;
      for (int j = 0; j < k; ++j) taken |= best[j] == id;
      if (!taken && (best[k] < 0 || logits[id] > logits[best[k]])) best[k] = id;
    }
    printf("%d %.9g\n", best[k], (double)logits[best[k]]);
  }
  llmc_session_destroy(session);
  llmc_model_close(model);
  return 0;
}
