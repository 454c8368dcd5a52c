#include "index/rows/measured_recall.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "index/api/settings.h"

namespace lightcone {
namespace {

constexpr int64_t kQueries = 128;

int Scaled(int breadth, double factor) { return static_cast<int>(std::min(std::ceil(breadth * factor), 1e9)); }

// The least breadth that reaches the target, times `factor`; 0: none does.
int LeastFor(std::span<const RecallAt> measured, double target, double factor) {
  for (const RecallAt& point : measured) {
    if (point.recall >= target) return Scaled(point.breadth, factor);
  }
  return 0;
}

double GrowthOf(int64_t k) {
  LC_DCHECK(k >= 1);
  return static_cast<double>(std::max(k, kCalibrationK)) / kCalibrationK;
}

}  // namespace

std::vector<int64_t> CalibrationRows(int64_t rows) {
  const int64_t n = std::min(kQueries, rows);
  std::vector<int64_t> asked;
  for (int64_t i = 0; i < n; ++i) asked.push_back(i * rows / n);
  return asked;
}

int BreadthFor(std::span<const RecallAt> measured, double target, int64_t k) {
  return LeastFor(measured, target, GrowthOf(k));
}

int ProbesFor(std::span<const RecallAt> measured, double target, int64_t k) {
  return LeastFor(measured, target, std::sqrt(GrowthOf(k)));
}

int DefaultBreadth(std::span<const RecallAt> measured, int ef_default, int64_t k) {
  if (measured.empty()) return ef_default;
  int needed = BreadthFor(measured, kTrustedRecall, kCalibrationK);
  if (needed == 0) needed = BreadthFor(measured, kDefaultRecall, kCalibrationK);
  if (needed == 0) return 0;
  const int64_t more = std::clamp<int64_t>(k - kCalibrationK, 0, 1'000'000'000);
  return static_cast<int>(std::max<int64_t>(needed + more, ef_default));
}

int DefaultProbes(std::span<const RecallAt> measured, int64_t k) {
  const int trusted = ProbesFor(measured, kTrustedRecall, k);
  return trusted > 0 ? trusted : ProbesFor(measured, kDefaultRecall, k);
}

bool ListsFindEnough(std::span<const RecallAt> measured) {
  return measured.empty() || ProbesFor(measured, kTrustedRecall, kCalibrationK) > 0;
}

bool WalksFindEnough(std::span<const RecallAt> measured, int ef_default) {
  constexpr int kDefaultsMax = 2;
  if (measured.empty()) return true;
  const int needed = BreadthFor(measured, kTrustedRecall, kCalibrationK);
  return needed > 0 && needed <= kDefaultsMax * FairBreadth(ef_default);
}

int FairBreadth(int ef_default) { return std::max(ef_default, IndexSettings().hnsw_ef_search); }

double RecallAtBreadth(std::span<const RecallAt> measured, int breadth) {
  double recall = 0;
  for (const RecallAt& point : measured) {
    if (point.breadth <= breadth) recall = point.recall;
  }
  return recall;
}

int ProvisionalProbes(std::span<const RecallAt> measured, int64_t k) {
  const int probes = ProbesFor(measured, kProvisionalRecall, k);
  return probes > 0 || measured.empty() ? probes : Scaled(measured.back().breadth, std::sqrt(GrowthOf(k)));
}

}  // namespace lightcone
