// Fills the folder of a snapshot while writes go on.
//
// Each index is linked first and the store is copied last. The store of the snapshot therefore knows every row of the
// segments, and its change log, which is not trimmed meanwhile, has every later change. That is what a crash leaves as
// well: the start of a server brings the index up to the store.
// For a snapshot of chosen collections, the copied store is only read: a new store takes the rows of these collections.
// No file of the snapshot then has a byte of another collection.
// Threads: one at a time, beside everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/engine/core/maintenance.h"
#include "server/engine/services/context.h"
#include "snapshot/manifest.h"
#include "snapshot/shelf.h"

namespace lightcone::server {

class SnapshotMaker {
 public:
  // `chosen`: numbers of the collections that the snapshot is to hold; empty: everything.
  SnapshotMaker(const Context& context, Maintenance& maintenance, const SnapshotShelf& shelf, std::set<uint32_t> chosen)
      : context_(context), maintenance_(maintenance), shelf_(shelf), chosen_(std::move(chosen)) {}

  // Place of the temporary copy of the store, on the disk of the data folder: links cost no space there. A killed
  // process leaves it.
  static std::string WorkFolder(const DataFolders& folders) { return folders.data + "/snapshot-store"; }

  // Fills `data`, an empty folder, durably, and the manifest's sequence, collections and files. CANCELLED soon after
  // `cancelled` says so; ABORTED when the encoder of a new generation, or a chosen collection, went away meanwhile;
  // DATA_LOSS for a damaged row of a chosen collection; errors of the disk.
  absl::Status Fill(const std::string& data, SnapshotManifest* manifest, const std::function<bool()>& cancelled);

 private:
  // The copy of the store goes to `store`.
  absl::Status CopyAll(const std::string& data, const std::string& store);
  // Makes the snapshot's store of the chosen collections in the copy `whole`.
  absl::Status KeepChosen(const std::string& whole, const std::string& data, SnapshotManifest* manifest,
                          const std::function<bool()>& cancelled) const;
  // What is there so far of the snapshot's collections; what is missing is linked by a later call.
  absl::Status LinkEncoders(const std::string& data) const;
  // Links the regular files below one folder. OK where the folder is missing.
  absl::Status LinkEncodersIn(const std::string& from, const std::string& to) const;
  // Opens the copied store, counts what it holds, and removes folders of collections that it does not have.
  absl::Status Describe(const std::string& data, SnapshotManifest* manifest) const;
  absl::Status ListFiles(const std::string& data, SnapshotManifest* manifest,
                         const std::function<bool()>& cancelled) const;

  const Context& context_;
  Maintenance& maintenance_;
  const SnapshotShelf& shelf_;
  const std::set<uint32_t> chosen_;
};

}  // namespace lightcone::server
