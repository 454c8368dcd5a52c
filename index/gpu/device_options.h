// What can be set about the device that scans sealed segments. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace lightcone {

enum class DeviceMode { kAuto, kOff };         // kAuto: use a device if there is one that gives right answers
enum class DeviceStorage { kFloat32, kHalf };  // storage of rows on the device
std::string_view DeviceStorageName(DeviceStorage storage);  // "float32", "fp16"
std::optional<DeviceStorage> ParseDeviceStorage(std::string_view name);

struct DeviceOptions {
  DeviceMode mode = DeviceMode::kAuto;
  // Rows that do not fit stay with the CPU. Cost: as much memory of the device. 0: nine tenths of what is free at
  // start.
  int64_t memory_bytes_max = 0;
  DeviceStorage storage = DeviceStorage::kHalf;  // kHalf: half the bytes; answers are the same
  int64_t rows_min = 20'000;                     // The CPU scans smaller segments faster.
  bool copy_at_once = false;                     // A search waits for the copy of a segment.
  absl::Status Validate() const;                 // Errors name the field and the range allowed.
};

}  // namespace lightcone
