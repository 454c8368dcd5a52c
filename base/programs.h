// The programs of one installation, which stand in one folder. Threads: all functions are safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lightcone {

// Path of the program `name` in the folder of the running program. The file need not exist.
std::string ProgramBeside(std::string_view name);

// Replaces the running program by the program `name` beside it, with the same arguments. Returns only the error:
// NOT_FOUND that says where the program was looked for.
absl::Status BecomeProgram(std::string_view name, const char* const* argv);

// Sets OMP_WAIT_POLICY=passive and executes the program again with the same arguments, unless the user chose a policy.
// Call it first in main(), as OpenMP reads the policy before main(). By default OpenMP's threads spin at every barrier.
// Beside other load a spinning thread keeps the thread that it waits for from running: a training ran at a fourteenth
// of its speed. Returns in the new process, where the policy is set already, and where the program cannot be executed.
void WaitPassively(char** argv);

}  // namespace lightcone
