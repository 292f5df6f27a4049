// SHA-256 by libcrypto: for plans' section tables and for the hashes of what a plan was made from.
#pragma once
#include <string>

#include "runtime/plan.h"

namespace llmc {

std::unique_ptr<Sha256> MakeSha256();  // a Sha256Factory
// Of a whole file. Throws PlanError when it cannot be read.
Sha256Digest Sha256OfFile(const std::string& path);

}  // namespace llmc
