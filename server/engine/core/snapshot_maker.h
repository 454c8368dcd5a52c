// Fills the folder of a snapshot while writes go on.
//
// Each index is linked first and the store is copied last. The store of the snapshot therefore knows every row of the
// segments, and its change log, which is not trimmed meanwhile, has every later change. That is what a crash leaves as
// well: the start of a server brings the index up to the store.
// Threads: one at a time, beside everything else.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "server/engine/core/maintenance.h"
#include "server/engine/services/context.h"
#include "snapshot/manifest.h"
#include "snapshot/shelf.h"

namespace lightcone::server {

class SnapshotMaker {
 public:
  SnapshotMaker(const Context& context, Maintenance& maintenance, const SnapshotShelf& shelf)
      : context_(context), maintenance_(maintenance), shelf_(shelf) {}

  // Fills `data`, an empty folder, durably, and the manifest's sequence, collections and files. CANCELLED soon after
  // `cancelled` says so; ABORTED when the encoder of a new generation went away meanwhile; errors of the disk.
  absl::Status Fill(const std::string& data, SnapshotManifest* manifest, const std::function<bool()>& cancelled);

 private:
  absl::Status CopyAll(const std::string& data);
  // What is there so far; what is missing is linked by a later call.
  absl::Status LinkEncoders(const std::string& data) const;
  // Opens the copied store, counts what it holds, and removes folders of collections that it does not have.
  absl::Status Describe(const std::string& data, SnapshotManifest* manifest) const;
  absl::Status ListFiles(const std::string& data, SnapshotManifest* manifest,
                         const std::function<bool()>& cancelled) const;

  const Context& context_;
  Maintenance& maintenance_;
  const SnapshotShelf& shelf_;
};

}  // namespace lightcone::server
