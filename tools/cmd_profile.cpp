// llmc profile: where the time of a prompt and of a token goes, by the ops of the final IR.
#include <fmt/format.h>

#include "tools/cli.h"
#include "tools/note.h"
#include "tools/workbench/profile.h"

namespace llmc {

int CommandProfile(const ProfileFlags& flags) {
  ProfileOptions options;
  options.prompt = flags.prompt;
  options.decodes = flags.count;
  options.prefills = flags.repeats;
  options.threads = flags.threads;
  PrintReport(ProfileReport(MeasureProfile(flags.plan, options), flags.layers), flags.json);
  return 0;
}

}  // namespace llmc
