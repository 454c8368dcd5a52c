// A program in a process of its own that works for this one: at low priority, the first to go where memory runs out, and
// gone when the thread that waits for it is. Threads: safe from any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

struct ChildProgram {
  std::vector<std::string> words;        // [0]: its path
  std::vector<std::string> environment;  // "NAME=VALUE", besides this process's own, or in place of it
  std::string output;                    // file that takes what it prints, both streams; written anew
  int niceness = 15;                     // 0 .. 19: how far it stands back behind this process
  int64_t memory_bytes_max = 0;          // of its own that it may write to; 0: no limit
};

// Runs the program to its end. Its exit code; 128 + the number of the signal that ended it. CANCELLED once `cancelled`
// says so: it is dead then. UNAVAILABLE when it cannot be started; errors of the output file.
// This process's memory is neither copied nor shared with it: starting it costs the same however much that is.
absl::StatusOr<int> RunChild(const ChildProgram& program, const std::function<bool()>& cancelled);

// The last line that is in a program's output, at most 500 bytes of it; empty where there is none.
std::string LastWords(const std::string& output);

}  // namespace lightcone
