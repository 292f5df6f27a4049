// The Unicode Character Database as tables, made when llmc is built (tools/unicode_tables.cpp), so that a plan's bytes
// don't depend on the machine that compiles it.
#pragma once
#include "runtime/plan_unicode.h"

namespace llmc {

UnicodeTables BuiltinUnicode();

}  // namespace llmc
