// The families of a rollout's backfill, and of the disk that it fills.
#include <filesystem>

#include "server/metrics/families.h"

namespace lightcone::server {

void AddBackfill(const std::string& collection, const BackfillStatus& status, FamilyList* out) {
  if (status.state == BackfillState::kNone) return;
  static constexpr std::pair<BackfillState, const char*> kStates[] = {
      {BackfillState::kOrdering, "ordering"}, {BackfillState::kRunning, "running"}, {BackfillState::kPaused, "paused"},
      {BackfillState::kStopped, "stopped"},   {BackfillState::kDone, "done"},       {BackfillState::kFailed, "failed"}};
  const FamilyList::Labels labels = {{"collection", collection}};
  for (const auto& [state, name] : kStates) {
    out->Gauge("lightcone_backfill_state", "1 for the state that the backfill is in.", status.state == state,
               {{"collection", collection}, {"state", name}});
  }
  out->Gauge("lightcone_backfill_items_done", "Items embedded by the backfill's generation or a newer one.",
             static_cast<double>(status.items_done), labels);
  out->Gauge("lightcone_backfill_items_left", "Items that wait to be embedded anew.",
             static_cast<double>(status.items_left), labels);
  out->Gauge("lightcone_backfill_items_leased", "Items that a worker holds now.",
             static_cast<double>(status.items_leased), labels);
  if (!status.started) return;
  out->Gauge("lightcone_backfill_start_time_seconds", "When the backfill was started, in seconds since 1970.",
             absl::ToDoubleSeconds(*status.started - absl::UnixEpoch()), labels);
}

void AddDisk(const std::string& data_folder, FamilyList* out) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(data_folder, error);
  if (error) return;
  out->Gauge("lightcone_disk_free_bytes", "Bytes free for the server where its data folder lies.",
             static_cast<double>(space.available));
  out->Gauge("lightcone_disk_size_bytes", "Size of the file system where the data folder lies.",
             static_cast<double>(space.capacity));
}

}  // namespace lightcone::server
