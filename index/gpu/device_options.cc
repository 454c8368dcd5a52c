#include "index/gpu/device_options.h"

#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 50;
constexpr int64_t kBytesMin = int64_t{16} << 20;  // least budget that has room for found rows

}  // namespace

std::string_view DeviceStorageName(DeviceStorage storage) {
  return storage == DeviceStorage::kHalf ? "fp16" : "float32";
}

std::optional<DeviceStorage> ParseDeviceStorage(std::string_view name) {
  for (const DeviceStorage storage : {DeviceStorage::kFloat32, DeviceStorage::kHalf}) {
    if (name == DeviceStorageName(storage)) return storage;
  }
  return std::nullopt;
}

absl::Status DeviceOptions::Validate() const {
  if (memory_bytes_max != 0 && (memory_bytes_max < kBytesMin || memory_bytes_max > kBytesMax)) {
    return InvalidField("engine.gpu_memory_bytes_max", StrCat(memory_bytes_max),
                        StrCat("0 (nine tenths of what is free), or ", kBytesMin, " .. ", kBytesMax));
  }
  if (rows_min < 1) return InvalidField("gpu.rows_min", StrCat(rows_min), "1 or more");
  return absl::OkStatus();
}

}  // namespace lightcone
