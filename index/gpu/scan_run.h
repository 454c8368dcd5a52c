// Exact scans on a device: what is asked, what comes back, and one run of the kernels for a group of queries.
//
// A run goes over the rows in launches that grow: the first ones have room for every row they meet, each later one is
// met by a floor (the k-th best lower end so far) that lets few rows through. Tiles are taken from all over the
// segments, so that the floor says something about the rest. Where more rows pass than there is room for, the query's
// answer is not complete; what was found is a floor all the same, and another run by it mostly is. Threads: one run at
// a time on a machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/bound_query.h"
#include "index/gpu/device_rows.h"
#include "index/gpu/scan_bounds.h"

namespace lightcone::gpu {

// A segment that a query scans.
struct DevicePart {
  std::shared_ptr<const DeviceRows> rows;
  std::shared_ptr<const DeviceBits> allowed;  // rows that may be found; nullptr: all
};

struct DeviceQuery {
  const BoundQuery* query = nullptr;
  int64_t k = 0;
  double floor = 0;  // Rows whose score plus error is below it are not wanted.
  std::vector<DevicePart> parts;
  std::function<bool()> gave_up = nullptr;  // true: nobody waits for the answer; empty: somebody does
};

struct DeviceAnswer {
  bool complete = false;
  std::vector<FoundRow> rows;  // all allowed rows that may belong to the k nearest; `part` counts DeviceQuery::parts
  double floor = 0;            // floor for the next try of an incomplete answer
};

inline constexpr int64_t kDeviceKMax = 1'024;  // largest k of a query on a device
inline constexpr int64_t kFoundMin = 4'096;    // least places for found rows of a query
inline constexpr int64_t kStatesMax = 1'024;   // queries of a run

// The rows that a query can get at most: its k, or all there are.
int64_t WantedOf(const DeviceQuery& query);

// ScanLaunch::step: prime to `tiles`, and positions side by side are tiles far apart.
uint32_t TileStep(uint32_t tiles);

class ScanRun {
 public:
  // `found` has at least as many bytes as FoundBytes(queries), `args` room for what ArgsBytes says; both are the
  // device's. REQUIRES: WantedOf(each) is 1 .. kDeviceKMax, and each has rows.
  ScanRun(DeviceMachine& machine, std::span<const DeviceQuery> queries);

  static int64_t FoundPlaces(int64_t wanted);
  int64_t found_bytes() const { return int64_t{found_max_} * static_cast<int64_t>(queries_.size() * sizeof(FoundRow)); }
  int64_t args_bytes() const { return static_cast<int64_t>(args_.size()); }

  // One answer a query. An error: the device is lost.
  absl::StatusOr<std::vector<DeviceAnswer>> Go(uint8_t* args, uint8_t* found);

 private:
  // Segments that one kernel scans, as they lie in args_.
  struct Pass {
    ScanKernel kernel = ScanKernel::kFewFloats;
    ScanLaunch launch = {};
    size_t segments_at = 0, queries_at = 0;  // bytes
    size_t uses = 0;                         // QueryArgs
  };
  struct Use {  // A query's scan of a segment.
    uint32_t state = 0, part = 0;
  };
  struct Scanned {
    const DeviceRows* rows = nullptr;
    std::vector<Use> by;
  };

  void Plan();
  void PlanPass(std::span<const Scanned> segments, bool many);
  size_t Append(const void* bytes, size_t count);
  size_t NumbersAt(uint32_t state, bool halves, uint32_t numbers);  // place of a query's numbers in args_
  absl::Status RunPass(Pass pass, uint8_t* args, uint8_t* found);
  absl::StatusOr<std::vector<DeviceAnswer>> Collect(const uint8_t* args, const uint8_t* found) const;
  absl::Status Take(std::span<const FoundRow> found, uint32_t query, DeviceAnswer* answer) const;

  DeviceMachine& machine_;
  const std::span<const DeviceQuery> queries_;
  std::vector<DeviceQueryCode> codes_;
  int64_t wanted_max_ = 1;
  uint32_t found_max_ = 0;
  std::vector<uint8_t> args_;  // arguments for the device; QueryArgs::a are offsets until Go
  std::vector<Pass> passes_;
  std::vector<size_t> numbers_at_[2];  // place of each state's floats and halves in args_; 0: none
  size_t states_at_ = 0;
};

}  // namespace lightcone::gpu
