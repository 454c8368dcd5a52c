#include "bench/gpu_peers.h"

#include <chrono>
#include <exception>
#include <vector>

#include "base/status.h"
#include "bench/report.h"

#ifdef LIGHTCONE_BENCH_CUDA
#include <cuda_runtime_api.h>
#endif
#ifdef LIGHTCONE_BENCH_FAISS_GPU
#include <faiss/gpu/GpuIndexFlat.h>
#include <faiss/gpu/StandardGpuResources.h>
#endif

namespace lightcone::bench {
namespace {

[[maybe_unused]] double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

#ifdef LIGHTCONE_BENCH_CUDA
absl::StatusOr<double> CopyBandwidth(int64_t bytes, int rounds) {
  const size_t n = static_cast<size_t>(bytes);
  void *from = nullptr, *to = nullptr;
  std::vector<double> seconds;
  cudaError_t error = cudaMalloc(&from, n);
  if (error == cudaSuccess) error = cudaMalloc(&to, n);
  if (error == cudaSuccess) error = cudaMemset(from, 1, n);
  for (int round = 0; error == cudaSuccess && round <= rounds; ++round) {
    error = cudaDeviceSynchronize();
    const auto begin = std::chrono::steady_clock::now();
    if (error == cudaSuccess) error = cudaMemcpy(to, from, n, cudaMemcpyDeviceToDevice);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (round > 0) seconds.push_back(SecondsSince(begin));
  }
  cudaFree(from);
  cudaFree(to);
  if (error != cudaSuccess) return Unavailable(StrCat("copy on the device: ", cudaGetErrorString(error)));
  return 2 * static_cast<double>(bytes) / Median(seconds);
}
#else
absl::StatusOr<double> CopyBandwidth(int64_t, int) { return Unavailable("built without CUDA"); }
#endif

#ifdef LIGHTCONE_BENCH_FAISS_GPU
absl::StatusOr<std::optional<double>> FaissFlatSeconds(std::span<const float> rows, std::span<const float> queries,
                                                       int dimension, int64_t k, int rounds) {
  try {
    faiss::gpu::StandardGpuResources resources;
    faiss::gpu::GpuIndexFlatConfig config;
    config.useFloat16 = true;
    faiss::gpu::GpuIndexFlat index(&resources, dimension, faiss::METRIC_INNER_PRODUCT, config);
    const size_t d = static_cast<size_t>(dimension);
    index.add(static_cast<faiss::idx_t>(rows.size() / d), rows.data());
    const size_t count = queries.size() / d;
    std::vector<float> scores(count * static_cast<size_t>(k));
    std::vector<faiss::idx_t> ids(scores.size());
    std::vector<double> seconds;
    for (int round = 0; round <= rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      index.search(static_cast<faiss::idx_t>(count), queries.data(), k, scores.data(), ids.data());
      if (round > 0) seconds.push_back(SecondsSince(begin));
    }
    return std::optional(Median(seconds));
  } catch (const std::exception& error) {
    return Unavailable(StrCat("FAISS on the device: ", error.what()));
  }
}
#else
absl::StatusOr<std::optional<double>> FaissFlatSeconds(std::span<const float>, std::span<const float>, int, int64_t,
                                                       int) {
  return std::optional<double>();
}
#endif

}  // namespace lightcone::bench
