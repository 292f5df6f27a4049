// llmc diff: what differs between two plans, IR texts or models.
#pragma once
#include <string>
#include <vector>

namespace llmc {

// Lines of `b` against `a` by a longest common subsequence: "- " only in a, "+ " only in b, "  " the context lines
// around, "..." where unchanged lines are left out. Empty: equal.
std::string DiffLines(const std::string& a, const std::string& b, size_t context = 1);

// One side: named facts in order, and the folded IR text.
struct Facts {
  struct Fact {
    std::string group, name, value;  // "memory", "shared", "12800 bytes"
  };
  std::vector<Fact> facts;
  std::string ir;
};

// Of a plan, a file of IR text (*.ir), or a model (as imported).
Facts FactsOf(const std::string& path);

}  // namespace llmc
