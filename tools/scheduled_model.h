// From a model to the scheduled module: what compile, run and inspect share.
#pragma once
#include <string>

#include "tools/cli.h"

namespace llmc {

struct ScheduledModel {
  Model model;              // model.module is the scheduled module
  std::string import_text;  // the IR after import
  std::string backend;      // asked for, here or in the module of --from
  std::string targets;      // the same
  bool stopped = false;     // --stop-after: the pipeline did not run to its end
};

// Loads MODEL (or takes --from FILE.ir with MODEL's weights), runs the passes, prints, dumps and checks as the flags
// say.
ScheduledModel ScheduleModel(const CompileFlags& flags);

}  // namespace llmc
