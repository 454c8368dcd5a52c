#include "snapshot/copy.h"

#include <vector>

#include "base/link.h"
#include "base/status.h"
#include "snapshot/folder_sink.h"
#include "snapshot/identity.h"
#include "snapshot/read.h"
#include "snapshot/shelf.h"

namespace lightcone {
namespace {

// Links a file that an earlier snapshot of the shelf has, and takes the bytes of the others.
class SharingSink final : public FolderSink {
 public:
  SharingSink(std::string folder, const SnapshotShelf& shelf, const std::vector<ShelvedSnapshot>& earlier,
              SnapshotCopy* copy)
      : FolderSink(std::move(folder)), shelf_(shelf), earlier_(earlier), copy_(copy) {}

  absl::Status Open(const SnapshotFile& file, bool* skip) override {
    for (const ShelvedSnapshot& one : earlier_) {
      if (!TellsContent(file)) break;
      const SnapshotFile* same = one.manifest.ok() ? one.manifest->File(file.path) : nullptr;
      if (same == nullptr || same->bytes != file.bytes || same->crc32c != file.crc32c) continue;
      LC_ASSIGN_OR_RETURN(const std::string to, Prepare(file));
      const std::string from = StrCat(shelf_.PathOf(one.name), "/", kSnapshotDataName, "/", file.path);
      if (!LinkFile(from, to).ok()) continue;  // missing there: the source has it
      *skip = true;
      ++copy_->shared_files;
      copy_->shared_bytes += file.bytes;
      return absl::OkStatus();
    }
    ++copy_->copied_files;
    copy_->copied_bytes += file.bytes;
    return FolderSink::Open(file, skip);
  }

 private:
  const SnapshotShelf& shelf_;
  const std::vector<ShelvedSnapshot>& earlier_;
  SnapshotCopy* const copy_;
};

absl::Status CopyFiles(const std::string& from, const SnapshotShelf& shelf, SnapshotCopy* copy,
                       const std::function<bool()>& cancelled) {
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> earlier, shelf.List());
  LC_ASSIGN_OR_RETURN(const std::string partial, shelf.Begin(copy->manifest.name));
  SharingSink sink(StrCat(partial, "/", kSnapshotDataName), shelf, earlier, copy);
  LC_RETURN_IF_ERROR(ReadSnapshot(from, copy->manifest, sink, cancelled));
  // A copy may lie on the shelf of a server: it is trusted no more than its source.
  if (IsUploadedSnapshot(from)) LC_RETURN_IF_ERROR(shelf.MarkUploaded(copy->manifest.name));
  return shelf.Commit(copy->manifest.name, EncodeSnapshotManifest(copy->manifest));
}

}  // namespace

absl::StatusOr<SnapshotCopy> CopySnapshot(const std::string& from, const std::string& to,
                                          const std::function<bool()>& cancelled) {
  SnapshotCopy copy;
  LC_ASSIGN_OR_RETURN(copy.manifest, ReadSnapshotManifest(from));
  const SnapshotShelf shelf(to);
  LC_RETURN_IF_ERROR(shelf.CheckNew(copy.manifest.name));
  const absl::Status copied = CopyFiles(from, shelf, &copy, cancelled);
  if (!copied.ok()) {
    shelf.Abandon(copy.manifest.name);
    return Annotate(copied, StrCat("copy snapshot '", copy.manifest.name, "' to '", to, "'"));
  }
  return copy;
}

}  // namespace lightcone
