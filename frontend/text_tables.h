// The characters' tables of chat templates, made when llmc is built (tools/text_tables.cpp).
#pragma once
#include "runtime/plan_text_tables.h"

namespace llmc {

TextTables BuiltinTextTables();

}  // namespace llmc
