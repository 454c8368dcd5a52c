#include "snapshot/s3/prune.h"

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "snapshot/s3/lease.h"

namespace lightcone {
namespace {

struct Ranked {
  absl::Time modified;
  SnapshotManifest manifest;
};

// What the bucket held before the first deletion.
struct Held {
  std::vector<Ranked> snapshots;  // newest first
  S3Objects files;
};

// The order is that of the store's own times: a server's clock may be wrong, and no two need agree.
absl::StatusOr<std::vector<Ranked>> ReadSnapshots(const S3Shelf& shelf) {
  LC_ASSIGN_OR_RETURN(const std::vector<S3Listed> all, shelf.ListManifests());
  if (all.empty()) {
    return FailedPrecondition(StrCat("there is no snapshot in ", shelf.Text(),
                                     ": its files are not known to be left over; allowed: a place with a snapshot"));
  }
  std::vector<Ranked> out;
  for (const S3Listed& one : all) {
    absl::StatusOr<SnapshotManifest> manifest = shelf.ReadListed(one.name);
    absl::Status read = manifest.status();
    // Nobody else deletes manifests while the lease is held.
    if (absl::IsNotFound(read)) read = FailedPrecondition(StrCat("it was listed just now, but ", MessageOf(read)));
    LC_RETURN_IF_ERROR(Annotate(read, StrCat("read which files snapshot '", one.name, "' needs")));
    out.push_back({one.modified, *std::move(manifest)});
  }
  const auto rank = [](const Ranked& one) { return std::tie(one.modified, one.manifest.time_us, one.manifest.name); };
  std::sort(out.begin(), out.end(), [&](const Ranked& a, const Ranked& b) { return rank(a) > rank(b); });
  return out;
}

absl::StatusOr<Held> ReadHeld(const S3Shelf& shelf, size_t keep) {
  Held held;
  // The files first: a file is in the list before a manifest names it.
  LC_ASSIGN_OR_RETURN(held.files, shelf.ListFiles());
  LC_ASSIGN_OR_RETURN(held.snapshots, ReadSnapshots(shelf));
  for (size_t i = 0; i < std::min(keep, held.snapshots.size()); ++i) {
    LC_RETURN_IF_ERROR(shelf.CheckFiles(held.snapshots[i].manifest, held.files));
  }
  return held;
}

absl::Status DeleteOldSnapshots(const S3Shelf& shelf, const Held& held, size_t keep, S3Lease& lease, S3Pruned* out) {
  const std::vector<Ranked>& all = held.snapshots;
  const size_t kept = std::min(keep, all.size());
  for (size_t i = 0; i < kept; ++i) out->kept.push_back(all[i].manifest.name);
  for (size_t i = all.size(); i-- > kept;) {
    const std::string& name = all[i].manifest.name;
    LC_RETURN_IF_ERROR(lease.Keep());
    LC_RETURN_IF_ERROR(shelf.client().Delete(shelf.ManifestKey(name)));
    out->deleted.insert(out->deleted.begin(), name);
  }
  return absl::OkStatus();
}

absl::Status DeleteUnnamedFiles(const S3Shelf& shelf, const Held& held, absl::Duration age_min, S3Lease& lease,
                                S3Pruned* out) {
  std::set<std::string> named;
  for (size_t i = 0; i < out->kept.size(); ++i) {
    const SnapshotManifest& manifest = held.snapshots[i].manifest;
    for (const SnapshotFile& file : manifest.files) named.insert(shelf.FileKey(manifest.name, file));
  }
  LC_ASSIGN_OR_RETURN(const std::vector<S3Listed> now, shelf.ListManifests());
  for (const S3Listed& one : now) {
    if (std::find(out->kept.begin(), out->kept.end(), one.name) != out->kept.end()) continue;
    return Aborted(StrCat("snapshot '", one.name, "' appeared meanwhile; run the command again"));
  }
  for (const auto& [key, file] : held.files) {
    const bool ours = shelf.IsFileKey(key, file.bytes);
    if (!ours || named.contains(key) || file.modified + age_min > lease.taken()) continue;
    LC_RETURN_IF_ERROR(lease.Keep());
    LC_RETURN_IF_ERROR(shelf.client().Delete(key));
    ++out->deleted_files;
    out->deleted_bytes += file.bytes;
  }
  return absl::OkStatus();
}

// A store or a key that does not allow it leaves the uploads to rules of the bucket.
bool IsRefusal(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsPermissionDenied(status) || absl::IsFailedPrecondition(status) ||
         absl::IsNotFound(status);
}

// No copy runs, so that nobody ends these uploads.
absl::Status AbortUploads(const S3Shelf& shelf, S3Lease& lease, S3Pruned* out) {
  const absl::StatusOr<std::vector<S3Upload>> uploads = shelf.client().ListUploads(shelf.FilesPrefix());
  if (IsRefusal(uploads.status())) {
    out->uploads_left = MessageOf(uploads.status());
    return absl::OkStatus();
  }
  LC_RETURN_IF_ERROR(uploads.status());
  for (const S3Upload& one : *uploads) {
    if (!shelf.IsFileKey(one.key)) continue;
    LC_RETURN_IF_ERROR(lease.Keep());
    const absl::Status aborted = shelf.client().AbortParts(one);
    if (!IsRefusal(aborted)) {
      LC_RETURN_IF_ERROR(aborted);
    } else if (out->uploads_left.empty()) {
      out->uploads_left = MessageOf(aborted);
    }
  }
  return absl::OkStatus();
}

absl::Status Prune(const S3Shelf& shelf, const S3PruneOptions& options, S3Lease& lease, S3Pruned* out) {
  LC_ASSIGN_OR_RETURN(const Held held, ReadHeld(shelf, options.keep));
  LC_RETURN_IF_ERROR(DeleteOldSnapshots(shelf, held, options.keep, lease, out));
  LC_RETURN_IF_ERROR(DeleteUnnamedFiles(shelf, held, options.age_min, lease, out));
  return AbortUploads(shelf, lease, out);
}

}  // namespace

absl::StatusOr<S3Pruned> PruneS3(const S3Shelf& shelf, const S3PruneOptions& options) {
  LC_DCHECK(options.keep >= 1);
  S3Pruned out;
  LC_ASSIGN_OR_RETURN(const auto lease, S3Lease::Take(shelf.client(), shelf.LeasesPrefix(), S3Lease::Work::kPrune));
  const absl::Status pruned = Prune(shelf, options, *lease, &out);
  if (!pruned.ok()) {
    const std::string before =
        StrCat("; ", out.deleted.size(), " snapshots and ", out.deleted_files, " files were deleted before");
    return MakeStatus(pruned.code(), StrCat("prune ", shelf.Text(), ": ", MessageOf(pruned), before));
  }
  (void)lease->Release();  // All is done; what is left of the lease is dead in an hour.
  return out;
}

}  // namespace lightcone
