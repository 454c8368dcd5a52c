// How kernels are started, between scan_kernels.cu, which nvcc compiles, and cuda_machine.cc, which it does not.
// Threads: safe from any thread.
#pragma once

#include "index/gpu/scan_args.h"

namespace lightcone::gpu {

enum class ScanKernel { kFewFloats, kFewHalves, kManyFloats, kManyHalves };

// Put on a stream of CUDA; they give back a cudaError_t, 0 if that went well. `blocks_max`: that the device runs at
// once.
int LaunchScan(ScanKernel kernel, const ScanLaunch& launch, unsigned blocks_max, void* stream);
int LaunchSelect(const ScanLaunch& launch, void* stream);

// What a block of ScanFew has to be given of shared memory.
inline unsigned FewBytes(const ScanLaunch& launch, ScanKernel kernel) {
  return launch.queries_held * launch.vectors_max * (kernel == ScanKernel::kFewFloats ? 4 : 8) *
         unsigned{sizeof(float)};
}

// Blocks that have something to do.
inline unsigned BlocksWanted(const ScanLaunch& launch, ScanKernel kernel) {
  const bool few = kernel == ScanKernel::kFewFloats || kernel == ScanKernel::kFewHalves;
  return (launch.end - launch.begin) * (few ? 1 : launch.query_tiles);
}

}  // namespace lightcone::gpu
