// Text files of the command line: "-" is stdin or stdout.
#pragma once
#include <string>

#include "ir/diag.h"
#include "ir/module.h"

namespace llmc {

// A whole text file. Throws InputError. At most 256 MiB.
std::string ReadText(const std::string& path);
// A file appears whole or not at all; a device or pipe is written in place.
void WriteText(const std::string& path, const std::string& text);

// Whether a file is a plan, or a program that holds one; everything else is a model.
bool IsPlanFile(const std::string& path);

// The IR's text; without `schedule` as if nothing were scheduled or placed, to read and not to go on from.
std::string IrText(const Module& module, bool schedule, bool flat = false);

void PrintDiag(const Diag& diag);  // to stderr

}  // namespace llmc
