// The pace at which background work reads and writes files beside searches and writes, of all indexes of the process
// together: what a disk gives has to be shared by them all.
// Threads: safe from any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace lightcone {

// Each waits until the disk may be used again after these bytes, or `hurry` says not to wait; it is asked every few
// milliseconds. Files that are read through, at 128 MiB a second:
void AwaitCheckPace(size_t bytes, absl::FunctionRef<bool()> hurry);
// Files that are written. 0: no limit.
void AwaitBuildPace(size_t bytes, int64_t bytes_per_second_max, absl::FunctionRef<bool()> hurry);

}  // namespace lightcone
