// The end of the demo's story: the gallery embedded anew while it serves, and how long a switch of generations takes.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/demo/demo_result.h"
#include "cli/served/demo_gallery.h"
#include "client/client.h"

namespace lightcone::cli {

// Embeds `items` anew by the vectors and the generation of `queries`, in their order, and measures the queries at
// 0, 10, 25, 50, 75 and 100 % of them (rounded to whole items). Errors of MeasureThroughSearch and EmbedLeased.
absl::StatusOr<std::vector<BackfillPoint>> MeasureBackfill(client::Client& client, const GalleryQueries& queries,
                                                           std::span<const v1::LeasedItem> items,
                                                           std::span<const int32_t> labels);

struct SwitchTimes {
  double activation_ms = 0, rollback_ms = 0;  // medians
  int64_t searches = 0;                       // searches that were answered meanwhile
};
// Activates `older` and the generation of `queries` by turns, 20 times each, while another connection to the server at
// `address` searches without a pause. Ends with the newer one active. The first search that fails is the result.
absl::StatusOr<SwitchTimes> MeasureSwitches(client::Client& client, const std::string& address,
                                            const GalleryQueries& queries, uint32_t older);

}  // namespace lightcone::cli
