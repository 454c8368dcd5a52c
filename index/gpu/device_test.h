// The test that a device has to pass before it serves: rows and queries of every geometry, by every kernel, beside
// exact answers in double precision. It finds kernels that do not work on a device, and arithmetic that is much worse
// than bounds assume; it proves nothing about rows that it has not. Threads: one caller.
#pragma once

#include "absl/status/status.h"

namespace lightcone::gpu {

class ScanDevice;

// INTERNAL says which score or row was wrong.
absl::Status TestDevice(ScanDevice& device);

}  // namespace lightcone::gpu
