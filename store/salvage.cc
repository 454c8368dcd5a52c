#include "store/salvage.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/files.h"
#include "base/status.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "store/column_families.h"
#include "store/disk_status.h"
#include "store/envelope.h"
#include "store/folder.h"
#include "store/lost_files.h"
#include "store/resilient_scan.h"
#include "store/stand_in_tables.h"
#include "store/synced_point.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchBytes = 1 << 20;
constexpr char kRebuiltName[] = "rebuilt";  // folder, in the new one, of the copy whose manifest is made anew

// A store that is open for reading in spite of damage.
struct DamagedStore {
  ~DamagedStore() { Close(); }
  void Close() {
    for (rocksdb::ColumnFamilyHandle* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
    handles.clear();
    db.reset();
  }
  // nullptr: the store has no rows of the table.
  rocksdb::ColumnFamilyHandle* Family(Table table) const {
    const auto found = std::ranges::find_if(handles, [&](auto* one) { return one->GetName() == TableName(table); });
    return found == handles.end() ? nullptr : *found;
  }
  std::unique_ptr<rocksdb::Env> env;  // environment with stand-ins for lost tables; nullptr: the machine's
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
};

rocksdb::DBOptions ReadingOptions(LogWatch* watch) {
  rocksdb::DBOptions options = DatabaseOptions({}, nullptr);
  options.create_if_missing = false;
  options.create_missing_column_families = false;
  options.paranoid_checks = false;                   // a missing table then costs its own rows alone
  options.verify_sst_unique_id_in_manifest = false;  // a stand-in has another one
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.wal_filter = watch;
  return options;
}

rocksdb::Status OpenDamaged(const std::string& folder, LogWatch* watch, DamagedStore* out) {
  rocksdb::DB* raw = nullptr;
  rocksdb::DBOptions options = ReadingOptions(watch);
  if (out->env != nullptr) options.env = out->env.get();
  // A manifest that was made anew knows only the families of which there are rows.
  std::vector<std::string> names;
  const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(options, folder, &names);
  if (!listed.ok()) return listed;
  std::vector<rocksdb::ColumnFamilyDescriptor> families = ColumnFamilies({});
  std::erase_if(families, [&](const auto& family) { return std::ranges::count(names, family.name) == 0; });
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, folder, families, &out->handles, &raw);
  out->db.reset(raw);
  return opened;
}

// Makes the manifest anew from the tables, in a copy of the folder that shares the files of rows.
absl::Status RebuildManifest(const std::string& from, const std::string& to) {
  LC_RETURN_IF_ERROR(MakeFolders(to));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const fs::path name = entry.path().filename();
    const fs::path extension = name.extension();
    if (extension != ".sst" && extension != ".log" && extension != ".blob") continue;
    fs::create_hard_link(entry.path(), to / name, error);
    if (error) fs::copy_file(entry.path(), to / name, error);  // another file system
    if (error) return ErrnoStatus(error.value(), "copy", entry.path().string());
  }
  if (error) return ErrnoStatus(error.value(), "list", from);
  rocksdb::DBOptions options = ReadingOptions(nullptr);
  options.create_if_missing = true;
  return ToStatus(rocksdb::RepairDB(to, options, ColumnFamilies({})), StrCat("make the manifest of '", from, "' anew"));
}

// Names lost files, and opens the store again with stand-ins for those that are tables.
absl::Status ReplaceLostTables(const std::string& folder, DamagedStore* store, SalvageReport* report) {
  std::map<std::string, uint64_t> tables;
  for (LostFile& lost : FindLostFiles(folder, *store->db)) {
    if (lost.is_table) tables[fs::path(lost.path).lexically_normal().string()] = lost.bytes;
    report->damage.push_back(std::move(lost.what));
  }
  if (tables.empty()) return absl::OkStatus();
  store->Close();
  LC_ASSIGN_OR_RETURN(const auto files, WithStandIns(std::move(tables)));
  store->env = rocksdb::NewCompositeEnv(files);
  LogWatch watch;
  return ToStatus(OpenDamaged(folder, &watch, store), StrCat("open what is left of store '", folder, "'"));
}

void NoteLogDamage(const std::string& folder, const LogWatch& watch, const rocksdb::DB& db, SalvageReport* report) {
  const std::optional<SyncedPoint> point = ReadSyncedPoint(folder);
  if (!point || watch.last() >= point->sequence || point->log < watch.first_log()) return;
  std::error_code error;
  const std::string log = LogPath(folder, point->log);
  if (!fs::exists(log, error)) return;  // RocksDB removes a log once all of it is in tables
  // A log that began behind the last operation is empty, and all operations are in tables.
  if (fs::file_size(log, error) == 0 && !error && db.GetLatestSequenceNumber() >= point->sequence) return;
  report->damage.push_back(StrCat("the log '", log, "' can be read up to sequence ", watch.last(),
                                  "; operations up to ", point->sequence,
                                  " were acknowledged as durable and are lost"));
}

absl::Status CopyTable(Table table, const DamagedStore& from, Store& to, SalvageReport* report) {
  WriteBatch batch;
  size_t bytes = 0;
  const auto write = [&] {
    if (batch.empty()) return absl::OkStatus();
    bytes = 0;
    return to.Write(std::exchange(batch, {}), Durability::kProcess);
  };
  rocksdb::ColumnFamilyHandle* const family = from.Family(table);
  if (family == nullptr) return absl::OkStatus();
  ResilientScan rows(from.db.get(), family);
  for (; rows.Valid(); rows.Next()) {
    if (rows.key() == kStandInKey) continue;
    const auto value = OpenEnvelope(table, rows.key(), rows.value());
    if (!value.ok()) {
      report->values.push_back(Place(table, rows.key()));
      continue;
    }
    ++report->rows[static_cast<size_t>(table)];
    bytes += rows.key().size() + value->size();
    batch.Put(table, std::string(rows.key()), std::string(*value));
    if (bytes >= kBatchBytes) LC_RETURN_IF_ERROR(write());
  }
  for (const auto& [begin, end] : rows.gaps()) {
    report->ranges.push_back({table, begin.empty() ? "the first row" : PrintableKey(begin),
                              end.empty() ? "the last row" : PrintableKey(end)});
  }
  return write();
}

absl::Status CheckFolders(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::exists(fs::path(from) / kMarkerName, error)) {
    return FailedPrecondition(StrCat("folder '", from, "' has no file ", kMarkerName, ": it is no store of Lightcone"));
  }
  LC_RETURN_IF_ERROR(PrepareStoreFolder(from));  // a marker of ours is only read
  if (!fs::exists(to, error)) return absl::OkStatus();
  return FailedPrecondition(StrCat("folder '", to, "' exists; allowed: a folder that does not exist yet"));
}

}  // namespace

absl::StatusOr<SalvageReport> SalvageStore(const std::string& from, const std::string& to) {
  LC_RETURN_IF_ERROR(CheckFolders(from, to));
  rocksdb::Env* const env = rocksdb::Env::Default();
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status locked = env->LockFile((fs::path(from) / "LOCK").string(), &lock);
  if (!locked.ok()) return Unavailable(StrCat("store '", from, "' is in use: ", locked.ToString()));
  const absl::Cleanup unlock = [&] { (void)env->UnlockFile(lock); };
  SalvageReport report;
  LogWatch watch;
  auto damaged = std::make_unique<DamagedStore>();
  std::string read = from;
  const absl::Status current = CheckCurrentFile(from);
  rocksdb::Status opened =
      current.ok() ? OpenDamaged(from, &watch, damaged.get()) : rocksdb::Status::Corruption(MessageOf(current));
  const std::string rebuilt = (fs::path(to) / kRebuiltName).string();
  const absl::Cleanup remove_rebuilt = [&] {
    damaged.reset();
    std::error_code ignored;
    fs::remove_all(rebuilt, ignored);
  };
  std::unique_ptr<Store> store;
  StoreOptions options;
  options.reserve_bytes = 0;
  LC_ASSIGN_OR_RETURN(store, OpenStore(to, options));
  if (opened.ok()) {
    NoteLogDamage(from, watch, *damaged->db, &report);
  } else {
    report.damage.push_back(StrCat("the manifest of '", from, "' is damaged (", opened.ToString(),
                                   "); it was made anew from the tables, which may bring deleted rows back"));
    damaged = std::make_unique<DamagedStore>();
    LC_RETURN_IF_ERROR(RebuildManifest(from, rebuilt));
    opened = OpenDamaged(rebuilt, nullptr, damaged.get());
    if (!opened.ok()) return DataLoss(StrCat("nothing of store '", from, "' can be read: ", opened.ToString()));
    read = rebuilt;
  }
  LC_RETURN_IF_ERROR(ReplaceLostTables(read, damaged.get(), &report));
  for (int t = 0; t < kTableCount; ++t) {
    // The change log tells an index what it lacks. The new store has no index yet.
    if (static_cast<Table>(t) == Table::kChanges) continue;
    LC_RETURN_IF_ERROR(CopyTable(static_cast<Table>(t), *damaged, *store, &report));
  }
  LC_RETURN_IF_ERROR(store->Sync());
  return report;
}

}  // namespace lightcone
