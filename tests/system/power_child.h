// A child of a test program, whose changes of one folder the recorder writes to a log (power_log.h).
// Threads: one at a time; the environment of the process changes for a moment.
#pragma once

#include <cstdint>
#include <string>

#include "tests/system/power_workload.h"
#include "tests/system/preloaded.h"

namespace lightcone {

inline constexpr bool kCanRecord = kCanPreload;

// Runs the test `name` of this program in a fresh process, with `variable` in its environment, and kills it with -9
// after record `kill_after` of the log; 0: not. Its exit status; the negative number of the signal that ended it.
int RunRecorded(const std::string& name, const std::string& variable, const std::string& value,
                const std::string& folder, const std::string& log, uint64_t kill_after = 0);

// The same with a plan of the workload (power_workload.h), whose folder is recorded. `states` is as in RunPowerPlan.
int RunPowerChild(const PowerPlan& plan, const std::string& states, const std::string& log, uint64_t kill_after = 0);

}  // namespace lightcone
