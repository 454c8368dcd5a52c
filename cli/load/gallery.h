// The collection that `lightcone bench` asks, and how well it answers.
// Threads: one caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/load/generator.h"
#include "cli/load/vectors.h"
#include "client/client.h"

namespace lightcone::cli {

struct GalleryTimes {
  double fill_s = 0;  // upserts of all items over one stream
  double seal_s = 0;  // seconds until every row is in a sealed segment
};

// Creates the collection with one active generation of the vectors' dimension (lorentz: curvature 1, clip radius 1.2),
// writes the items under the ids 0 .. n-1 and has them sealed. ALREADY_EXISTS; errors of the server; CANCELLED.
absl::StatusOr<GalleryTimes> FillGallery(client::Client& client, const std::string& collection,
                                         const std::string& metric, const LoadVectors& vectors,
                                         const std::atomic<bool>* stop);

// What the first queries should find: for each the distance of its k-th nearest item (the calibrated one, where
// searches rank by that), or, from a file of a data set, the ids of its k nearest.
struct GroundTruth {
  std::vector<double> kth_distance;
  std::vector<int64_t> hits;               // number of hits of a query, k or fewer
  std::vector<std::vector<uint64_t>> ids;  // instead of the two above
  int64_t queries() const { return static_cast<int64_t>(ids.empty() ? hits.size() : ids.size()); }
};

// By the server's own exact search, which is exact to the last bit, for the first `queries` queries.
absl::StatusOr<GroundTruth> AskExactly(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors,
                                       int64_t queries);

// Of an ivecs file (ids of the nearest items, nearest first, a row a query), for at most `queries` of them.
// INVALID_ARGUMENT: fewer than k ids in a row, or fewer rows than one; errors of the file.
absl::StatusOr<GroundTruth> ReadTruth(const std::string& path, uint32_t k, int64_t queries);

// Asks the same queries as the plan says and gives the share of what should be found that is. An item as near as the
// k-th nearest counts, whichever of several it is.
absl::StatusOr<double> MeasureRecall(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors,
                                     const GroundTruth& truth);

}  // namespace lightcone::cli
