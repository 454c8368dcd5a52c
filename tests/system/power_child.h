// A child of a test program, whose changes of one folder the recorder writes to a log (power_log.h).
// Threads: one at a time; the environment of the process changes for a moment.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/system/power_log.h"

namespace lightcone {

// Whether a library can be preloaded: a sanitizer must be the first library of a process.
inline constexpr bool kCanRecord =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

// Runs the test `name` of this program in a fresh process, with `variable` in its environment. Its exit status; -1
// when it did not end by itself.
inline int RunRecorded(const std::string& name, const std::string& variable, const std::string& value,
                       const std::string& folder, const std::string& log) {
  const std::string filter = "--gtest_filter=" + name;
  ::setenv("LD_PRELOAD", LIGHTCONE_BINARY_DIR "/lib/liblightcone_power_recorder.so", 1);
  ::setenv(kPowerFolder, folder.c_str(), 1);
  ::setenv(kPowerLog, log.c_str(), 1);
  ::setenv(variable.c_str(), value.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "power_test", filter.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (const char* const set : {"LD_PRELOAD", kPowerFolder, kPowerLog, variable.c_str()}) ::unsetenv(set);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace lightcone
