// From a model to the scheduled module: what compile, run and inspect share.
#pragma once
#include <string>

#include "tools/cli.h"

namespace llmc {

struct Lowered {
  Model model;              // model.module is the scheduled module
  std::string import_text;  // the IR after import
  std::string backend;      // asked for, here or in the module of --from
  std::string targets;      // the same
  bool stopped = false;     // --stop-after: the pipeline did not run to its end
};

// Loads MODEL (or takes --from FILE.ir with MODEL's weights), runs the passes, prints, dumps and checks as the flags
// say.
Lowered Lower(const CompileFlags& flags);

// A whole text file; "-" is stdin. Throws InputError. At most 256 MiB.
std::string ReadText(const std::string& path);
// To a file or "-". A file appears whole or not at all; a device or pipe is written in place.
void WriteText(const std::string& path, const std::string& text);

// Whether a file starts with a plan's magic; everything else is a model.
bool IsPlanFile(const std::string& path);

void PrintDiag(const Diag& diag);  // to stderr

}  // namespace llmc
