// What figure 13 is measured against, on the first CUDA device.
// Threads: one caller.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace lightcone::bench {

// Bytes a second that cudaMemcpyDeviceToDevice moves, read and written counted apart, of `bytes` copied `rounds` times.
absl::StatusOr<double> CopyBandwidth(int64_t bytes, int rounds);

// Seconds of a search of FAISS's flat index on the device, float16, for the k largest inner products; the median of
// `rounds`. Nothing where FAISS was built without CUDA.
absl::StatusOr<std::optional<double>> FaissFlatSeconds(std::span<const float> rows, std::span<const float> queries,
                                                       int dimension, int64_t k, int rounds);

}  // namespace lightcone::bench
