// Repair of a data folder, as the work of a whole process. Threads: one at a time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/collection/repair.h"

namespace lightcone::server {

// RepairDataFolder, with a new folder that belongs to its owner alone. Changes the umask of the process.
absl::StatusOr<RepairReport> RunRepair(const std::string& from, const std::string& to);

}  // namespace lightcone::server
