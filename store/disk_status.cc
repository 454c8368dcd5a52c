#include "store/disk_status.h"

#include <string>

#include "base/status.h"

namespace lightcone {

bool IsFullDisk(const rocksdb::Status& status) {
  // RocksDB knows ENOSPC as a sub-code; an exhausted quota or file-size limit comes as text only.
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit) return true;
  const std::string text = status.ToString();
  return status.IsIOError() &&
         (text.find("Disk quota exceeded") != std::string::npos || text.find("File too large") != std::string::npos);
}

bool RepeatsError(const rocksdb::Status& status) {
  return status.IsIOError() && status.ToString().find("Seen error") != std::string::npos;
}

absl::Status ToStatus(const rocksdb::Status& status, std::string_view step) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = StrCat(step, ": ", status.ToString());
  if (IsFullDisk(status)) return ResourceExhausted(StrCat(text, "; the disk is full: free some space"));
  if (status.IsNotFound()) return NotFound(text);
  if (status.IsCorruption() || status.IsPathNotFound()) return DataLoss(text);  // a file of ours is gone
  if (status.IsIOError() || status.IsBusy() || status.IsTryAgain() || status.IsShutdownInProgress()) {
    return Unavailable(text);
  }
  return Internal(text);
}

}  // namespace lightcone
