#include "server/engine/core/collection_restore.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "base/files.h"
#include "base/link.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/core/collection_calls.h"
#include "server/engine/core/collection_rows.h"
#include "server/engine/core/engine_load.h"
#include "snapshot/folder_sink.h"
#include "snapshot/read.h"
#include "snapshot/shelf.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"
#include "store/read_store.h"
#include "store/walk.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

bool OnOneDisk(const std::string& one, const std::string& other) {
  struct stat first {};
  struct stat second {};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 && first.st_dev == second.st_dev;
}

// The folders of a collection in a data folder, with what they are called in paths of a manifest.
std::vector<std::string> FoldersOf(uint32_t number) {
  return {StrCat("encoders/", number, "/"), StrCat("index/", number, "/")};
}

}  // namespace

CollectionRestore::CollectionRestore(Context& context, BackfillCalls& backfills, const RestoreCollectionCall& call,
                                     std::function<bool()> given_up)
    : context_(context),
      backfills_(backfills),
      call_(call),
      name_(call.name.empty() ? call.collection : call.name),
      given_up_(std::move(given_up)) {}

OperatorRequest CollectionRestore::Request() const {
  return {call_.request_id, kRestoreMethod, StrCat(call_.snapshot, "|", call_.collection, "|", name_)};
}

absl::Status CollectionRestore::CheckWanted() const {
  return given_up_() ? MakeStatus(absl::StatusCode::kCancelled, "nobody waits for it any more") : absl::OkStatus();
}

absl::StatusOr<std::optional<RestoredCollection>> CollectionRestore::FindEarlier() {
  LC_RETURN_IF_ERROR(CheckName(call_.collection, "collection"));
  LC_RETURN_IF_ERROR(CheckName(name_, "name"));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::BeginOnCatalog(context_, Request()));
  const RequestRecord* const before = change.earlier();
  if (before == nullptr) return std::optional<RestoredCollection>();
  for (const ServedPtr& served : context_.catalog.All()) {
    if (served->collection->number() != before->collection) continue;
    return std::optional(RestoredCollection{.name = served->collection->name(),
                                            .items = before->items,
                                            .sequence = before->sequence,
                                            .active_generation = before->generation});
  }
  return NotFound(StrCat("collection '", name_, "' was restored by this request, and dropped since"));
}

absl::StatusOr<OperatorTransaction> CollectionRestore::Begin() {
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::BeginOnCatalog(context_, Request()));
  if (change.earlier() != nullptr) return Aborted("the same request ended meanwhile; repeat the call for its answer");
  LC_RETURN_IF_ERROR(CheckNewName(name_, "name"));
  LC_RETURN_IF_ERROR(context_.catalog.CheckNew(name_, context_.options.limits.collections_max));
  return change;
}

absl::StatusOr<RestoredCollection> CollectionRestore::Run(const std::string& snapshot) {
  LC_RETURN_IF_ERROR(Begin().status());  // A name in use is told before every byte of the files is read.
  snapshot_ = snapshot;
  LC_ASSIGN_OR_RETURN(manifest_, ReadSnapshotManifest(snapshot_));
  const bool known = std::any_of(manifest_.collections.begin(), manifest_.collections.end(),
                                 [&](const SnapshotCollection& one) { return one.name == call_.collection; });
  // It names no other collection: who may use one need not know the others.
  if (!known) return NotFound("the snapshot has no such collection");
  LC_RETURN_IF_ERROR(Verify("store/"));
  LC_RETURN_IF_ERROR(FindSource());
  LC_RETURN_IF_ERROR(CheckEncoders());
  for (const std::string& folder : FoldersOf(source_number_)) LC_RETURN_IF_ERROR(Verify(folder));
  LC_RETURN_IF_ERROR(CheckRoom());
  return FillOrRemove();
}

absl::StatusOr<RestoredCollection> CollectionRestore::FillOrRemove() {
  absl::Status failed;
  try {
    failed = Reserve();
    if (failed.ok()) {
      absl::StatusOr<RestoredCollection> restored = Fill();
      if (restored.ok()) return restored;
      failed = restored.status();
    }
  } catch (...) {
    failed = StatusOfException();
  }
  if (number_ == 0 || visible_) return failed;
  try {
    RemoveWhatIsThere();
  } catch (...) {  // The marker stays, and with it the duty of the next start.
  }
  return failed;
}

absl::Status CollectionRestore::CheckEncoders() const {
  if (context_.options.encoder_uploads || !IsUploadedSnapshot(snapshot_)) return absl::OkStatus();
  const keys::Range range = keys::GenerationRecordRange(source_number_);
  const auto rows = source_->Scan(Table::kGenerations, range.begin, range.end);
  for (; rows->Valid(); rows->Next()) {
    LC_ASSIGN_OR_RETURN(const GenerationRecord one, DecodeGeneration(rows->value()));
    if (!one.has_encoder || one.endpoint || one.removed) continue;
    return FailedPrecondition(StrCat("generation ", one.generation, " has an encoder, and a caller brought the ",
                                     "snapshot: the server's option encoder.uploads is 'refuse'"));
  }
  return rows->status();
}

bool CollectionRestore::LinksFiles() const {
  return OnOneDisk(StrCat(snapshot_, "/", kSnapshotDataName), context_.folders.data);
}

absl::Status CollectionRestore::CheckRoom() const {
  const auto check = [this](uint64_t) { return CheckWanted(); };
  LC_ASSIGN_OR_RETURN(uint64_t bytes, CountCollectionBytes(*source_, source_number_, check));
  if (!LinksFiles()) {
    const std::vector<std::string> folders = FoldersOf(source_number_);
    for (const SnapshotFile& file : manifest_.files) {
      const auto holds = [&file](const std::string& folder) { return file.path.starts_with(folder); };
      if (std::any_of(folders.begin(), folders.end(), holds)) bytes += file.bytes;
    }
  }
  return context_.store->CheckGrowth(bytes);
}

absl::Status CollectionRestore::Verify(std::string_view path_prefix) const {
  SnapshotManifest part;
  part.name = manifest_.name;
  for (const SnapshotFile& file : manifest_.files) {
    if (file.path.starts_with(path_prefix)) part.files.push_back(file);
  }
  NoSink sink;
  return ReadSnapshot(snapshot_, part, sink, given_up_);
}

absl::Status CollectionRestore::FindSource() {
  LC_ASSIGN_OR_RETURN(source_, OpenStoreForReading(StrCat(snapshot_, "/", kSnapshotDataName, "/store")));
  const auto stored = source_->Get(Table::kMeta, keys::CollectionName(call_.collection));
  if (absl::IsNotFound(stored.status())) return DataLoss("the snapshot's store lacks the number of the collection");
  LC_RETURN_IF_ERROR(stored.status());
  LC_ASSIGN_OR_RETURN(source_number_, ParseNumber(*stored, "the number of the collection"));
  const auto encoded = source_->Get(Table::kCollections, keys::Collection(source_number_));
  if (absl::IsNotFound(encoded.status())) return DataLoss("the snapshot's store lacks the record of the collection");
  LC_RETURN_IF_ERROR(encoded.status());
  LC_ASSIGN_OR_RETURN(record_, DecodeCollection(*encoded));
  record_.name = name_;
  record_.aliases.clear();
  return absl::OkStatus();
}

absl::Status CollectionRestore::Reserve() {
  LC_ASSIGN_OR_RETURN(const OperatorTransaction change, Begin());
  context_.catalog.operator_mutex().AssertHeld();  // The transaction holds it.
  number_ = context_.catalog.TakeNumber();
  WriteBatch batch;
  batch.Put(Table::kMeta, keys::Meta(kNextCollectionName), StrCat(number_ + 1));
  batch.Put(Table::kMeta, keys::Meta(DroppingName(number_)), "");
  return WriteOperatorBatch(*context_.store, batch).status;
}

absl::StatusOr<RestoredCollection> CollectionRestore::Fill() {
  const auto check = [this](uint64_t bytes) {
    const absl::Status wanted = CheckWanted();
    return wanted.ok() ? context_.store->CheckGrowth(bytes) : wanted;
  };
  LC_RETURN_IF_ERROR(CopyCollectionRows(*source_, source_number_, *context_.store, number_, check));
  LC_RETURN_IF_ERROR(LinkFiles());
  LC_RETURN_IF_ERROR(context_.store->Sync());
  LC_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                      LoadCollection(context_, number_, Encode(record_), given_up_));
  const ServedPtr served = MakeServed(std::move(collection), context_.options);
  LC_RETURN_IF_ERROR(backfills_.Load(*served));
  LC_RETURN_IF_ERROR(CheckWanted());
  return Publish(served);
}

absl::Status CollectionRestore::LinkFiles() const {
  const std::string data = StrCat(snapshot_, "/", kSnapshotDataName);
  const auto check_copy = [this](uint64_t bytes) { return context_.store->CheckGrowth(bytes); };
  const std::vector<std::string> from = FoldersOf(source_number_), to = FoldersOf(number_);
  for (size_t i = 0; i < from.size(); ++i) {
    std::error_code error;
    const std::string folder = StrCat(context_.folders.data, "/", to[i]);
    fs::remove_all(folder, error);
    if (error) return ErrnoStatus(error.value(), "remove", folder);
    bool made = false;
    for (const SnapshotFile& file : manifest_.files) {
      if (!file.path.starts_with(from[i])) continue;
      LC_RETURN_IF_ERROR(CheckWanted());
      LC_RETURN_IF_ERROR(context_.store->CheckGrowth(0));
      const std::string place = folder + file.path.substr(from[i].size());
      fs::create_directories(fs::path(place).parent_path(), error);
      if (error) return ErrnoStatus(error.value(), "create folder", folder);
      LC_RETURN_IF_ERROR(LinkFile(StrCat(data, "/", file.path), place, check_copy));
      made = true;
    }
    if (!made) continue;
    LC_RETURN_IF_ERROR(SyncFolders(folder));
    LC_RETURN_IF_ERROR(SyncFolder(fs::path(folder).parent_path().parent_path().string()));
  }
  return absl::OkStatus();
}

absl::Status CollectionRestore::AddAudit(WriteBatch* batch) const {
  const auto add = [&](std::string_view key, std::string_view value) -> absl::Status {
    const auto at = ParseAuditKey(key);
    if (!at || at->second != source_number_) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(AuditRecord entry, DecodeAudit(value));
    entry.collection = name_;
    batch->Put(Table::kMeta, keys::Meta(AuditName(at->first, number_)), Encode(entry));
    return absl::OkStatus();
  };
  const auto pass_over = [&](std::string_view key, const absl::Status& why) {
    spdlog::warn("restore: an entry of the audit log is left out: {}: {}", key, MessageOf(why));
    return absl::OkStatus();
  };
  const auto rows = source_->Scan(Table::kMeta, keys::Meta(kAuditPrefix), keys::Meta(kAuditEnd));
  return WalkPastDamage(*rows, add, pass_over);
}

absl::StatusOr<RestoredCollection> CollectionRestore::Publish(const ServedPtr& served) {
  const ProgressRecord progress = served->collection->progress();
  const RestoredCollection restored{.name = name_,
                                    .items = progress.ItemCount(),
                                    .sequence = progress.sequence,
                                    .active_generation = record_.active_generation};
  WriteBatch audit;
  LC_RETURN_IF_ERROR(AddAudit(&audit));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, Begin());
  RequestRecord& request = change.request();
  request.collection = number_;
  request.generation = restored.active_generation;
  request.items = restored.items;
  request.sequence = restored.sequence;
  WriteBatch& batch = change.batch();
  batch = std::move(audit);
  batch.Expect(Table::kMeta, keys::CollectionName(name_), std::nullopt);
  batch.Put(Table::kMeta, keys::CollectionName(name_), StrCat(number_));
  batch.Put(Table::kCollections, keys::Collection(number_), Encode(record_));
  batch.Delete(Table::kMeta, keys::Meta(DroppingName(number_)));
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  context_.catalog.Add(served);
  visible_ = true;
  LC_RETURN_IF_ERROR(written.status);
  return restored;
}

void CollectionRestore::RemoveWhatIsThere() {
  // After an error of the disk the last batch may be in the log all the same. Once this one is on disk the record is
  // not there, and never will be. Where it is refused, everything stays: the next start finds the collection or the
  // marker.
  WriteBatch marker;
  marker.Expect(Table::kCollections, keys::Collection(number_), std::nullopt);
  marker.Put(Table::kMeta, keys::Meta(DroppingName(number_)), "");
  absl::Status removed = context_.store->Write(marker, Durability::kDurable);
  if (removed.ok()) removed = RemoveRemains(context_, number_);
  if (removed.ok()) return;
  if (absl::IsAborted(removed)) {
    spdlog::warn("a restore failed after collection '{}' was stored: the next start serves it", name_);
    return;
  }
  spdlog::warn("what a restore of collection '{}' has left is removed by the next start: {}", name_,
               MessageOf(removed));
}

}  // namespace lightcone::server
