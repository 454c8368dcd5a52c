// The device that scans sealed segments for all collections of this process, if there is one.
// Threads: safe from any thread.
#pragma once

#include "absl/status/status.h"
#include "index/gpu/device_options.h"

namespace lightcone::server {

// Looks for it, tries it and logs what came of it; later calls change nothing while it serves. INVALID_ARGUMENT names
// the option that is wrong; that there is no device is no error.
absl::Status StartDevice(const DeviceOptions& options);

// Once for each StartDevice that went well, after the engine has gone: the last one ends the device's thread, so that
// it does not run while main returns.
void StopDevice();

}  // namespace lightcone::server
