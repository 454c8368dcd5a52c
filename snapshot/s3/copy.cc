#include "snapshot/s3/copy.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "base/status.h"
#include "snapshot/folder_sink.h"
#include "snapshot/identity.h"
#include "snapshot/read.h"
#include "snapshot/restore.h"
#include "snapshot/s3/lease.h"

namespace lightcone {
namespace {

constexpr uint64_t kPartsMax = 10'000;  // S3's limit for one object

// Sends the files that the bucket lacks. A file's last bytes leave in Close, which comes after the comparison of its
// checksum.
class UploadSink final : public SnapshotSink {
 public:
  UploadSink(const S3Shelf& shelf, S3Objects there, S3Lease& lease, const S3CopyOptions& options, SnapshotCopy* copy)
      : shelf_(shelf), there_(std::move(there)), lease_(lease), options_(options), copy_(copy) {}
  ~UploadSink() override {
    if (!upload_.id.empty()) (void)shelf_.client().AbortPartsOnce(upload_);
  }

  absl::Status Open(const SnapshotFile& file, bool* skip) override {
    LC_RETURN_IF_ERROR(lease_.Keep());
    file_ = &file;
    key_ = shelf_.FileKey(copy_->manifest.name, file);
    part_bytes_ = std::max(options_.part_bytes, file.bytes / kPartsMax + 1);
    const auto same = there_.find(key_);
    *skip = TellsContent(file) && same != there_.end() && same->second.bytes == file.bytes;
    ++(*skip ? copy_->shared_files : copy_->copied_files);
    (*skip ? copy_->shared_bytes : copy_->copied_bytes) += file.bytes;
    if (*skip) {
      Show(file.bytes);
    } else {
      part_.reserve(std::min(part_bytes_, file.bytes));
    }
    return absl::OkStatus();
  }

  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      if (part_.size() == part_bytes_) LC_RETURN_IF_ERROR(SendPart());
      const size_t taken = std::min<uint64_t>(bytes.size(), part_bytes_ - part_.size());
      part_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (upload_.id.empty()) {
      LC_RETURN_IF_ERROR(shelf_.client().Put(key_, part_));
      Show(part_.size());
    } else {
      LC_RETURN_IF_ERROR(SendPart());
      LC_RETURN_IF_ERROR(shelf_.client().CompleteParts(upload_, tags_, file_->bytes));
      upload_ = {};
      tags_.clear();
    }
    part_.clear();
    return absl::OkStatus();
  }

 private:
  absl::Status SendPart() {
    LC_RETURN_IF_ERROR(lease_.Keep());
    if (upload_.id.empty()) {
      LC_ASSIGN_OR_RETURN(std::string id, shelf_.client().BeginParts(key_));
      upload_ = {key_, std::move(id)};
    }
    LC_ASSIGN_OR_RETURN(std::string tag, shelf_.client().PutPart(upload_, tags_.size() + 1, part_));
    tags_.push_back(std::move(tag));
    Show(part_.size());
    part_.clear();
    return absl::OkStatus();
  }

  void Show(uint64_t bytes) {
    done_ += bytes;
    if (options_.seen) options_.seen(done_);
  }

  const S3Shelf& shelf_;
  const S3Objects there_;
  S3Lease& lease_;
  const S3CopyOptions& options_;
  SnapshotCopy* const copy_;
  const SnapshotFile* file_ = nullptr;
  std::string key_;          // key of the file under way
  uint64_t part_bytes_ = 0;  // size of its parts
  std::string part_;
  S3Upload upload_;  // no id: no part was sent
  std::vector<std::string> tags_;
  uint64_t done_ = 0;
};

// What a manifest names must be there, and no prune may have begun meanwhile.
absl::Status CheckCopied(const S3Shelf& shelf, const SnapshotManifest& manifest, const S3Lease& lease) {
  LC_ASSIGN_OR_RETURN(const S3Objects there, shelf.ListFiles());
  LC_RETURN_IF_ERROR(shelf.CheckFiles(manifest, there));
  return lease.CheckAge();
}

absl::Status PutManifest(const S3Shelf& shelf, const SnapshotManifest& manifest, const S3Lease& lease) {
  S3Client& client = shelf.client();
  const std::string key = shelf.ManifestKey(manifest.name);
  absl::Status status = client.Put(key, EncodeSnapshotManifest(manifest));
  const bool refused = !status.ok() && !absl::IsUnavailable(status) && !absl::IsCancelled(status);
  if (status.ok()) status = CheckCopied(shelf, manifest, lease);
  // After a lost answer, nobody knows whether the object is there.
  if (status.ok() || refused || client.Delete(key).ok() || client.DeleteOnce(key)) return status;
  return Annotate(status, StrCat("object '", key, "' may be there and could not be deleted: delete it"));
}

absl::Status CopyFiles(const std::string& from, const S3Shelf& shelf, const S3CopyOptions& options,
                       SnapshotCopy* copy) {
  const SnapshotManifest& manifest = copy->manifest;
  LC_RETURN_IF_ERROR(shelf.Has(manifest).status());  // Nothing was sent yet.
  LC_ASSIGN_OR_RETURN(const auto lease, S3Lease::Take(shelf.client(), shelf.LeasesPrefix(), S3Lease::Work::kCopy));
  LC_ASSIGN_OR_RETURN(S3Objects there, shelf.ListFiles());
  {
    UploadSink sink(shelf, std::move(there), *lease, options, copy);
    LC_RETURN_IF_ERROR(ReadSnapshot(from, manifest, sink, shelf.client().options().cancelled));
  }
  LC_RETURN_IF_ERROR(lease->Keep());
  // A manifest that is there keeps its time, by which a prune knows the newest.
  LC_ASSIGN_OR_RETURN(const bool whole, shelf.Has(manifest));
  LC_RETURN_IF_ERROR(whole ? CheckCopied(shelf, manifest, *lease) : PutManifest(shelf, manifest, *lease));
  (void)lease->Release();  // The snapshot is whole; what is left of the lease is dead in an hour.
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SnapshotCopy> CopySnapshotToS3(const std::string& from, const S3Shelf& shelf,
                                              const S3CopyOptions& options) {
  LC_DCHECK(options.part_bytes > 0);
  SnapshotCopy copy;
  LC_ASSIGN_OR_RETURN(copy.manifest, ReadSnapshotManifest(from));
  const absl::Status copied = CopyFiles(from, shelf, options, &copy);
  if (!copied.ok()) return Annotate(copied, StrCat("copy snapshot '", copy.manifest.name, "' to ", shelf.Text()));
  return copy;
}

absl::StatusOr<SnapshotManifest> RestoreSnapshotFromS3(const S3Shelf& shelf, const std::string& name,
                                                       const std::string& data_folder,
                                                       const std::function<void(uint64_t)>& seen) {
  const auto check = [&]() -> absl::StatusOr<SnapshotManifest> {
    LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, shelf.ReadManifest(name));
    LC_ASSIGN_OR_RETURN(const S3Objects there, shelf.ListFiles());
    LC_RETURN_IF_ERROR(shelf.CheckFiles(manifest, there));
    return manifest;
  };
  const auto unpack = [&](const SnapshotManifest& manifest, const std::string& folder) {
    FolderSink sink(folder);
    return ReadSnapshotFiles(shelf.Files(name, seen), manifest, sink, shelf.client().options().cancelled);
  };
  return RestoreFrom({.check = check, .unpack = unpack}, data_folder);
}

}  // namespace lightcone
