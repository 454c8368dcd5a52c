#include <cuda_fp16.h>
#include <mma.h>

#include "index/gpu/scan_launch.h"

#define LC_KERNELS on_cuda
#define LC_UNROLL _Pragma("unroll")
#define LC_ALIGNED(bytes) __align__(bytes)
#define LC_DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#define LC_LOAD_ONCE(pointer) __ldcs(pointer)  // rows that pass by once leave the caches first
#define LC_HALF2_OF_BITS(bits) \
  __half2(__half2_raw{static_cast<unsigned short>(bits), static_cast<unsigned short>((bits) >> 16)})

namespace lightcone::gpu {
namespace wmma = nvcuda::wmma;
}  // namespace lightcone::gpu

#include "index/gpu/scan_kernels-inl.h"

namespace lightcone::gpu {

using namespace on_cuda;

int LaunchScan(ScanKernel kernel, const ScanLaunch& launch, unsigned blocks_max, void* stream) {
  const unsigned wanted = BlocksWanted(launch, kernel);
  if (wanted == 0) return cudaSuccess;
  const unsigned blocks = wanted < blocks_max ? wanted : blocks_max;
  const unsigned bytes = FewBytes(launch, kernel);
  const auto on = static_cast<cudaStream_t>(stream);
  const bool one = launch.queries_held == 1;
  cudaGetLastError();  // clears an earlier call's error; a broken device reports it again
  switch (kernel) {
    case ScanKernel::kFewFloats:
      if (one) {
        ScanFew<Floats, 1><<<blocks, kBlockThreads, bytes, on>>>(launch);
      } else {
        ScanFew<Floats, kFewQueries><<<blocks, kBlockThreads, bytes, on>>>(launch);
      }
      break;
    case ScanKernel::kFewHalves:
      if (one) {
        ScanFew<Halves, 1><<<blocks, kBlockThreads, bytes, on>>>(launch);
      } else {
        ScanFew<Halves, kFewQueries><<<blocks, kBlockThreads, bytes, on>>>(launch);
      }
      break;
    case ScanKernel::kManyFloats:
      ScanManyFloats<<<blocks, kBlockThreads, 0, on>>>(launch);
      break;
    case ScanKernel::kManyHalves:
      ScanManyHalves<<<blocks, kBlockThreads, 0, on>>>(launch);
      break;
  }
  return cudaGetLastError();
}

int LaunchSelect(const ScanLaunch& launch, void* stream) {
  if (launch.state_count == 0) return cudaSuccess;
  cudaGetLastError();  // clears an earlier call's error
  Select<<<launch.state_count, kBlockThreads, 0, static_cast<cudaStream_t>(stream)>>>(launch);
  return cudaGetLastError();
}

}  // namespace lightcone::gpu
