#include "server/app/repair.h"

#include <sys/stat.h>

#include "server/app/log.h"
#include "server/app/serve.h"

namespace lightcone::server {

absl::StatusOr<RepairReport> RunRepair(const std::string& from, const std::string& to) {
  ::umask(kPrivateMask);
  SetUpLog("warning", "text");  // The report goes to standard output.
  return RepairDataFolder(from, to);
}

}  // namespace lightcone::server
