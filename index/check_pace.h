// The pace at which files are read through beside searches, of all indexes of the process together.
// Threads: safe from any.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace lightcone {

// Waits until the disk may be read again after these bytes, or `hurry` says not to wait; it is asked every few
// milliseconds.
void AwaitCheckPace(size_t bytes, absl::FunctionRef<bool()> hurry);

}  // namespace lightcone
