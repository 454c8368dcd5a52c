// The families of a rollout's training, canary and backfill, and of the disk that it fills.
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
             status.items_done, labels);
  out->Gauge("lightcone_backfill_items_left", "Items that wait to be embedded anew.", status.items_left, labels);
  out->Counter("lightcone_backfill_embedded_total", "Items embedded anew by the backfill since the server started.",
               status.embedded_total, labels);
  out->Gauge("lightcone_backfill_items_leased", "Items that a worker holds now.", status.items_leased, labels);
  if (!status.started) return;
  out->Gauge("lightcone_backfill_start_time_seconds", "When the backfill was started, in seconds since 1970.",
             absl::ToDoubleSeconds(*status.started - absl::UnixEpoch()), labels);
}

void AddTraining(const JobStatus& job, FamilyList* out) {
  if (job.state != JobState::kRunning) return;
  const FamilyList::Labels labels = {{"collection", job.collection}, {"job", job.id}};
  out->Gauge("lightcone_training_steps_done", "Steps that a training has taken.", job.done, labels);
  out->Gauge("lightcone_training_steps", "Steps of the whole training; 0: not known yet.", job.total, labels);
}

void AddCanary(const std::string& collection, const CanaryStatus& status, FamilyList* out) {
  if (status.generation == 0) return;
  out->Gauge("lightcone_canary_share", "Share of the searches with a key that the canary serves.", status.share,
             {{"collection", collection}});
  out->Counter("lightcone_canary_unroutable_total",
               "Searches of the canary's share whose queries the canary cannot answer.", status.unroutable,
               {{"collection", collection}});
  for (const auto& [name, side] : {std::pair("canary", &status.canary), std::pair("active", &status.active)}) {
    const FamilyList::Labels labels = {
        {"collection", collection}, {"side", name}, {"generation", std::to_string(side->generation)}};
    out->Counter("lightcone_canary_searches_total", "Searches with a key that this side of a canary served.",
                 side->searches, labels);
    out->Counter("lightcone_canary_failures_total", "Searches with a key that this side answered by an error.",
                 side->failures, labels);
    out->Gauge("lightcone_canary_p99_seconds",
               "99th percentile of the latest 4,096 searches of this side, in the engine.", side->p99_ms / 1e3, labels);
  }
}

void AddDisk(const std::string& data_folder, FamilyList* out) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(data_folder, error);
  if (error) return;
  out->Gauge("lightcone_disk_free_bytes", "Bytes free for the server where its data folder lies.", space.available);
  out->Gauge("lightcone_disk_size_bytes", "Size of the file system where the data folder lies.", space.capacity);
}

}  // namespace lightcone::server
