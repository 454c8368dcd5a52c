#include "index/gpu/device_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "index/gpu/scan_device.h"

namespace lightcone::gpu {
namespace {

constexpr int kNearest = 10;
constexpr double kExactError = 1e-12;  // relative error of the exact distances here

enum class Numbers {
  kAny,       // numbers around the origin: sums stay small
  kSameSign,  // sums grow step by step, and so do their roundings
  kMixed      // magnitudes apart by powers of ten, in rows and queries: small terms are cut beside large ones
};

struct Trial {
  Metric metric = Metric::kLorentz;
  Numbers numbers = Numbers::kAny;
  int dimension = 0, rows = 0, segments = 1;
  std::vector<int> together;  // numbers of queries at once
  std::vector<int> nearest;   // k: all rows, or few
};

// Rows of one space, on the host and on the device.
struct TestRows {
  std::vector<float> numbers;
  std::vector<RowFactors> factors;
  std::shared_ptr<const DeviceRows> rows;
  std::shared_ptr<const DeviceBits> odd;  // allows every second row

  std::span<const float> row(int i) const {
    const size_t d = static_cast<size_t>(rows->dimension());
    return {numbers.data() + static_cast<size_t>(i) * d, d};
  }
};

std::vector<float> Vector(const Trial& trial, float centre, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-3, 1);
  std::vector<float> z(static_cast<size_t>(trial.dimension));
  for (float& x : z) {
    x = 0.2f * normal(random) + centre;
    if (trial.numbers == Numbers::kSameSign) x = std::abs(x);
    if (trial.numbers == Numbers::kMixed) x *= std::pow(10.0f, exponent(random));
  }
  return z;
}

absl::StatusOr<TestRows> MakeRows(ScanDevice& device, const Trial& trial, const Space& space, std::mt19937& random) {
  TestRows test;
  for (int i = 0; i < trial.rows; ++i) {
    const std::vector<float> z = Vector(trial, 0.05f, random);
    test.factors.push_back(FactorsOf(space, z));
    test.numbers.insert(test.numbers.end(), z.begin(), z.end());
  }
  const RowBlock block{test.numbers.data(), static_cast<size_t>(trial.dimension), test.factors.data(), nullptr,
                       nullptr};
  const DeviceRows::Source source{&space, &block, nullptr, trial.rows};
  LC_ASSIGN_OR_RETURN(test.rows,
                      DeviceRows::Make(device.budget(), source, device.options().storage, [] { return false; }));
  auto counts = std::make_shared<StateCounts>();
  LC_ASSIGN_OR_RETURN(test.odd, test.rows->BitsOf(counts, 1, [](uint32_t row) { return row % 2 == 1; }));
  return test;
}

// Every score is within its error, and every row is there at most once; `all`: each that is allowed is there.
absl::Status CheckScores(const Trial& trial, std::span<const TestRows> parts, const BoundQuery& query, bool odd,
                         bool all, const DeviceAnswer& answer) {
  std::vector<int> seen(parts.size() * static_cast<size_t>(trial.rows), 0);
  for (const FoundRow& found : answer.rows) {
    const double exact = query.ScoreOfDistance(query.Distance(parts[found.part].row(static_cast<int>(found.row))));
    if (!(std::abs(exact - found.score) <= double{found.error} + kExactError * std::abs(exact))) {
      return Internal(StrCat("a ", MetricName(trial.metric), " score is ", found.score, " with an error of at most ",
                             found.error, "; exact: ", exact));
    }
    ++seen[found.part * static_cast<size_t>(trial.rows) + found.row];
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    const size_t row = i % static_cast<size_t>(trial.rows);
    const int most = odd && row % 2 == 0 ? 0 : 1;
    if (seen[i] > most || (all && seen[i] < most)) {
      return Internal(StrCat("row ", row, " was found ", seen[i], " times; expected: ", most));
    }
  }
  return absl::OkStatus();
}

// The nearest have to be there.
absl::Status CheckNearest(const Trial& trial, std::span<const TestRows> parts, const BoundQuery& query, bool odd,
                          const DeviceAnswer& answer) {
  std::vector<std::tuple<double, uint32_t, uint32_t>> exact;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    for (int row = odd ? 1 : 0; row < trial.rows; row += odd ? 2 : 1) {
      exact.emplace_back(query.Distance(parts[part].row(row)), part, static_cast<uint32_t>(row));
    }
  }
  std::partial_sort(exact.begin(), exact.begin() + kNearest, exact.end());
  for (int i = 0; i < kNearest; ++i) {
    const uint32_t part = std::get<1>(exact[static_cast<size_t>(i)]), row = std::get<2>(exact[static_cast<size_t>(i)]);
    const auto is_row = [part, row](const FoundRow& found) { return found.part == part && found.row == row; };
    if (std::none_of(answer.rows.begin(), answer.rows.end(), is_row)) {
      return Internal(
          StrCat("row ", row, ", the ", i + 1, ". nearest (", MetricName(trial.metric), "), was not found"));
    }
  }
  return absl::OkStatus();
}

absl::Status TestTogether(ScanDevice& device, const Trial& trial, const Space& space, std::span<const TestRows> parts,
                          int together, std::mt19937& random) {
  std::vector<BoundQuery> bound;
  for (int q = 0; q < together; ++q) {
    LC_ASSIGN_OR_RETURN(BoundQuery one, BoundQuery::Make(space, space, Vector(trial, 0, random)));
    bound.push_back(std::move(one));
  }
  for (const int k : trial.nearest) {
    std::vector<DeviceQuery> queries;
    for (int q = 0; q < together; ++q) {
      queries.push_back({&bound[static_cast<size_t>(q)], k, -std::numeric_limits<double>::infinity(), {}});
      for (const TestRows& part : parts) queries.back().parts.push_back({part.rows, q % 2 == 1 ? part.odd : nullptr});
    }
    const std::vector<DeviceAnswer> answers = device.Scan(queries);
    for (size_t q = 0; q < answers.size(); ++q) {
      const bool odd = q % 2 == 1, all = k == trial.rows * trial.segments;
      if (!answers[q].complete) return Internal(StrCat("a scan of ", together, " queries gave no answer"));
      LC_RETURN_IF_ERROR(CheckScores(trial, parts, bound[q], odd, all, answers[q]));
      LC_RETURN_IF_ERROR(CheckNearest(trial, parts, bound[q], odd, answers[q]));
    }
  }
  return absl::OkStatus();
}

absl::Status Try(ScanDevice& device, const Trial& trial, std::mt19937& random) {
  Space space{trial.metric, trial.dimension, 1.0, 1.2};
  if (trial.metric != Metric::kLorentz) space.clip_radius = 1;
  std::vector<TestRows> parts;
  for (int i = 0; i < trial.segments; ++i) {
    LC_ASSIGN_OR_RETURN(TestRows part, MakeRows(device, trial, space, random));
    parts.push_back(std::move(part));
  }
  for (const int together : trial.together) {
    LC_RETURN_IF_ERROR(TestTogether(device, trial, space, parts, together, random));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TestDevice(ScanDevice& device) {
  std::vector<Trial> trials;
  // Several tiles, and a part of one; whole vectors of 16 bytes, and a part of one; each kernel, and more than a tile
  // of queries.
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    trials.push_back({metric, Numbers::kAny, 70, 700, 1, {1, 3, 70}, {700, kNearest}});
  }
  // Long sums, where the error of a kernel's own order would show.
  for (const Metric metric : {Metric::kInnerProduct, Metric::kEuclidean}) {
    for (const Numbers numbers : {Numbers::kSameSign, Numbers::kMixed}) {
      trials.push_back({metric, numbers, 1'041, 130, 1, {1, 5}, {130}});
    }
  }
  // More tiles than the first launch takes, so that a floor lets few rows through; it holds for both segments.
  trials.push_back({Metric::kLorentz, Numbers::kAny, 16, 2'200, 2, {1, 5}, {kNearest}});
  std::mt19937 random(17);
  for (const Trial& trial : trials) LC_RETURN_IF_ERROR(Try(device, trial, random));
  return absl::OkStatus();
}

}  // namespace lightcone::gpu
