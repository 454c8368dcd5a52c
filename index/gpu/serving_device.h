// The one device of this process, which all indexes share: there is one, or a reason why the CPU serves.
// Threads: safe from any thread.
#pragma once

#include <memory>
#include <string>

#include "index/gpu/scan_device.h"

namespace lightcone::gpu {

// Opens the CUDA device as the options say, and logs what came of it. Later calls, with whatever options, change
// nothing while the device serves. An error says what is wrong with the options; that there is no device is none.
absl::Status StartServingDevice(const DeviceOptions& options);

// Ends what StartServingDevice began, once it was called as often as that returned OK: the thread that copies segments
// has ended when this returns, before main does, and the driver with it. A device of ServeFrom stays.
void StopServingDevice();

// Takes this one, or none, from here on (tests, benchmarks). Searches that have begun end with the old one.
void ServeFrom(std::shared_ptr<ScanDevice> device);

// nullptr: the CPU serves. A device that is lost is given still.
std::shared_ptr<ScanDevice> ServingDevice();

struct ServingStatus {
  std::string state;   // "serving", "none", "lost"
  std::string reason;  // the device's name and storage; or why there is none
  DeviceStats stats;
};
ServingStatus ServingDeviceStatus();
// In a line: "the device 'NAME, rows as fp16'"; "the CPU: WHY".
std::string ServingDeviceText();

}  // namespace lightcone::gpu
