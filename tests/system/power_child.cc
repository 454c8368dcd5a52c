#include "tests/system/power_child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/system/power_log.h"

namespace lightcone {
namespace {

constexpr char kPlanVariable[] = "LIGHTCONE_POWER_PLAN";
constexpr char kStatesVariable[] = "LIGHTCONE_POWER_STATES";

// Not a test of its own: the body of the processes that RunPowerChild starts from this program.
TEST(PowerChild, Body) {
  const char* const plan = std::getenv(kPlanVariable);
  const char* const states = std::getenv(kStatesVariable);
  if (plan == nullptr || states == nullptr) return;
  const int status = RunPowerPlan(plan, states);
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace

int RunRecorded(const std::string& name, const std::string& variable, const std::string& value,
                const std::string& folder, const std::string& log, uint64_t kill_after) {
  const std::string filter = "--gtest_filter=" + name;
  ::setenv("LD_PRELOAD", LIGHTCONE_BINARY_DIR "/lib/liblightcone_power_recorder.so", 1);
  ::setenv(kPowerFolder, folder.c_str(), 1);
  ::setenv(kPowerLog, log.c_str(), 1);
  ::setenv(kPowerKillAfter, std::to_string(kill_after).c_str(), 1);
  ::setenv(variable.c_str(), value.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "power_test", filter.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (const char* const set : {"LD_PRELOAD", kPowerFolder, kPowerLog, kPowerKillAfter, variable.c_str()})
    ::unsetenv(set);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 127;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int RunPowerChild(const PowerPlan& plan, const std::string& states, const std::string& log, uint64_t kill_after) {
  ::setenv(kStatesVariable, states.c_str(), 1);
  const int status = RunRecorded("PowerChild.Body", kPlanVariable, EncodePowerPlan(plan), plan.base, log, kill_after);
  ::unsetenv(kStatesVariable);
  return status;
}

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace lightcone
