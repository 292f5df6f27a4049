/* complete PLAN: each line of input is appended to one text, and what the model says behind it is printed. Greedy, up to
 * 64 tokens a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llmc.h>

static void Check(llmc_status status) {
  if (status == LLMC_OK) return;
  fprintf(stderr, "%s\n", llmc_last_error());
  exit(1);
}

static int Stops(const llmc_model_info* info, int32_t id) {
  for (size_t i = 0; i < info->stop_count; ++i)
    if (info->stop_ids[i] == id) return 1;
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  llmc_model* model;
  llmc_session* session;
  llmc_model_info info = {.size = sizeof info};
  llmc_sampling greedy = {.size = sizeof greedy, .top_p = 1};
  Check(llmc_model_open(argv[1], &model));
  Check(llmc_model_get_info(model, &info));
  Check(llmc_session_create(model, NULL, &session));
  static char line[4096];
  static int32_t ids[4096];
  while (fgets(line, sizeof line, stdin) != NULL) {
    size_t count = 0;
    line[strcspn(line, "\n")] = 0;
    Check(llmc_tokenize(model, line, strlen(line), llmc_position(session) == 0 ? 0 : LLMC_NO_SPECIAL, ids, 4096, &count));
    if (count == 0) continue;
    Check(llmc_prefill(session, ids, count));
    for (int n = 0; n < 64 && llmc_position(session) < info.context; ++n) {
      int32_t id;
      char text[256];
      Check(llmc_sample(session, &greedy, &id));
      if (Stops(&info, id)) break;
      Check(llmc_detokenize(model, &id, 1, text, sizeof text, &count));
      fwrite(text, 1, count, stdout);
      fflush(stdout);
      Check(llmc_decode(session, id));
    }
    putchar('\n');
  }
  llmc_session_destroy(session);
  llmc_model_close(model);
  return 0;
}
