// SHA-256 by libcrypto: for plans' section tables and for the hashes of what a plan was made from.
#pragma once
#include <string>

#include "runtime/plan.h"

namespace llmc {

Sha256Factory MakeSha256();
// Of a whole file. Throws PlanError when it cannot be read.
Sha256Digest Sha256OfFile(const std::string& path);

}  // namespace llmc
