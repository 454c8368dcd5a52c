// The process whose disk fails: one thread with a fixed list of steps over an engine of its own. A step that is refused
// is made again, after a restart of the engine where it asks for one. It notes each step before it and after it
// (power_oracle.h), a line each.
// Threads: one at a time. Failures are those of the test that runs.
#pragma once

#include <string>

#include "tests/system/disk_faults.h"

namespace lightcone {

struct DiskPlan {
  std::string base;          // the engine's folder is PowerDataOf(base)
  std::string notes;         // file of the notes, outside of `base`
  bool ends_struck = false;  // The process ends without a close as soon as a step was refused.
};

// Runs the steps while the library of `faults` makes calls fail. A disk that is full has room as soon as a step was
// refused and everything acknowledged was read. It expects of each refusal that it names an error of the disk, that
// reads go on, and that the step succeeds within seconds of the fault's end.
void RunDiskPlan(const DiskPlan& plan, DiskFaults* faults);

}  // namespace lightcone
