// The ranking measures of a whole distance matrix: what tests compare block-wise evaluations with. Threads: pure
// functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "stats/metrics.h"

namespace lightcone {

inline absl::Status CheckRanking(std::size_t queries, std::size_t items, bool exclude_own, const std::vector<int>& ks) {
  if (exclude_own && queries != items) {
    return InvalidField("gallery_labels", StrCat(items, " labels"),
                        StrCat("exactly ", queries, ", one a query, when a query's own item is left out"));
  }
  for (int k : ks) {
    if (k < 1) return InvalidField("k", StrCat(k), "at least 1");
  }
  return absl::OkStatus();
}

inline absl::Status CheckNoNan(std::span<const double> row, std::size_t query) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) return InvalidField(StrCat("distances[", query, "][", i, "]"), "nan", "a number");
  }
  return absl::OkStatus();
}

// From a row-major matrix of query_labels.size() x gallery_labels.size() distances. With `exclude_own` queries and
// gallery are the same images, and item i is left out of query i's ranking. INVALID_ARGUMENT for a matrix of the wrong
// size, a NaN or k < 1.
inline absl::StatusOr<RankingMetrics> RankDistances(std::span<const double> distances,
                                                    std::span<const std::int64_t> query_labels,
                                                    std::span<const std::int64_t> gallery_labels, bool exclude_own,
                                                    std::vector<int> ks) {
  LC_RETURN_IF_ERROR(CheckRanking(query_labels.size(), gallery_labels.size(), exclude_own, ks));
  if (distances.size() != query_labels.size() * gallery_labels.size()) {
    return InvalidField("distances", StrCat(distances.size(), " numbers"),
                        StrCat("exactly ", query_labels.size(), " x ", gallery_labels.size()));
  }
  RankingAccumulator accumulator(std::move(ks));
  for (std::size_t q = 0; q < query_labels.size(); ++q) {
    const auto row = distances.subspan(q * gallery_labels.size(), gallery_labels.size());
    LC_RETURN_IF_ERROR(CheckNoNan(row, q));
    accumulator.Add(SummariseRanks(RelevantRanks(query_labels[q], row, gallery_labels,
                                                 exclude_own ? std::optional<std::size_t>(q) : std::nullopt)));
  }
  return accumulator.Finish();
}

}  // namespace lightcone
