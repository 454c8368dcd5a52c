// What tests of the device share: machines to run on, and rows on them with their exact ranking.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "index/gpu/scan_device.h"
#include "tests/gpu/emulated_machine.h"

namespace lightcone::gpu {

// "emulated", and "cuda" where a device is at hand.
inline const std::vector<std::string>& Machines() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found = {"emulated"};
    if (OpenCudaMachine().ok()) found.push_back("cuda");
    return found;
  }();
  return names;
}

inline std::unique_ptr<DeviceMachine> MakeMachine(const std::string& name) {
  if (name == "emulated") return std::make_unique<EmulatedMachine>();
  auto machine = OpenCudaMachine();
  EXPECT_TRUE(machine.ok()) << machine.status();
  return std::move(*machine);
}

inline DeviceOptions SmallOptions(DeviceStorage storage) {
  DeviceOptions options;
  options.storage = storage;
  options.rows_min = 1;
  options.copy_at_once = true;
  options.memory_bytes_max = 256 << 20;
  return options;
}

// Rows of one space, as a segment has them.
struct HostRows {
  Space space;
  std::vector<float> numbers;
  std::vector<RowFactors> factors;
  RowBlock block;

  int64_t count() const { return static_cast<int64_t>(factors.size()); }
  std::span<const float> row(int64_t i) const {
    const size_t d = static_cast<size_t>(space.dimension);
    return {numbers.data() + static_cast<size_t>(i) * d, d};
  }
  void Add(const std::vector<float>& z) {
    numbers.insert(numbers.end(), z.begin(), z.end());
    factors.push_back(FactorsOf(space, z));
    block = {numbers.data(), static_cast<size_t>(space.dimension), factors.data(), nullptr, nullptr};
  }
  absl::StatusOr<std::shared_ptr<const DeviceRows>> CopyTo(const ScanDevice& device) const {
    return DeviceRows::Make(device.budget(), {&space, &block, nullptr, count()}, device.options().storage,
                            [] { return false; });
  }
};

// `answer` has all of the k nearest allowed rows, each row at most once, and no score is farther from the exact one
// than it says.
inline void ExpectSuperset(const HostRows& rows, const BoundQuery& query, int64_t k,
                           const std::function<bool(int64_t)>& allowed, const DeviceAnswer& answer,
                           const std::string& what) {
  ASSERT_TRUE(answer.complete) << what;
  std::vector<int> found(static_cast<size_t>(rows.count()), 0);
  for (const FoundRow& row : answer.rows) {
    ASSERT_TRUE(allowed(row.row)) << what << ": row " << row.row;
    ASSERT_EQ(++found[row.row], 1) << what << ": row " << row.row;
    const double exact = query.ScoreOfDistance(query.Distance(rows.row(row.row)));
    ASSERT_LE(std::abs(exact - row.score), double{row.error} + 1e-12 * std::abs(exact)) << what << ": row " << row.row;
  }
  std::vector<std::pair<double, int64_t>> exact;
  for (int64_t i = 0; i < rows.count(); ++i) {
    if (allowed(i)) exact.emplace_back(query.Distance(rows.row(i)), i);
  }
  std::sort(exact.begin(), exact.end());
  for (size_t i = 0; i < std::min(exact.size(), static_cast<size_t>(k)); ++i) {
    ASSERT_EQ(found[static_cast<size_t>(exact[i].second)], 1) << what << ": rank " << i << " of " << exact.size();
  }
}

inline constexpr double kNoFloor = -std::numeric_limits<double>::infinity();

}  // namespace lightcone::gpu
