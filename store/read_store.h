// A store that is opened for reading alone. Its folder stays as it is, to the byte: checksums of its files hold on.
// Threads: as Store.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/store.h"

namespace lightcone {

// FAILED_PRECONDITION when the folder holds something else or another format; DATA_LOSS when the store is damaged. The
// calls that would change the store answer FAILED_PRECONDITION.
absl::StatusOr<std::unique_ptr<Store>> OpenStoreForReading(const std::string& folder);

}  // namespace lightcone
