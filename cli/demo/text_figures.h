// Figures of searches by texts: what labels say is right, and what the new model itself would find.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/served/demo_gallery.h"
#include "client/client.h"

namespace lightcone::cli {

struct TextTruth {
  std::span<const int32_t> gallery_labels, query_labels;
  std::vector<int64_t> label_items;               // number of gallery items, by label
  std::vector<std::vector<int64_t>> own_nearest;  // by query: the new model's nearest ten of a full re-embedding
  int64_t deep_queries = 0;                       // first queries of a measurement, whose rankings mAP takes
  int64_t depth = 0;                              // length of these rankings
};

// Asks what.queries and computes the figures of a row: means over the queries with a relevant item, recall@10 over all.
// mAP takes the first `depth` of each ranking: items behind count as not found. Query and gallery of the row stay
// empty. Errors of the server.
absl::StatusOr<DemoRow> MeasureTexts(client::Client& client, const GalleryQueries& what, const TextTruth& truth);

}  // namespace lightcone::cli
