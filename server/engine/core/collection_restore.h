// Brings one collection of a snapshot into the running server, under a number of its own.
//
// A marker of the number is written first, durably, and the collection's record last. Until then a start, or the call
// that fails, removes what is there of it, as after a drop: nothing of it is seen. The record and the marker's end are
// one batch. The collection is therefore there as a whole, or not at all.
// Threads: one at a time, beside everything else. Only the first and the last step hold the catalog's operator mutex,
// each for one write; no step holds the mutex of another collection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/api/snapshots.h"
#include "server/engine/backfill/backfill_calls.h"
#include "server/engine/collection/meta.h"
#include "server/engine/services/context.h"
#include "server/engine/services/operator_transaction.h"
#include "snapshot/manifest.h"
#include "store/store.h"

namespace lightcone::server {

class CollectionRestore {
 public:
  // `context` and `backfills` must outlive it. `given_up`: nobody waits for the answer any more.
  CollectionRestore(Context& context, BackfillCalls& backfills, const RestoreCollectionCall& call,
                    std::function<bool()> given_up);

  // What the same request did before; nullopt: the request is new. INVALID_ARGUMENT for a malformed name or id.
  // ALREADY_EXISTS where the id belongs to another call. NOT_FOUND when the collection was dropped since.
  absl::StatusOr<std::optional<RestoredCollection>> FindEarlier();
  // `snapshot`: its folder, which must stay meanwhile and is only read. Errors as Snapshots::RestoreCollection. Once.
  absl::StatusOr<RestoredCollection> Run(const std::string& snapshot);

 private:
  // A change of the catalog in which the name is free.
  absl::StatusOr<OperatorTransaction> Begin();
  OperatorRequest Request() const;
  // Reads every byte of the files whose paths begin with this.
  absl::Status Verify(std::string_view path_prefix) const;
  // Opens the snapshot's store, and finds number and record of the collection.
  absl::Status FindSource();
  // With `encoder.uploads = refuse`, FAILED_PRECONDITION for an encoder that a caller brought.
  absl::Status CheckEncoders() const;
  // RESOURCE_EXHAUSTED where the disk has too little room for all rows, and for the files that are not linked.
  absl::Status CheckRoom() const;
  // What changes the server. Throws nothing.
  absl::StatusOr<RestoredCollection> FillOrRemove();
  // Takes a number, and marks it as one of which nothing is to stay.
  absl::Status Reserve();
  absl::StatusOr<RestoredCollection> Fill();
  bool LinksFiles() const;
  absl::Status LinkFiles() const;
  // Adds the entries of the collection's audit log to the batch, under its number and name.
  absl::Status AddAudit(WriteBatch* batch) const;
  absl::StatusOr<RestoredCollection> Publish(const ServedPtr& served);
  void RemoveWhatIsThere();
  absl::Status CheckWanted() const;

  Context& context_;
  BackfillCalls& backfills_;
  const RestoreCollectionCall call_;
  const std::string name_;  // name of the collection here
  const std::function<bool()> given_up_;

  std::string snapshot_;  // folder of the snapshot
  SnapshotManifest manifest_;
  std::unique_ptr<Store> source_;  // store of the snapshot
  uint32_t source_number_ = 0;
  CollectionRecord record_;  // record of the collection as it is to be here
  uint32_t number_ = 0;      // number here; 0: none was taken
  bool visible_ = false;     // The record is in the store, and memory has followed.
};

}  // namespace lightcone::server
