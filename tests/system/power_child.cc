#include "tests/system/power_child.h"

#include <gtest/gtest.h>
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
  return RunPreloaded(
      name, "lightcone_power_recorder",
      {{kPowerFolder, folder}, {kPowerLog, log}, {kPowerKillAfter, std::to_string(kill_after)}, {variable, value}},
      /*seconds_max=*/0);
}

int RunPowerChild(const PowerPlan& plan, const std::string& states, const std::string& log, uint64_t kill_after) {
  ::setenv(kStatesVariable, states.c_str(), 1);
  const int status = RunRecorded("PowerChild.Body", kPlanVariable, EncodePowerPlan(plan), plan.base, log, kill_after);
  ::unsetenv(kStatesVariable);
  return status;
}

}  // namespace lightcone
