// Checks the rows of one collection in a store that was saved from a damaged one, and removes items that are not whole:
// a row of yesterday must not come back because today's is lost. Threads: one at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/collection/repair.h"
#include "store/store.h"

namespace lightcone::server {

// Fills in what `report`, of the collection `report->number`, says about items. Writes the collection's progress anew.
// DATA_LOSS never: damaged rows are not in the store.
absl::Status CheckItems(Store& store, RepairReport::OfCollection* report);

}  // namespace lightcone::server
