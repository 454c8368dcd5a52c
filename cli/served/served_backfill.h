// A gallery's backfill as a worker does it: leases in the server's own order, embeddings by same_content.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace lightcone::cli {

// Starts the backfill by the active generation (`failure_head`: path of a file, or empty), waits for its order and
// leases every item, worst first. Errors of the file and of the server; ABORTED when ordering failed.
absl::StatusOr<std::vector<v1::LeasedItem>> LeaseEverything(client::Client& client, const std::string& collection,
                                                            const std::string& failure_head);

// Writes the items' embeddings by `generation`: item number i has row i of `z`. ABORTED when one of them is not as it
// was leased any more.
absl::Status EmbedLeased(client::Client& client, const std::string& collection, uint32_t generation,
                         std::span<const v1::LeasedItem> items, std::span<const float> z, int dimension);

}  // namespace lightcone::cli
