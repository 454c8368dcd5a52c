#include "index/gpu/device_test.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/status.h"
#include "index/gpu/scan_device.h"

namespace lightcone::gpu {
namespace {

constexpr int kRows = 700;      // several tiles, and a part of one
constexpr int kDimension = 70;  // whole vectors of 16 bytes, and a part of one
constexpr int kNearest = 10;
constexpr int kTogether[] = {1, 3, 70};  // each kernel, and more than a tile of queries
constexpr double kExactError = 1e-12;    // of what is called exact here, relative

// Rows of one space, on the host and on the device.
struct TestRows {
  Space space;
  std::vector<float> numbers;
  std::vector<RowFactors> factors;
  std::shared_ptr<const DeviceRows> rows;
  std::shared_ptr<const DeviceBits> odd;  // allows every second row

  std::span<const float> row(int i) const {
    return {numbers.data() + static_cast<size_t>(i) * kDimension, static_cast<size_t>(kDimension)};
  }
};

absl::StatusOr<TestRows> MakeRows(ScanDevice& device, Metric metric, std::mt19937& random) {
  TestRows test;
  test.space = {metric, kDimension, 1.0, 1.2};
  if (metric != Metric::kLorentz) test.space.clip_radius = 1;
  std::normal_distribution<float> normal;
  for (int i = 0; i < kRows * kDimension; ++i) test.numbers.push_back(0.2f * normal(random) + 0.05f);
  for (int i = 0; i < kRows; ++i) test.factors.push_back(FactorsOf(test.space, test.row(i)));
  const RowBlock block{test.numbers.data(), kDimension, test.factors.data(), nullptr, nullptr};
  const DeviceRows::Source source{&test.space, &block, nullptr, kRows};
  LC_ASSIGN_OR_RETURN(test.rows,
                      DeviceRows::Make(device.budget(), source, device.options().storage, [] { return false; }));
  auto counts = std::make_shared<StateCounts>();
  LC_ASSIGN_OR_RETURN(test.odd, test.rows->BitsOf(counts, 1, [](uint32_t row) { return row % 2 == 1; }));
  return test;
}

// Every row that is allowed has to be there, and every score within its error.
absl::Status CheckAll(const TestRows& test, const BoundQuery& query, bool odd, const DeviceAnswer& answer) {
  std::vector<int> seen(kRows, 0);
  for (const FoundRow& found : answer.rows) {
    const double exact = query.ScoreOfDistance(query.Distance(test.row(static_cast<int>(found.row))));
    if (!(std::abs(exact - found.score) <= double{found.error} + kExactError * std::abs(exact))) {
      return Internal(StrCat("a ", MetricName(test.space.metric), " score is ", found.score, " with an error of at most ",
                             found.error, "; exact: ", exact));
    }
    ++seen[found.row];
  }
  for (int row = 0; row < kRows; ++row) {
    const int expected = odd && row % 2 == 0 ? 0 : 1;
    if (seen[static_cast<size_t>(row)] != expected) {
      return Internal(StrCat("row ", row, " was found ", seen[static_cast<size_t>(row)], " times; expected: ", expected));
    }
  }
  return absl::OkStatus();
}

// The nearest have to be there.
absl::Status CheckNearest(const TestRows& test, const BoundQuery& query, bool odd, const DeviceAnswer& answer) {
  std::vector<std::pair<double, uint32_t>> exact;
  for (int row = 0; row < kRows; ++row) {
    if (!odd || row % 2 == 1) exact.emplace_back(query.Distance(test.row(row)), static_cast<uint32_t>(row));
  }
  std::sort(exact.begin(), exact.end());
  for (int i = 0; i < kNearest; ++i) {
    const uint32_t row = exact[static_cast<size_t>(i)].second;
    const auto is_row = [row](const FoundRow& found) { return found.row == row; };
    if (std::none_of(answer.rows.begin(), answer.rows.end(), is_row)) {
      return Internal(StrCat("row ", row, ", the ", i + 1, ". nearest (", MetricName(test.space.metric),
                             "), was not found"));
    }
  }
  return absl::OkStatus();
}

absl::Status TestTogether(ScanDevice& device, const TestRows& test, int together, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<BoundQuery> bound;
  for (int q = 0; q < together; ++q) {
    std::vector<float> z(kDimension);
    for (float& x : z) x = 0.2f * normal(random);
    LC_ASSIGN_OR_RETURN(BoundQuery one, BoundQuery::Make(test.space, test.space, z));
    bound.push_back(std::move(one));
  }
  for (const int k : {kRows, kNearest}) {
    std::vector<DeviceQuery> queries;
    for (int q = 0; q < together; ++q) {
      queries.push_back({&bound[static_cast<size_t>(q)], k, -std::numeric_limits<double>::infinity(), {}});
      queries.back().parts.push_back({test.rows, q % 2 == 1 ? test.odd : nullptr});
    }
    const std::vector<DeviceAnswer> answers = device.Scan(queries);
    for (size_t q = 0; q < answers.size(); ++q) {
      const bool odd = q % 2 == 1;
      if (!answers[q].complete) return Internal(StrCat("a scan of ", together, " queries gave no answer"));
      LC_RETURN_IF_ERROR(k == kRows ? CheckAll(test, bound[q], odd, answers[q])
                                    : CheckNearest(test, bound[q], odd, answers[q]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TestDevice(ScanDevice& device) {
  std::mt19937 random(17);
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    LC_ASSIGN_OR_RETURN(const TestRows test, MakeRows(device, metric, random));
    for (const int together : kTogether) LC_RETURN_IF_ERROR(TestTogether(device, test, together, random));
  }
  return absl::OkStatus();
}

}  // namespace lightcone::gpu
