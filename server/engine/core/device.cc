#include "server/engine/core/device.h"

#include "index/gpu/serving_device.h"

namespace lightcone::server {

absl::Status StartDevice(const DeviceOptions& options) { return gpu::StartServingDevice(options); }

void StopDevice() { gpu::StopServingDevice(); }

}  // namespace lightcone::server
