#include "tests/gpu/emulated_machine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/status.h"
#include "tests/gpu/emulated_cuda.h"
// After what it is written in.
#include "index/gpu/scan_kernels-inl.h"

namespace lightcone::gpu {

using namespace on_fibers;

namespace {

constexpr unsigned kBlocksMax = 3;  // a few, so that a block has several tiles
constexpr size_t kAlign = 64;
constexpr uint64_t kEnd = 0x6c69676874636f6e;

// Before the memory that is given out: its size. Behind it: kEnd.
struct Header {
  alignas(kAlign) int64_t bytes;
};

void RunScan(ScanKernel kernel, const ScanLaunch& launch) {
  const bool one = launch.queries_held == 1;
  switch (kernel) {
    case ScanKernel::kFewFloats:
      return one ? ScanFew<Floats, 1>(launch) : ScanFew<Floats, kFewQueries>(launch);
    case ScanKernel::kFewHalves:
      return one ? ScanFew<Halves, 1>(launch) : ScanFew<Halves, kFewQueries>(launch);
    case ScanKernel::kManyFloats:
      return ScanManyFloats(launch);
    case ScanKernel::kManyHalves:
      return ScanManyHalves(launch);
  }
}

}  // namespace

absl::Status EmulatedMachine::Call() {
  if (calls_left_ <= 0) return Unavailable("the emulated device fell off its bus");
  --calls_left_;
  return absl::OkStatus();
}

absl::StatusOr<void*> EmulatedMachine::Allocate(int64_t bytes) {
  LC_RETURN_IF_ERROR(Call());
  if (bytes > free_) return ResourceExhausted("the emulated device has no memory left");
  free_ -= bytes;
  const size_t size = static_cast<size_t>(bytes);
  char* const memory = static_cast<char*>(
      std::aligned_alloc(kAlign, (sizeof(Header) + size + sizeof(kEnd) + kAlign - 1) / kAlign * kAlign));
  reinterpret_cast<Header*>(memory)->bytes = bytes;
  std::memset(memory + sizeof(Header), 0xcd, size);
  std::memcpy(memory + sizeof(Header) + size, &kEnd, sizeof(kEnd));
  return memory + sizeof(Header);
}

void EmulatedMachine::Free(void* memory) {
  char* const begin = static_cast<char*>(memory) - sizeof(Header);
  const int64_t bytes = reinterpret_cast<Header*>(begin)->bytes;
  if (std::memcmp(static_cast<char*>(memory) + bytes, &kEnd, sizeof(kEnd)) != 0) {
    std::fprintf(stderr, "emulated device: %lld bytes were written beyond their end\n", static_cast<long long>(bytes));
    std::abort();
  }
  free_ += bytes;
  std::free(begin);
}

absl::Status EmulatedMachine::Write(void* to, const void* from, int64_t bytes) {
  LC_RETURN_IF_ERROR(Call());
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status EmulatedMachine::Scan(ScanKernel kernel, const ScanLaunch& launch) {
  LC_RETURN_IF_ERROR(Call());
  ++launches_;
  const unsigned bytes = FewBytes(launch, kernel);
  if (bytes > emulated::kSharedBytes) return Internal(StrCat("a block was to have ", bytes, " bytes of shared memory"));
  const unsigned wanted = BlocksWanted(launch, kernel);
  emulated::RunBlocks(wanted < kBlocksMax ? wanted : kBlocksMax, kBlockThreads, [&] { RunScan(kernel, launch); });
  if (wrong_ == 0) return absl::OkStatus();
  for (uint32_t state = 0; state < launch.state_count; ++state) {
    if (launch.states[state].count > 0) launch.found[uint64_t{state} * launch.found_max].score += wrong_;
  }
  return absl::OkStatus();
}

absl::Status EmulatedMachine::Select(const ScanLaunch& launch) {
  LC_RETURN_IF_ERROR(Call());
  emulated::RunBlocks(launch.state_count, kBlockThreads, [&] { on_fibers::Select(launch); });
  return absl::OkStatus();
}

absl::Status EmulatedMachine::Read(void* to, const void* from, int64_t width, int64_t pitch, int64_t lines) {
  LC_RETURN_IF_ERROR(Call());
  for (int64_t i = 0; i < lines; ++i) {
    std::memcpy(static_cast<char*>(to) + i * width, static_cast<const char*>(from) + i * pitch,
                static_cast<size_t>(width));
  }
  return absl::OkStatus();
}

}  // namespace lightcone::gpu
