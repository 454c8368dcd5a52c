#include "server/app/repair.h"

#include <sys/stat.h>

#include "server/app/serve.h"

namespace lightcone::server {

absl::StatusOr<RepairReport> RunRepair(const std::string& from, const std::string& to) {
  ::umask(kPrivateMask);
  return RepairDataFolder(from, to);
}

}  // namespace lightcone::server
