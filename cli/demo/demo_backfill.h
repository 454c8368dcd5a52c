// The end of the demo's story: the gallery embedded anew while it serves, and how long a switch of generations takes.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/demo/demo_result.h"
#include "cli/served/demo_gallery.h"
#include "client/client.h"

namespace lightcone::cli {

// Embeds `items` anew by these vectors and their generation, in their order. `measure` gives a point's figures at 0,
// 10, 25, 50, 75 and 100 % of them (rounded to whole items). Errors of `measure` and EmbedLeased.
absl::StatusOr<std::vector<BackfillPoint>> EmbedByShares(client::Client& client, const GalleryRows& vectors,
                                                         std::span<const v1::LeasedItem> items,
                                                         const std::function<absl::StatusOr<BackfillPoint>()>& measure);

// EmbedByShares with images, whose vectors are the queries, too. Errors of MeasureThroughSearch and EmbedLeased.
absl::StatusOr<std::vector<BackfillPoint>> MeasureBackfill(client::Client& client, const GalleryQueries& queries,
                                                           std::span<const v1::LeasedItem> items,
                                                           std::span<const int32_t> labels);

struct SwitchTimes {
  double activation_ms = 0, rollback_ms = 0;  // medians
  int64_t searches = 0;                       // searches that were answered meanwhile
};
// What is switched, and how.
struct SwitchCase {
  uint32_t older = 0;             // generation that each rollback leads to
  bool searches_name_it = false;  // Searches name the generation of the queries; else they take the active one.
  std::string force_reason = "";  // reason of a forced activation; empty: the activation is not forced
};
// Rolls back to the older generation and activates the one of `queries` by turns, 20 times each, while another
// connection to the server at `address` searches without a pause. Ends with the newer one active. The first search that
// fails is the result.
absl::StatusOr<SwitchTimes> MeasureSwitches(client::Client& client, const std::string& address,
                                            const GalleryQueries& queries, const SwitchCase& how);

}  // namespace lightcone::cli
