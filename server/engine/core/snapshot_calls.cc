#include "server/engine/core/snapshot_calls.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/retry_after.h"
#include "base/status.h"
#include "base/version.h"
#include "server/engine/core/snapshot_maker.h"
#include "snapshot/folder_sink.h"
#include "snapshot/read.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr int kScheduleNice = 10;  // searches and writes come first
constexpr absl::Duration kRetryPause = absl::Minutes(1);
constexpr absl::Duration kCallRetry = absl::Seconds(10);  // pause before a call that met another of its kind

std::function<bool()> GivenUp(const Context& engine, const CallContext& context) {
  return [&engine, &context] {
    return engine.ending.load() || (context.cancelled && context.cancelled()) || absl::Now() >= context.deadline;
  };
}

SnapshotStatus StatusFrom(const SnapshotShelf& shelf, const ShelvedSnapshot& one) {
  SnapshotStatus out;
  out.folder = shelf.PathOf(one.name);
  out.damage = one.manifest.status();
  if (one.manifest.ok()) out.manifest = *one.manifest;
  out.manifest.name = one.name;
  if (one.verified_us) out.verified = absl::FromUnixMicros(*one.verified_us);
  return out;
}

}  // namespace

class SnapshotCalls::NameHold {
 public:
  static absl::StatusOr<std::unique_ptr<NameHold>> Take(SnapshotCalls* calls, const std::string& name) {
    LC_RETURN_IF_ERROR(CheckSnapshotName(name));
    absl::MutexLock lock(&calls->mu_);
    if (calls->held_.insert(name).second) return std::unique_ptr<NameHold>(new NameHold(calls, name));
    return FailedPrecondition(StrCat("snapshot '", name, "' is in use by another call"));
  }
  ~NameHold() {
    absl::MutexLock lock(&calls_->mu_);
    calls_->held_.erase(name_);
  }

 private:
  NameHold(SnapshotCalls* calls, std::string name) : calls_(calls), name_(std::move(name)) {}
  SnapshotCalls* const calls_;
  const std::string name_;
};

class UploadedSnapshot final : public SnapshotUpload {
 public:
  UploadedSnapshot(SnapshotCalls* calls, std::string name)
      : calls_(calls),
        name_(std::move(name)),
        reader_(name_, [this](const SnapshotManifest& manifest, std::string_view) { return Begin(manifest); }) {}
  ~UploadedSnapshot() override {
    if (hold_ != nullptr) calls_->shelf_.Abandon(manifest_.name);
  }

  absl::Status Append(std::string_view bytes) override {
    if (hold_ != nullptr) LC_RETURN_IF_ERROR(CheckRoom(bytes.size()));
    return reader_.Append(bytes);
  }

  absl::StatusOr<SnapshotStatus> Finish() override {
    LC_RETURN_IF_ERROR(reader_.Finish().status());
    LC_RETURN_IF_ERROR(calls_->shelf_.MarkUploaded(manifest_.name));
    LC_RETURN_IF_ERROR(calls_->shelf_.Commit(manifest_.name, EncodeSnapshotManifest(manifest_)));
    hold_.reset();
    LC_RETURN_IF_ERROR(calls_->Mark(manifest_.name));
    calls_->Refresh();
    return calls_->StatusOf(manifest_.name);
  }

 private:
  absl::StatusOr<std::unique_ptr<SnapshotSink>> Begin(const SnapshotManifest& manifest) {
    manifest_ = manifest;
    if (!name_.empty()) manifest_.name = name_;
    manifest_.scheduled = false;  // retention is for what this server made
    manifest_.request_id.clear();
    manifest_.asked.reset();
    LC_ASSIGN_OR_RETURN(auto hold, SnapshotCalls::NameHold::Take(calls_, manifest_.name));
    LC_ASSIGN_OR_RETURN(const std::string partial, calls_->shelf_.Begin(manifest_.name));
    hold_ = std::move(hold);
    partial_ = partial;
    LC_RETURN_IF_ERROR(CheckRoom(manifest.Bytes()));
    return std::unique_ptr<SnapshotSink>(std::make_unique<FolderSink>(StrCat(partial, "/", kSnapshotDataName)));
  }

  // RESOURCE_EXHAUSTED where the disk has no room for `bytes` more. On the store's disk its reserve stays its own.
  absl::Status CheckRoom(uint64_t bytes) const {
    std::error_code error;
    const fs::space_info space = fs::space(partial_, error);
    if (!error && bytes > space.available) {
      return ResourceExhausted(StrCat("snapshot '", manifest_.name, "' needs ", bytes, " bytes; ", space.available,
                                      " bytes are free in '", calls_->shelf_.folder(), "'"));
    }
    struct stat shelf {
    }, data{};
    const bool one_disk = ::stat(partial_.c_str(), &shelf) == 0 &&
                          ::stat(calls_->context_.folders.data.c_str(), &data) == 0 && shelf.st_dev == data.st_dev;
    return one_disk ? calls_->context_.store->CheckGrowth(bytes) : absl::OkStatus();
  }

  SnapshotCalls* const calls_;
  const std::string name_;
  std::string partial_;  // folder of the files; empty before the manifest is known
  SnapshotManifest manifest_;
  std::unique_ptr<SnapshotCalls::NameHold> hold_;
  ArchiveReader reader_;
};

SnapshotCalls::SnapshotCalls(Context& context, Maintenance& maintenance, BackfillCalls& backfills)
    : context_(context),
      maintenance_(maintenance),
      backfills_(backfills),
      shelf_(context.folders.data + "/snapshots") {}

absl::Status SnapshotCalls::Start(const BackupOptions& options) {
  options_ = options;
  if (!options.folder.empty()) shelf_ = SnapshotShelf(options.folder);
  LC_RETURN_IF_ERROR(Annotate(shelf_.RemoveLeftovers(), "snapshots"));
  std::error_code error;
  const std::string work = SnapshotMaker::WorkFolder(context_.folders);
  fs::remove_all(work, error);
  if (error) return ErrnoStatus(error.value(), "remove", work);
  Refresh();
  if (options_.every <= absl::ZeroDuration()) return absl::OkStatus();
  schedule_ = std::make_unique<RepeatingThread>(kScheduleNice, absl::ZeroDuration(), [this] { return RunSchedule(); });
  return absl::OkStatus();
}

std::string SnapshotCalls::FreeName(std::string_view prefix) const {
  const std::string now = absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone());
  std::string name = StrCat(prefix, now);
  for (int i = 2; !shelf_.CheckNew(name).ok(); ++i) name = StrCat(prefix, now, "-", i);
  return name;
}

absl::StatusOr<SnapshotStatus> SnapshotCalls::Create(const CreateSnapshotCall& call,
                                                     const CallContext& context) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!call.name.empty()) LC_RETURN_IF_ERROR(CheckSnapshotName(call.name));
  SnapshotManifest manifest;
  manifest.name = call.name;
  manifest.request_id = call.request_id;
  if (!call.request_id.empty()) {
    manifest.asked = AskedSnapshot{.name = call.name, .collections = call.collections};
    std::sort(manifest.asked->collections.begin(), manifest.asked->collections.end());
  }
  if (GivenUp(context_, context)()) return MakeStatus(absl::StatusCode::kCancelled, "nobody waits for it any more");
  LC_ASSIGN_OR_RETURN(std::optional<SnapshotStatus> earlier, FindEarlier(manifest));
  if (earlier) return *std::move(earlier);
  // Whoever waited here would keep a thread from the calls that others wait for.
  if (!making_mu_.TryLock()) {
    return WithRetryAfter(ResourceExhausted("another snapshot is being made; try again later"), kCallRetry);
  }
  const absl::Cleanup unlock = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { making_mu_.Unlock(); };
  return Make(std::move(manifest), call.collections, context);
}

absl::StatusOr<RestoredCollection> SnapshotCalls::RestoreCollection(
    const RestoreCollectionCall& call, const CallContext& context) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const std::function<bool()> given_up = GivenUp(context_, context);
  if (given_up()) return MakeStatus(absl::StatusCode::kCancelled, "nobody waits for it any more");
  CollectionRestore restore(context_, backfills_, call, given_up);
  LC_ASSIGN_OR_RETURN(std::optional<RestoredCollection> earlier, restore.FindEarlier());
  if (earlier) return *std::move(earlier);
  // Whoever waited here would keep a thread from the calls that others wait for.
  if (!restoring_mu_.TryLock()) {
    return WithRetryAfter(ResourceExhausted("another collection is being restored; try again later"), kCallRetry);
  }
  const absl::Cleanup unlock = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { restoring_mu_.Unlock(); };
  return RestoreAlone(restore, call, context);
}

absl::StatusOr<RestoredCollection> SnapshotCalls::RestoreAlone(CollectionRestore& restore,
                                                               const RestoreCollectionCall& call,
                                                               const CallContext& context) {
  const absl::Status there = shelf_.CheckExists(call.snapshot);
  // Who may use some collections need not know the snapshots of the others.
  if (absl::IsNotFound(there) && context.sees) return NotFound(StrCat("no snapshot '", call.snapshot, "'"));
  LC_RETURN_IF_ERROR(there);
  LC_ASSIGN_OR_RETURN(const auto hold, NameHold::Take(this, call.snapshot));  // It is not deleted meanwhile.
  absl::StatusOr<RestoredCollection> restored = restore.Run(shelf_.PathOf(call.snapshot));
  const std::string step = StrCat("restore collection '", call.collection, "' of snapshot '", call.snapshot, "'");
  if (absl::IsDataLoss(restored.status())) CountFailure(restored.status(), step);
  if (!restored.ok()) return Annotate(restored.status(), step);
  return restored;
}

absl::StatusOr<SnapshotStatus> SnapshotCalls::Make(SnapshotManifest manifest,
                                                   const std::vector<std::string>& collections,
                                                   const CallContext& context) {
  // The same request may have ended since Create looked for it.
  LC_ASSIGN_OR_RETURN(std::optional<SnapshotStatus> earlier, FindEarlier(manifest));
  if (earlier) return *std::move(earlier);
  std::set<uint32_t> chosen;
  for (const std::string& name : collections) {
    LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
    chosen.insert(served->collection->number());
  }
  if (manifest.name.empty()) manifest.name = FreeName(manifest.scheduled ? "auto-" : "snapshot-");
  const std::string name = manifest.name;
  LC_ASSIGN_OR_RETURN(const auto hold, NameHold::Take(this, name));
  LC_RETURN_IF_ERROR(shelf_.CheckNew(name));
  const absl::Status made = Fill(std::move(manifest), std::move(chosen), context);
  if (!made.ok()) {
    shelf_.Abandon(name);
    CountFailure(made, StrCat("snapshot '", name, "'"));
    return Annotate(made, StrCat("snapshot '", name, "'"));
  }
  Refresh();
  return StatusOf(name);
}

absl::StatusOr<std::optional<SnapshotStatus>> SnapshotCalls::FindEarlier(const SnapshotManifest& asking) const {
  if (asking.request_id.empty()) return std::optional<SnapshotStatus>();
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> all, shelf_.List());
  for (const ShelvedSnapshot& one : all) {
    if (!one.manifest.ok() || one.manifest->request_id != asking.request_id) continue;
    // Older servers did not keep what was asked.
    if (one.manifest->asked && one.manifest->asked != asking.asked) {
      return FieldError(absl::StatusCode::kAlreadyExists, "request_id", StrCat("'", asking.request_id, "'"),
                        "an id that is new; this one belongs to a CreateSnapshot with another content");
    }
    // The first call may have ended between the rename and its sync.
    LC_RETURN_IF_ERROR(Annotate(SyncFolder(shelf_.folder()), StrCat("snapshot '", one.name, "'")));
    return std::optional(StatusFrom(shelf_, one));
  }
  return std::optional<SnapshotStatus>();
}

absl::Status SnapshotCalls::Fill(SnapshotManifest manifest, std::set<uint32_t> chosen, const CallContext& context) {
  LC_ASSIGN_OR_RETURN(const std::string partial, shelf_.Begin(manifest.name));
  manifest.version = kVersion;
  manifest.time_us = absl::ToUnixMicros(absl::Now());
  SnapshotMaker maker(context_, maintenance_, shelf_, std::move(chosen));
  LC_RETURN_IF_ERROR(maker.Fill(StrCat(partial, "/", kSnapshotDataName), &manifest, GivenUp(context_, context)));
  return shelf_.Commit(manifest.name, EncodeSnapshotManifest(manifest));
}

absl::StatusOr<SnapshotStatus> SnapshotCalls::StatusOf(const std::string& name) {
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> all, shelf_.List());
  for (const ShelvedSnapshot& one : all) {
    if (one.name == name) return StatusFrom(shelf_, one);
  }
  return NotFound(StrCat("snapshot '", name, "' was deleted meanwhile"));
}

absl::StatusOr<std::vector<SnapshotStatus>> SnapshotCalls::List() {
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> all, shelf_.List());
  std::vector<SnapshotStatus> out;
  for (const ShelvedSnapshot& one : all) out.push_back(StatusFrom(shelf_, one));
  return out;
}

absl::Status SnapshotCalls::Delete(const std::string& name) {
  LC_ASSIGN_OR_RETURN(const auto hold, NameHold::Take(this, name));
  LC_RETURN_IF_ERROR(shelf_.Delete(name));
  Refresh();
  return absl::OkStatus();
}

absl::StatusOr<SnapshotStatus> SnapshotCalls::Verify(const std::string& name, const CallContext& context) {
  LC_RETURN_IF_ERROR(shelf_.CheckExists(name));
  const absl::Status verified = VerifySnapshot(shelf_.PathOf(name), GivenUp(context_, context)).status();
  if (!verified.ok()) {
    if (!absl::IsCancelled(verified)) CountFailure(verified, "verify");
    return verified;
  }
  LC_RETURN_IF_ERROR(Mark(name));
  Refresh();
  return StatusOf(name);
}

absl::Status SnapshotCalls::Mark(const std::string& name) {
  absl::MutexLock lock(&marking_mu_);  // each writes the same temporary file
  return shelf_.SetVerified(name, absl::ToUnixMicros(absl::Now()));
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> SnapshotCalls::Download(const std::string& name) {
  LC_RETURN_IF_ERROR(shelf_.CheckExists(name));
  return ArchiveWriter::Open(shelf_.PathOf(name));
}

absl::StatusOr<std::unique_ptr<SnapshotUpload>> SnapshotCalls::Upload(const std::string& name) {
  if (!name.empty()) LC_RETURN_IF_ERROR(shelf_.CheckNew(name));
  return std::unique_ptr<SnapshotUpload>(std::make_unique<UploadedSnapshot>(this, name));
}

SnapshotFigures SnapshotCalls::Figures() {
  absl::MutexLock lock(&mu_);
  return figures_;
}

absl::StatusOr<SnapshotStatus> SnapshotCalls::MakeScheduled() {
  SnapshotManifest manifest;
  manifest.scheduled = true;
  absl::MutexLock making(&making_mu_);
  if (context_.ending.load()) return MakeStatus(absl::StatusCode::kCancelled, "the server ends");
  return Make(std::move(manifest), {}, {});
}

absl::Duration SnapshotCalls::RunSchedule() {
  absl::Time newest = absl::InfinitePast();
  const absl::Time now = absl::Now();
  const absl::StatusOr<std::vector<ShelvedSnapshot>> all = shelf_.List();
  for (size_t i = 0; all.ok() && i < all->size(); ++i) {
    const ShelvedSnapshot& one = (*all)[i];
    if (!one.manifest.ok() || !one.manifest->scheduled) continue;
    const absl::Time made = absl::FromUnixMicros(one.manifest->time_us);
    // A later time comes of a clock that was wrong: the schedule does not wait for it.
    if (made <= now) newest = std::max(newest, made);
  }
  const absl::Duration age = now - newest;
  if (age < options_.every) return options_.every - age;
  const absl::StatusOr<SnapshotStatus> made = MakeScheduled();
  absl::Status status = made.status();
  if (status.ok()) status = Verify(made->manifest.name, {}).status();
  if (status.ok()) status = DropOld(made->manifest.name);
  if (!status.ok()) spdlog::error("the snapshot of the schedule: {}", MessageOf(status));
  return made.ok() ? options_.every : std::min(options_.every, kRetryPause);
}

absl::Status SnapshotCalls::DropOld(const std::string& newest) {
  LC_ASSIGN_OR_RETURN(std::vector<ShelvedSnapshot> all, shelf_.List());
  std::erase_if(all, [](const ShelvedSnapshot& one) { return !one.manifest.ok() || !one.manifest->scheduled; });
  // A time that is still to come says nothing of the order: such a snapshot is older than the present clock.
  const int64_t now = absl::ToUnixMicros(absl::Now());
  const auto rank = [&](const ShelvedSnapshot& one) {
    return one.name == newest ? INT64_MAX : one.manifest->time_us > now ? INT64_MIN : one.manifest->time_us;
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
  bool verified = false;  // whether a newer one has been verified
  for (size_t i = 0; i < all.size(); ++i) {
    const bool newest_verified = !verified && all[i].verified_us.has_value();
    verified = verified || newest_verified;
    if (static_cast<int>(i) < options_.keep || newest_verified) continue;
    const absl::Status deleted = Delete(all[i].name);
    // One that a call reads goes another time. The older ones behind it go now.
    if (!absl::IsFailedPrecondition(deleted)) LC_RETURN_IF_ERROR(deleted);
  }
  return absl::OkStatus();
}

void SnapshotCalls::Refresh() {
  const absl::StatusOr<std::vector<ShelvedSnapshot>> all = shelf_.List();
  if (!all.ok()) return;
  SnapshotFigures figures;
  for (const ShelvedSnapshot& one : *all) {
    if (!one.manifest.ok()) continue;
    ++figures.count;
    figures.bytes += one.manifest->Bytes();
    const absl::Time made = absl::FromUnixMicros(one.manifest->time_us);
    if (one.verified_us) figures.newest_verified = std::max(figures.newest_verified.value_or(made), made);
  }
  absl::MutexLock lock(&mu_);
  figures.failures_total = figures_.failures_total;
  figures_ = figures;
}

void SnapshotCalls::CountFailure(const absl::Status& why, std::string_view step) {
  spdlog::error("{}: {}", step, MessageOf(why));
  absl::MutexLock lock(&mu_);
  ++figures_.failures_total;
}

}  // namespace lightcone::server
