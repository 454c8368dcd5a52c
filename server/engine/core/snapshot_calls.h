// The calls about snapshots, the way back of single collections, and the schedule that makes them by itself.
// Threads: as Snapshots; one thread of its own where there is a schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/engine/api/snapshots.h"
#include "server/engine/backfill/backfill_calls.h"
#include "server/engine/core/collection_restore.h"
#include "server/engine/core/maintenance.h"
#include "server/engine/services/context.h"
#include "server/engine/services/repeating_thread.h"
#include "snapshot/shelf.h"

namespace lightcone::server {

class SnapshotCalls final : public Snapshots {
 public:
  SnapshotCalls(Context& context, Maintenance& maintenance, BackfillCalls& backfills);

  absl::Status Start(const BackupOptions& options) override;
  absl::StatusOr<SnapshotStatus> Create(const CreateSnapshotCall& call, const CallContext& context) override;
  absl::StatusOr<RestoredCollection> RestoreCollection(const RestoreCollectionCall& call,
                                                       const CallContext& context) override;
  absl::StatusOr<std::vector<SnapshotStatus>> List() override;
  absl::Status Delete(const std::string& name) override;
  absl::StatusOr<SnapshotStatus> Verify(const std::string& name, const CallContext& context) override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Download(const std::string& name) override;
  absl::StatusOr<std::unique_ptr<SnapshotUpload>> Upload(const std::string& name) override;
  SnapshotFigures Figures() override;

 private:
  friend class UploadedSnapshot;
  // Reserves a name while it lives, so that two callers do not work on the same one.
  class NameHold;

  // Of the collections, by name or alias; of none: of the whole server.
  absl::StatusOr<SnapshotStatus> Make(SnapshotManifest manifest, const std::vector<std::string>& collections,
                                      const CallContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(making_mu_);
  // Waits for the snapshot that a call makes, and then makes one for the schedule.
  absl::StatusOr<SnapshotStatus> MakeScheduled();
  // The snapshot that the same request made before. nullopt: the request is new, or has no id. ALREADY_EXISTS where the
  // id belongs to a request with another content.
  absl::StatusOr<std::optional<SnapshotStatus>> FindEarlier(const SnapshotManifest& asking) const;
  absl::Status Fill(SnapshotManifest manifest, std::set<uint32_t> chosen, const CallContext& context);
  // RestoreCollection for the one caller that restores.
  absl::StatusOr<RestoredCollection> RestoreAlone(CollectionRestore& restore, const RestoreCollectionCall& call,
                                                  const CallContext& context);
  absl::StatusOr<SnapshotStatus> StatusOf(const std::string& name);
  // Notes that all bytes of a snapshot were found to be good just now.
  absl::Status Mark(const std::string& name);
  // What the schedule does now, and how long it then pauses.
  absl::Duration RunSchedule();
  // Deletes the oldest snapshots of the schedule that are too many, but the newest verified one and those in use.
  // `newest`: the name of the one that was made last, whatever the clock says.
  absl::Status DropOld(const std::string& newest);
  void Refresh();
  void CountFailure(const absl::Status& why, std::string_view step);
  std::string FreeName(std::string_view prefix) const;

  Context& context_;
  Maintenance& maintenance_;
  BackfillCalls& backfills_;
  BackupOptions options_;  // set by Start
  SnapshotShelf shelf_;    // set by Start

  absl::Mutex making_mu_;     // one snapshot is made at a time; only the schedule waits for it
  absl::Mutex marking_mu_;    // one is marked as verified at a time
  absl::Mutex restoring_mu_;  // one collection is restored at a time; nobody waits for it
  absl::Mutex mu_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mu_);
  SnapshotFigures figures_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<RepeatingThread> schedule_;  // ends first
};

}  // namespace lightcone::server
