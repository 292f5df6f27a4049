// What the commands say on stderr: progress, timings, remarks, warnings.
#pragma once
#include <cstdio>
#include <string>

namespace llmc {

// What can't be written there is lost, and changes nothing else.
inline void Note(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace llmc
