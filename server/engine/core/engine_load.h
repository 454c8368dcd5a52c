// The start of the engine: what a crash interrupted is ended, and the collections of the data folder are opened.
// Threads: the functions come before every other use of the context.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/backfill/backfill_calls.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// FAILED_PRECONDITION for a folder that is neither empty nor holds a store of ours.
absl::Status CheckDataFolder(const std::string& folder);

// Takes a data folder that others may enter from them, and says so in the log. A folder of another owner stays as it
// is.
void KeepToOwner(const std::string& folder);

// Numbers and encoded records of all collections of a store.
absl::StatusOr<std::vector<std::pair<uint32_t, std::string>>> FindCollections(const Store& store);

// Removes what is left of a collection that no record names: files, rows and last its marker. A call that failed can be
// repeated. A start repeats it while the marker is there.
absl::Status RemoveRemains(Context& context, uint32_t number);

// Opens a collection from its rows. `encoded` is its record, which need not be in the store yet. `given_up` as for
// Collection::Open.
absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(Context& context, uint32_t number,
                                                           const std::string& encoded,
                                                           const std::function<bool()>& given_up = {});

// Fills the catalog; the numbers of the collections that are refused.
absl::StatusOr<std::set<uint32_t>> LoadCollections(Context& context, BackfillCalls& backfills);

}  // namespace lightcone::server
