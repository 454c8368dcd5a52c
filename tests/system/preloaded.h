// Children of a test program, each a fresh process of it with a library preloaded.
// Threads: one at a time; the environment of the process changes for a moment.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lightcone {

// Whether a library can be preloaded: a sanitizer must be the first library of a process.
inline constexpr bool kCanPreload =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

// Runs the test `name` of this program in a fresh process, with a library of the build preloaded and `environment`
// added to its environment, for `seconds_max` at most; 0: as long as it takes. Its exit status; the negative number of
// the signal that ended it, -SIGALRM after that time.
int RunPreloaded(const std::string& name, const std::string& library,
                 const std::map<std::string, std::string>& environment, unsigned seconds_max);

// A number in the environment.
uint64_t NumberFrom(const char* variable, uint64_t otherwise);

}  // namespace lightcone
