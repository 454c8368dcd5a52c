#include "store/rocksdb_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/transaction_log.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "spdlog/spdlog.h"
#include "store/background_errors.h"
#include "store/background_work.h"
#include "store/checkpoint.h"
#include "store/column_families.h"
#include "store/disk_reserve.h"
#include "store/disk_status.h"
#include "store/envelope.h"
#include "store/flush_gate.h"
#include "store/folder.h"
#include "store/group_sync.h"
#include "store/keys.h"
#include "store/log_guard.h"
#include "store/lost_files.h"
#include "store/raw_values.h"
#include "store/rocksdb_batch.h"
#include "store/rocksdb_iterator.h"
#include "store/slices.h"
#include "store/synced_point.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormatName = "format";
constexpr absl::Duration kResumeMax = absl::Seconds(15);  // time that a write waits for an attempt to resume
constexpr absl::Duration kIdleMax = absl::Seconds(10);    // time that an attempt waits for background work

class RocksStore final : public Store {
 public:
  RocksStore(std::string folder, const StoreOptions& options, const StoreInternals& internals)
      : folder_(std::move(folder)),
        internals_(internals),
        reserve_(folder_, options.reserve_bytes, internals.free_bytes),
        background_(std::make_shared<BackgroundErrors>(
            folder_, BackgroundErrors::Told{
                         [this] { Wake(); }, [this](const rocksdb::Status& error) { FailWrites(error, "write"); },
                         [this] { return absl::IsResourceExhausted(group_.failure()); }, [this] { gate_.Close(); }})),
        gate_(internals.env, [this] { return RunningFlushes(); }),
        guard_(gate_.env(), [this](const auto& error, std::string_view step) { FailWrites(error, step); }),
        group_([this] { return SyncLog(); }) {}

  ~RocksStore() override {
    if (watch_thread_.joinable()) {
      {
        absl::MutexLock lock(&watch_mutex_);
        stopping_ = true;
      }
      rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/false);  // DB::Resume waits for it, perhaps for ever
      watch_thread_.join();
    }
    gate_.End();
    opened_ = false;
    if (db_ == nullptr) return;
    // A clean stop makes durable what PROCESS writers left unsynced. No caller is left to hear of an error.
    if (group_.failure().ok()) (void)SyncLog();
    for (rocksdb::ColumnFamilyHandle* family : families_) (void)db_->DestroyColumnFamilyHandle(family);
    (void)db_->Close();
  }

  absl::Status Open(const StoreOptions& options) {
    LC_RETURN_IF_ERROR(options.Validate());
    LC_RETURN_IF_ERROR(PrepareStoreFolder(folder_));
    LC_RETURN_IF_ERROR(OpenDatabase(options));
    opened_ = true;
    reserve_.Keep();
    const std::string step = StrCat("open store '", folder_, "'");
    // The tables hold the old log's content by now, so the point lies before the log that begins.
    SyncedPoint point = SyncedNow();
    if (point.log > 0) --point.log;
    LC_RETURN_IF_ERROR(Annotate(synced_.Open(folder_, point), step));
    LC_RETURN_IF_ERROR(CheckFormat());
    LC_RETURN_IF_ERROR(ToStatus(FillMemtable(), step));
    watch_thread_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  absl::Status Write(const WriteBatch& batch, Durability durability) override {
    reserve_.MakeRoom(BytesOf(batch));
    LC_RETURN_IF_ERROR(Ready());
    rocksdb::WriteBatch raw(BytesOf(batch));
    LC_RETURN_IF_ERROR(AppendTo(batch, families_, &raw));
    if (batch.expectations().empty()) {
      absl::ReaderMutexLock lock(&write_mutex_);
      LC_RETURN_IF_ERROR(Append(&raw));
    } else {
      absl::WriterMutexLock lock(&write_mutex_);
      LC_RETURN_IF_ERROR(CheckExpectations(batch));
      LC_RETURN_IF_ERROR(Append(&raw));
    }
    return durability == Durability::kDurable ? group_.Commit() : absl::OkStatus();
  }

  absl::Status CheckGrowth(uint64_t bytes) const override { return reserve_.CheckGrowth(bytes); }

  void MakeRoom(uint64_t bytes) override { reserve_.MakeRoom(bytes); }

  absl::Status Sync() override {
    LC_RETURN_IF_ERROR(Ready());
    return group_.Commit();
  }

  absl::StatusOr<std::string> Get(Table table, std::string_view key) const override {
    rocksdb::PinnableSlice raw;
    const rocksdb::Status found = db_->Get(rocksdb::ReadOptions(), Family(table), ToSlice(key), &raw);
    return Unwrap(table, key, found, raw);
  }

  std::vector<absl::StatusOr<std::string>> MultiGet(Table table, std::span<const std::string> keys) const override {
    const RawValues values(*db_, Family(table), keys.size(), [&](size_t i) { return rocksdb::Slice(keys[i]); });
    std::vector<absl::StatusOr<std::string>> out;
    out.reserve(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (values.status[i].IsNotFound()) {
        out.emplace_back(absl::Status(absl::StatusCode::kNotFound, ""));
      } else {
        out.push_back(Unwrap(table, keys[i], values.status[i], values.raw[i]));
      }
    }
    return out;
  }

  std::unique_ptr<Iterator> Scan(Table table, std::string_view begin, std::string_view end) const override {
    return MakeRocksIterator(db_.get(), Family(table), table, begin, end);
  }

  absl::Status DeleteRange(Table table, std::string_view begin, std::string_view end) override {
    if (!end.empty() && begin > end) {
      return InvalidField("begin", PrintableKey(begin), StrCat("keys up to the end, ", PrintableKey(end)));
    }
    reserve_.MakeRoom(0);
    LC_RETURN_IF_ERROR(Ready());
    {
      absl::WriterMutexLock lock(&write_mutex_);
      rocksdb::WriteBatch raw;
      LC_RETURN_IF_ERROR(ConvertRange(table, begin, end, &raw));
      LC_RETURN_IF_ERROR(Append(&raw));
    }
    LC_RETURN_IF_ERROR(group_.Commit());
    // A memtable with a range tombstone no longer asks its filter: a flush gives point reads a fresh memtable. It also
    // begins the compactions that give space back. A failure costs speed, and delays these.
    if (ReclaimsRanges(table)) {
      rocksdb::FlushOptions in_background;
      in_background.wait = false;
      in_background.allow_write_stall = true;  // a call without this waits for an earlier flush
      (void)db_->Flush(in_background, Family(table));
    }
    return absl::OkStatus();
  }

  absl::Status Checkpoint(const std::string& folder) override;
  uint64_t Sequence() const { return db_->GetLatestSequenceNumber(); }
  StoreStats Stats() const override;

 private:
  rocksdb::ColumnFamilyHandle* Family(Table table) const { return families_[static_cast<size_t>(table)]; }

  absl::Status OpenDatabase(const StoreOptions& options);
  absl::Status OpenDamaged(const StoreOptions& options, std::optional<SyncedPoint> point);
  rocksdb::Status TryOpen(const StoreOptions& options, rocksdb::WALRecoveryMode mode, bool watch);
  absl::Status CheckCut(const StoreOptions& options, SyncedPoint point, const rocksdb::Status& damage) const;

  absl::Status OpenError(const rocksdb::Status& error) const {
    const std::string text = error.ToString();
    if (error.IsIOError() && text.find("/LOCK") != std::string::npos) {
      return Unavailable(StrCat("store '", folder_, "' is in use by another process or store: ", text));
    }
    const std::string step = StrCat("open store '", folder_, "'");
    if (error.IsCorruption()) return DataLoss(StrCat(step, ": it is damaged: ", text, kDamagedAdvice));
    return ToStatus(error, step);
  }

  // The format key is written once, into a store that holds nothing else.
  absl::Status CheckFormat() {
    const std::string key = keys::Meta(kFormatName);
    auto format = Get(Table::kMeta, key);
    if (format.ok()) {
      const std::string ours = StrCat(kStoreFormat);
      if (*format == ours) return absl::OkStatus();
      uint64_t other = 0;
      if (!absl::SimpleAtoi(*format, &other)) {
        return DataLoss(StrCat(Place(Table::kMeta, key), ": '", *format, "' is no format version"));
      }
      return WrongFormat(folder_, other);
    }
    if (!absl::IsNotFound(format.status())) return Annotate(format.status(), StrCat("open store '", folder_, "'"));
    for (int i = 0; i < kTableCount; ++i) {
      const auto rows = Scan(static_cast<Table>(i), "", "");
      LC_RETURN_IF_ERROR(rows->status());
      if (rows->Valid()) {
        return DataLoss(StrCat("open store '", folder_, "': ", Place(Table::kMeta, key), " is missing"));
      }
    }
    WriteBatch batch;
    batch.Put(Table::kMeta, key, StrCat(kStoreFormat));
    return Annotate(Write(batch, Durability::kDurable), StrCat("create store '", folder_, "'"));
  }

  absl::StatusOr<std::string> Unwrap(Table table, std::string_view key, const rocksdb::Status& found,
                                     const rocksdb::PinnableSlice& raw) const {
    if (!found.ok()) return ToStatus(found, Place(table, key));
    LC_ASSIGN_OR_RETURN(const std::string_view value, OpenEnvelope(table, key, ToView(raw)));
    return std::string(value);
  }

  absl::Status ConvertRange(Table table, std::string_view begin, std::string_view end, rocksdb::WriteBatch* raw) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_) {
    if (!end.empty()) {
      return ToStatus(raw->DeleteRange(Family(table), ToSlice(begin), ToSlice(end)), Place(table, begin));
    }
    // RocksDB has no open end: remove up to the last key, then the last key itself.
    rocksdb::ReadOptions read;
    read.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(read, Family(table)));
    rows->SeekToLast();
    if (!rows->Valid()) return ToStatus(rows->status(), Place(table, begin));
    if (ToView(rows->key()) < begin) return absl::OkStatus();
    rocksdb::Status added = raw->DeleteRange(Family(table), ToSlice(begin), rows->key());
    if (added.ok()) added = raw->Delete(Family(table), rows->key());
    return ToStatus(added, Place(table, begin));
  }

  absl::Status CheckExpectations(const WriteBatch& batch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  // Writes to the log and memtables without a sync.
  absl::Status Append(rocksdb::WriteBatch* raw) ABSL_SHARED_LOCKS_REQUIRED(write_mutex_) {
    if (raw->Count() == 0) return absl::OkStatus();
    const auto write = [this, raw] { return db_->Write(rocksdb::WriteOptions(), raw); };
    const auto written = background_->Outlast([&] { return guard_.Run(LogGuard::kAppend, write); });
    if (written.ok()) {
      writes_.fetch_add(1, std::memory_order_relaxed);
      return absl::OkStatus();
    }
    // An error of background work refuses a write before it reaches the log. The log itself is as it was.
    if (IsOfBackgroundWork(written) && group_.failure().ok()) {
      background_->Meet();
      const std::string step = StrCat("store '", folder_, "': background work failed and is tried again: write");
      return IsFullDisk(written) ? ToStatus(written, step) : Unavailable(StrCat(step, ": ", written.ToString()));
    }
    FailWrites(written, "write");
    return group_.failure();
  }

  // The last appended operation, which a sync from here on covers, and the current log.
  SyncedPoint SyncedNow() const {
    const uint64_t sequence = db_->GetLatestSequenceNumber();
    std::unique_ptr<rocksdb::LogFile> log;
    if (!db_->GetCurrentWalFile(&log).ok()) return {};
    return {sequence, log->LogNumber()};
  }

  absl::Status SyncLog() {
    const SyncedPoint point = SyncedNow();
    const rocksdb::Status synced = guard_.Run(LogGuard::kSync, [this] { return db_->SyncWAL(); });
    if (!synced.ok() && group_.failure().ok()) FailWrites(synced, "sync");
    if (!synced.ok()) return group_.failure();
    // A failed append may have used sequence numbers up.
    if (point.log > 0 && group_.failure().ok()) synced_.Note(point);
    return absl::OkStatus();
  }

  // After an error that a log may have suffered: refuses writes, until a restart or until a full disk has room.
  void FailWrites(const rocksdb::Status& error, std::string_view step) {
    if (IsFullDisk(error)) return group_.Fail(ToStatus(error, StrCat("store '", folder_, "': ", step)));
    const absl::Status before = group_.failure();
    if (!before.ok() && !absl::IsResourceExhausted(before)) return;
    const std::string why = StrCat("store '", folder_, "' is read-only since an I/O error: ", step, ": ",
                                   error.ToString(), "; check the disk and start again");
    spdlog::error("{}", why);  // the operator reads the log, not the callers' answers
    group_.Fail(Unavailable(why));
    gate_.End();  // Nothing resumes this store, and other stores flush by the same thread.
  }

  // RocksDB replaces a failed log when it flushes, and it flushes only memtables that are not empty. A key in the
  // family that nothing else uses makes sure of one.
  rocksdb::Status FillMemtable(const rocksdb::WriteOptions& options = {}) {
    return db_->Put(options, families_.back(), "filled", "");
  }

  // OK when writes may be tried. After a full disk waits for the next attempt to resume RocksDB.
  absl::Status Ready() ABSL_LOCKS_EXCLUDED(watch_mutex_) {
    const absl::Status failure = group_.failure();
    if (failure.ok() || !absl::IsResourceExhausted(failure)) return failure;
    absl::MutexLock lock(&watch_mutex_);
    if (absl::Now() - last_attempt_ < internals_.recovery_interval_min) return failure;
    woken_ = true;
    const uint64_t before = attempts_;
    // The last attempt may have succeeded since the look above. Then no other one follows.
    const auto tried = [this, before]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return attempts_ > before || !absl::IsResourceExhausted(group_.failure());
    };
    if (watch_mutex_.AwaitWithTimeout(absl::Condition(&tried), kResumeMax)) return group_.failure();
    return Unavailable(StrCat("store '", folder_, "': RocksDB has been resuming after an error of the disk for ",
                              absl::FormatDuration(kResumeMax), " and longer; start again if that does not end"));
  }

  void ResumeAfterFullDisk() {
    if (!guard_.AwaitQuiet()) return;
    reserve_.MakeRoom(0);
    rocksdb::Status resumed = Resume();
    if (resumed.ok()) resumed = ReplaceLog();
    if (resumed.ok()) resumed = FillMemtable();
    if (resumed.ok()) resumed = db_->SyncWAL();
    if (resumed.ok()) {
      guard_.Clear();
      return group_.Clear();
    }
    // Busy: background work has not ended. Other errors than these do not go away.
    const bool passes = IsFullDisk(resumed) || IsOfBackgroundWork(resumed) || resumed.IsBusy();
    if (!passes && !resumed.IsShutdownInProgress()) FailWrites(resumed, "resume");
  }

  // DB::Resume leaves the failed log in its place where every memtable is empty. Such a log must not be written. So
  // this fills a memtable without it, and has the next DB::Resume flush that.
  rocksdb::Status ReplaceLog() {
    rocksdb::WriteOptions without_log;
    without_log.disableWAL = true;
    const rocksdb::Status filled = FillMemtable(without_log);
    if (!filled.ok()) return filled;
    const uint64_t errors = background_->errors();
    const auto given_up = [&] { return background_->errors() != errors || IsStopping(); };
    const rocksdb::Status flushed = FlushAll(*db_, families_, kIdleMax, given_up);
    return RepeatsError(flushed) ? Resume() : flushed;
  }

  // Background work that fails meanwhile would end DB::Resume beside a flush that it has scheduled, which RocksDB then
  // forgets (store/flush_gate.h). Under an error no new work begins.
  rocksdb::Status Resume() {
    const rocksdb::Status idle = AwaitIdle(*db_, kIdleMax);
    return idle.ok() ? gate_.Resume([this] { return db_->Resume(); }) : idle;
  }

  // Before the database is open it asks for nothing of its flushes.
  uint64_t RunningFlushes() const {
    uint64_t value = 0;
    const bool known = opened_ && db_->GetIntProperty(rocksdb::DB::Properties::kNumRunningFlushes, &value);
    return known ? value : std::numeric_limits<uint64_t>::max();
  }

  bool IsStopping() ABSL_LOCKS_EXCLUDED(watch_mutex_) {
    absl::MutexLock lock(&watch_mutex_);
    return stopping_;
  }

  void Wake() ABSL_LOCKS_EXCLUDED(watch_mutex_) {
    absl::MutexLock lock(&watch_mutex_);
    woken_ = true;
  }

  // Keeps the reserve, and ends refusals of writes that end by themselves.
  void Watch() ABSL_LOCKS_EXCLUDED(watch_mutex_) {
    const auto due = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return woken_ || stopping_; };
    while (true) {
      reserve_.Keep();
      if (absl::IsResourceExhausted(group_.failure())) {
        ResumeAfterFullDisk();
        absl::MutexLock lock(&watch_mutex_);
        ++attempts_;
        last_attempt_ = absl::Now();
      }
      if (background_->UntilResume(absl::Now()) <= absl::ZeroDuration()) {
        if (background_->full_disk()) reserve_.MakeRoom(0);
        background_->Resumed(Resume());
      }
      const absl::Duration pause = std::min(internals_.watch_interval, background_->UntilResume(absl::Now()));
      absl::MutexLock lock(&watch_mutex_);
      watch_mutex_.AwaitWithTimeout(absl::Condition(&due), pause);
      if (stopping_) return;
      woken_ = false;
    }
  }

  const std::string folder_;
  const StoreInternals internals_;
  LogWatch watch_;     // watch over the log while the store opens
  SyncedFile synced_;  // file of the synced point
  DiskReserve reserve_;
  const std::shared_ptr<BackgroundErrors> background_;
  FlushGate gate_;
  LogGuard guard_;
  std::unique_ptr<rocksdb::DB> db_;
  std::atomic<bool> opened_{false};                     // RocksDB's threads may ask db_
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // handles in the order of Table, then RocksDB's "default"
  mutable absl::Mutex write_mutex_;                     // exclusive: check and append as one step; shared: append
  std::atomic<uint64_t> writes_{0};
  GroupSync group_;
  absl::Mutex watch_mutex_;
  bool woken_ ABSL_GUARDED_BY(watch_mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(watch_mutex_) = false;
  uint64_t attempts_ ABSL_GUARDED_BY(watch_mutex_) = 0;  // number of attempts to resume after a full disk
  absl::Time last_attempt_ ABSL_GUARDED_BY(watch_mutex_) = absl::InfinitePast();  // end of the last one
  std::thread watch_thread_;                                                      // thread of Watch
};

rocksdb::Status RocksStore::TryOpen(const StoreOptions& options, rocksdb::WALRecoveryMode mode, bool watch) {
  rocksdb::DBOptions database = DatabaseOptions(options, guard_.env());
  database.wal_recovery_mode = mode;
  database.paranoid_checks = !options.accept_damage;  // without them a missing table costs its own rows alone
  database.listeners.push_back(background_);
  watch_ = LogWatch();
  if (watch) database.wal_filter = &watch_;
  std::vector<rocksdb::ColumnFamilyDescriptor> families = ColumnFamilies(options);
  for (auto& family : families) family.options.disable_auto_compactions = !internals_.compacts;
  rocksdb::DB* db = nullptr;
  rocksdb::Status opened = rocksdb::DB::Open(database, folder_, families, &families_, &db);
  db_.reset(db);
  return opened;
}

absl::Status RocksStore::OpenDatabase(const StoreOptions& options) {
  using Mode = rocksdb::WALRecoveryMode;
  LC_RETURN_IF_ERROR(Annotate(CheckCurrentFile(folder_), StrCat("open store '", folder_, "'")));
  const std::optional<SyncedPoint> point = ReadSyncedPoint(folder_);
  if (options.accept_damage) return OpenDamaged(options, point);
  if (!point) return OpenError(TryOpen(options, Mode::kTolerateCorruptedTailRecords, /*watch=*/false));
  // RocksDB takes a log that ends between two records for whole, and opening would put the rest into tables.
  const auto ends_early = rocksdb::Status::Corruption("the log ends early");
  if (!LogsReach(folder_, *point)) LC_RETURN_IF_ERROR(CheckCut(options, *point, ends_early));
  const rocksdb::Status whole = TryOpen(options, Mode::kAbsoluteConsistency, /*watch=*/true);
  if (whole.ok()) return absl::OkStatus();
  if (!whole.IsCorruption()) return OpenError(whole);
  LC_RETURN_IF_ERROR(CheckCut(options, *point, whole));
  const rocksdb::Status cut = TryOpen(options, Mode::kPointInTimeRecovery, /*watch=*/true);
  if (!cut.ok()) return OpenError(cut);
  spdlog::warn(
      "store '{}': its log was damaged ({}) and is cut there, behind {}: what is known to have been synced, up to "
      "sequence {}, is there; what came behind the cut is lost",
      folder_, whole.ToString(), watch_.last() > 0 ? StrCat("sequence ", watch_.last()) : "what is in tables already",
      point->sequence);
  return absl::OkStatus();
}

absl::Status RocksStore::OpenDamaged(const StoreOptions& options, std::optional<SyncedPoint> point) {
  const bool in_log = point && fs::exists(LogPath(folder_, point->log));
  const rocksdb::Status opened = TryOpen(options, rocksdb::WALRecoveryMode::kPointInTimeRecovery, /*watch=*/true);
  if (!opened.ok()) return OpenError(opened);
  if (in_log && watch_.last() < point->sequence && point->log >= watch_.first_log()) {
    spdlog::error(
        "store '{}': its log is damaged and was cut behind sequence {}: operations up to {} were acknowledged as "
        "durable and are lost",
        folder_, watch_.last(), point->sequence);
  }
  for (const LostFile& lost : FindLostFiles(folder_, *db_)) spdlog::error("store '{}': {}", folder_, lost.what);
  return absl::OkStatus();
}

// OK when a log cut at its first damage still holds everything up to the synced point. Changes nothing on disk.
absl::Status RocksStore::CheckCut(const StoreOptions& options, SyncedPoint point, const rocksdb::Status& damage) const {
  // RocksDB removes a log once all of it is in tables.
  std::error_code error;
  if (!fs::exists(LogPath(folder_, point.log), error) && !error) return absl::OkStatus();
  rocksdb::DBOptions database = DatabaseOptions(options, internals_.env);
  database.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  LogWatch watch;
  database.wal_filter = &watch;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status read =
      rocksdb::DB::OpenForReadOnly(database, folder_, ColumnFamilies(options), &families, &raw);
  const std::unique_ptr<rocksdb::DB> db(raw);
  for (rocksdb::ColumnFamilyHandle* family : families) (void)db->DestroyColumnFamilyHandle(family);
  if (!read.ok()) return OpenError(damage);
  if (watch.last() >= point.sequence || point.log < watch.first_log()) return absl::OkStatus();
  // A log that began behind the last operation is empty, and all operations are in tables.
  const bool in_tables = db->GetLatestSequenceNumber() >= point.sequence;
  if (in_tables && fs::file_size(LogPath(folder_, point.log), error) == 0) return absl::OkStatus();
  return DataLoss(StrCat(MessageOf(OpenError(damage)), "; its log can be read up to sequence ", watch.last(),
                         ", and writes up to ", point.sequence, " were acknowledged as durable"));
}

absl::Status RocksStore::CheckExpectations(const WriteBatch& batch) const {
  std::array<std::vector<const WriteBatch::Expectation*>, kTableCount> by_table;
  for (const auto& expectation : batch.expectations()) {
    by_table[static_cast<size_t>(expectation.table)].push_back(&expectation);
  }
  for (size_t t = 0; t < by_table.size(); ++t) {
    const auto& expected = by_table[t];
    if (expected.empty()) continue;
    const Table table = static_cast<Table>(t);
    const RawValues values(*db_, Family(table), expected.size(),
                           [&](size_t i) { return rocksdb::Slice(expected[i]->key); });
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string& key = expected[i]->key;
      const auto& wanted = expected[i]->value;
      const rocksdb::Status& found = values.status[i];
      if (!found.ok() && !found.IsNotFound()) return ToStatus(found, Place(table, key));
      if (found.IsNotFound()) {
        if (!wanted.has_value()) continue;
        return Aborted(StrCat(Place(table, key), " does not exist; the batch expects a value"));
      }
      LC_ASSIGN_OR_RETURN(const std::string_view value, OpenEnvelope(table, key, ToView(values.raw[i])));
      if (!wanted.has_value()) return Aborted(StrCat(Place(table, key), " exists; the batch expects that it does not"));
      if (value != *wanted) return Aborted(StrCat(Place(table, key), " has another value than the batch expects"));
    }
  }
  return absl::OkStatus();
}

absl::Status RocksStore::Checkpoint(const std::string& folder) {
  const std::string step = StrCat("checkpoint of store '", folder_, "' to '", folder, "'");
  std::error_code error;
  // Built beside its place and renamed: a folder of that name is always a whole checkpoint with its marker.
  const fs::path place = fs::absolute(folder, error).lexically_normal();
  const std::string partial = place.string() + ".partial";
  for (const std::string& path : {place.string(), partial}) {
    if (!folder.empty() && !fs::exists(path, error)) continue;
    return FailedPrecondition(
        StrCat(step, ": '", path, "' exists or is no name; allowed: a folder that does not exist"));
  }
  // It flushes. A flush meets the log, and would tell of one that found no room as of one that is damaged.
  LC_RETURN_IF_ERROR(Annotate(Ready(), step));
  rocksdb::Checkpoint* raw = nullptr;
  LC_RETURN_IF_ERROR(ToStatus(rocksdb::Checkpoint::Create(db_.get(), &raw), step));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  absl::Status made = ToStatus(checkpoint->CreateCheckpoint(partial), step);
  if (made.ok()) made = Annotate(WriteMarker(partial), step);
  if (made.ok()) {
    fs::rename(partial, place, error);
    if (error) made = ErrnoStatus(error.value(), StrCat(step, ": rename"), place.string());
  }
  if (!made.ok()) {
    fs::remove_all(partial, error);
    const absl::Status failure = group_.failure();  // RocksDB may not have said why the log cannot be flushed.
    return failure.ok() ? made : Annotate(failure, step);
  }
  return Annotate(SyncFolder(place.parent_path().string()), step);
}

StoreStats RocksStore::Stats() const {
  StoreStats stats;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // error of a file that RocksDB removes during the walk
    const uintmax_t bytes = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone && it->path().filename() != kReserveName) stats.disk_bytes += bytes;
  }
  db_->GetAggregatedIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &stats.memtable_bytes);
  db_->GetAggregatedIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &stats.estimated_keys);
  for (const auto& property :
       {rocksdb::DB::Properties::kIsWriteStopped, rocksdb::DB::Properties::kActualDelayedWriteRate}) {
    uint64_t value = 0;
    if (db_->GetIntProperty(property, &value) && value != 0) stats.stalled = 1;
  }
  const absl::Status failure = group_.failure();
  stats.read_only = !failure.ok() && !absl::IsResourceExhausted(failure);
  stats.reserve_bytes = static_cast<uint64_t>(reserve_.held_bytes());
  stats.growth_refused = reserve_.CheckGrowth(0).ok() ? 0 : 1;
  stats.background_errors_total = background_->errors();
  stats.background_resumes_total = background_->resumes();
  stats.syncs_total = group_.syncs();
  stats.writes_total = writes_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenStoreWith(const std::string& folder, const StoreOptions& options,
                                                     const StoreInternals& internals) {
  auto store = std::make_unique<RocksStore>(folder, options, internals);
  LC_RETURN_IF_ERROR(store->Open(options));
  return std::unique_ptr<Store>(std::move(store));
}

absl::StatusOr<OpenedCheckpoint> OpenCheckpoint(const std::string& folder, const StoreOptions& options) {
  StoreOptions plain = options;
  plain.reserve_bytes = 0;                                               // the reserve is the running store's
  plain.memory_bytes = std::min(plain.memory_bytes, int64_t{64} << 20);  // It is read once, beside the running store.
  const StoreInternals internals{.compacts = false};
  auto store = std::make_unique<RocksStore>(folder, plain, internals);
  LC_RETURN_IF_ERROR(store->Open(plain));
  const uint64_t sequence = store->Sequence();
  return OpenedCheckpoint{std::move(store), sequence};
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& folder, const StoreOptions& options) {
  return OpenStoreWith(folder, options, {});
}

}  // namespace lightcone
