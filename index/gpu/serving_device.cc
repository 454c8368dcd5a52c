#include "index/gpu/serving_device.h"

#include <utility>

#include "base/status.h"
#include "spdlog/spdlog.h"

namespace lightcone::gpu {
namespace {

constexpr char kNotAskedFor[] = "not asked for";

struct Serving {
  absl::Mutex mu;
  std::shared_ptr<ScanDevice> device ABSL_GUARDED_BY(mu);
  std::string reason ABSL_GUARDED_BY(mu) = kNotAskedFor;
  bool opened ABSL_GUARDED_BY(mu) = false;  // StartServingDevice opened the device
  int users ABSL_GUARDED_BY(mu) = 0;        // callers of StartServingDevice
};

// Never destroyed: when static objects go, the driver may have gone before.
Serving& Global() {
  static Serving* const serving = new Serving;
  return *serving;
}

absl::StatusOr<std::shared_ptr<ScanDevice>> OpenDevice(const DeviceOptions& options) {
  if (options.mode == DeviceMode::kOff) return Unavailable("engine.gpu is off");
  LC_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMachine> machine, OpenCudaMachine());
  return ScanDevice::Open(std::move(machine), options);
}

}  // namespace

absl::Status StartServingDevice(const DeviceOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  Serving& serving = Global();
  absl::MutexLock lock(&serving.mu);
  ++serving.users;
  if (serving.device != nullptr) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<ScanDevice>> device = OpenDevice(options);
  if (!device.ok()) {
    serving.reason = MessageOf(device.status());
    spdlog::info("gpu: the CPU serves: {}", serving.reason);
    return absl::OkStatus();
  }
  serving.device = std::move(*device);
  serving.opened = true;
  spdlog::info("gpu: exact scans are served by '{}', rows as {}, at most {} bytes", serving.device->name(),
               DeviceStorageName(options.storage), serving.device->Stats().bytes_max);
  return absl::OkStatus();
}

void StopServingDevice() {
  std::shared_ptr<ScanDevice> device;  // goes after the lock
  Serving& serving = Global();
  {
    absl::MutexLock lock(&serving.mu);
    if (--serving.users > 0) return;
    if (serving.device != nullptr && !serving.opened) return;
    device.swap(serving.device);
    serving.opened = false;
    serving.reason = kNotAskedFor;
  }
  if (device != nullptr) device->StopCopying();  // whoever else holds it
}

void ServeFrom(std::shared_ptr<ScanDevice> device) {
  Serving& serving = Global();
  absl::MutexLock lock(&serving.mu);
  serving.device.swap(device);
  serving.opened = false;
  serving.reason = kNotAskedFor;
}

std::shared_ptr<ScanDevice> ServingDevice() {
  Serving& serving = Global();
  absl::MutexLock lock(&serving.mu);
  return serving.device;
}

ServingStatus ServingDeviceStatus() {
  Serving& serving = Global();
  absl::MutexLock lock(&serving.mu);
  ServingStatus status;
  if (serving.device == nullptr) {
    status.state = "none";
    status.reason = serving.reason;
    return status;
  }
  status.stats = serving.device->Stats();
  status.state = status.stats.lost ? "lost" : "serving";
  status.reason = StrCat(serving.device->name(), ", rows as ", DeviceStorageName(serving.device->options().storage));
  return status;
}

std::string ServingDeviceText() {
  const ServingStatus status = ServingDeviceStatus();
  if (status.state == "serving") return StrCat("the device '", status.reason, "'");
  return StrCat("the CPU: ", status.reason, status.state == "lost" ? " was lost" : "");
}

}  // namespace lightcone::gpu
