#include "index/build/build_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace lightcone {
namespace {

int64_t LiveRows(const BuildInput& input) { return input.rows - input.deleted; }

double DeletedShare(const BuildInput& input) {
  return static_cast<double>(input.deleted) / static_cast<double>(std::max<int64_t>(1, input.rows));
}

// The longest prefix of `indices` that fits, but at least one.
std::vector<size_t> Fitting(const std::vector<BuildInput>& inputs, const std::vector<size_t>& indices,
                            int64_t rows_max) {
  std::vector<size_t> chosen;
  int64_t rows = 0;
  for (const size_t i : indices) {
    rows += LiveRows(inputs[i]);
    if (!chosen.empty() && rows > rows_max) break;
    chosen.push_back(i);
  }
  return chosen;
}

int SizeClass(int64_t rows, int64_t unit) {
  int size_class = 0;
  for (int64_t limit = unit * kMergeWidth; rows >= limit && size_class < 40; limit *= kMergeWidth) ++size_class;
  return size_class;
}

}  // namespace

size_t PlanSeal(const std::vector<BuildInput>& growing, const IndexSettings& settings, int64_t rows_max) {
  std::vector<size_t> all(growing.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return Fitting(growing, all, std::min(settings.merge_rows_max, rows_max)).size();
}

std::vector<size_t> PlanRewrite(RewriteKind kind, const std::vector<BuildInput>& sealed,
                                const IndexSettings& settings) {
  const auto those = [&sealed](auto wanted) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < sealed.size(); ++i) {
      if (wanted(sealed[i])) chosen.push_back(i);
    }
    return chosen;
  };
  if (kind == RewriteKind::kRebuild) {
    return Fitting(sealed, those([](const BuildInput& input) { return input.stale; }), settings.merge_rows_max);
  }
  if (kind == RewriteKind::kFinish) {
    return Fitting(sealed, those([](const BuildInput& input) { return input.provisional; }),
                   settings.merge_rows_max / kMergeWidth);
  }
  if (kind == RewriteKind::kCompact) {
    const auto dead = [&](const BuildInput& input) { return DeletedShare(input) > settings.tombstones_share_max; };
    return Fitting(sealed, those(dead), settings.growing_rows_max);
  }
  std::map<int, std::vector<size_t>> classes;
  for (size_t i = 0; i < sealed.size(); ++i) {
    classes[SizeClass(LiveRows(sealed[i]), settings.growing_rows_max)].push_back(i);
  }
  for (auto& [size_class, members] : classes) {
    if (members.size() < kMergeWidth) continue;
    std::stable_sort(members.begin(), members.end(),
                     [&](size_t x, size_t y) { return LiveRows(sealed[x]) < LiveRows(sealed[y]); });
    std::vector<size_t> chosen = Fitting(sealed, members, settings.merge_rows_max);
    if (chosen.size() < kMergeWidth) continue;
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }
  return {};
}

}  // namespace lightcone
