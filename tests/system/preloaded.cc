#include "tests/system/preloaded.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace lightcone {

int RunPreloaded(const std::string& name, const std::string& library,
                 const std::map<std::string, std::string>& environment, unsigned seconds_max) {
  const std::string filter = "--gtest_filter=" + name;
  const std::string path = LIGHTCONE_BINARY_DIR "/lib/lib" + library + ".so";
  ::setenv("LD_PRELOAD", path.c_str(), 1);
  for (const auto& [variable, value] : environment) ::setenv(variable.c_str(), value.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds_max);  // outlives the exec, and ends a process that does not catch it
    ::execl("/proc/self/exe", "test", filter.c_str(), "--gtest_brief=1", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::unsetenv("LD_PRELOAD");
  for (const auto& [variable, value] : environment) ::unsetenv(variable.c_str());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 127;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace lightcone
