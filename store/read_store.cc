#include "store/read_store.h"

#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "rocksdb/db.h"
#include "store/column_families.h"
#include "store/disk_status.h"
#include "store/envelope.h"
#include "store/folder.h"
#include "store/rocksdb_iterator.h"
#include "store/slices.h"

namespace lightcone {
namespace {

constexpr int64_t kMemoryBytes = int64_t{64} << 20;

class ReadStore final : public Store {
 public:
  explicit ReadStore(std::string folder) : folder_(std::move(folder)) {}
  ~ReadStore() override {
    for (rocksdb::ColumnFamilyHandle* family : families_) (void)db_->DestroyColumnFamilyHandle(family);
  }

  absl::Status Open() {
    const std::string step = StrCat("open store '", folder_, "' for reading");
    std::error_code error;
    if (!std::filesystem::exists(folder_ + "/CURRENT", error)) {
      return DataLoss(StrCat(step, ": it is damaged: there is no file 'CURRENT'"));
    }
    LC_RETURN_IF_ERROR(PrepareStoreFolder(folder_));  // The folder is not empty: it is checked, and nothing is made.
    StoreOptions options;
    options.memory_bytes = kMemoryBytes;
    rocksdb::DBOptions database = DatabaseOptions(options, nullptr);
    database.create_if_missing = false;
    database.create_missing_column_families = false;
    rocksdb::DB* raw = nullptr;
    const rocksdb::Status opened =
        rocksdb::DB::OpenForReadOnly(database, folder_, ColumnFamilies(options), &families_, &raw);
    db_.reset(raw);
    return ToStatus(opened, step);
  }

  absl::Status Write(const WriteBatch&, Durability) override { return Refuse(); }
  absl::Status CheckGrowth(uint64_t) const override { return Refuse(); }
  void MakeRoom(uint64_t) override {}
  absl::Status Sync() override { return absl::OkStatus(); }

  absl::StatusOr<std::string> Get(Table table, std::string_view key) const override {
    rocksdb::PinnableSlice raw;
    const rocksdb::Status found = db_->Get(rocksdb::ReadOptions(), Family(table), ToSlice(key), &raw);
    if (!found.ok()) return ToStatus(found, Place(table, key));
    LC_ASSIGN_OR_RETURN(const std::string_view value, OpenEnvelope(table, key, ToView(raw)));
    return std::string(value);
  }

  std::vector<absl::StatusOr<std::string>> MultiGet(Table table, std::span<const std::string> keys) const override {
    std::vector<absl::StatusOr<std::string>> out;
    out.reserve(keys.size());
    for (const std::string& key : keys) out.push_back(Get(table, key));
    return out;
  }

  std::unique_ptr<Iterator> Scan(Table table, std::string_view begin, std::string_view end) const override {
    return MakeRocksIterator(db_.get(), Family(table), table, begin, end);
  }

  absl::Status DeleteRange(Table, std::string_view, std::string_view) override { return Refuse(); }
  absl::Status Checkpoint(const std::string&) override { return Refuse(); }
  StoreStats Stats() const override { return {}; }

 private:
  rocksdb::ColumnFamilyHandle* Family(Table table) const { return families_[static_cast<size_t>(table)]; }
  absl::Status Refuse() const { return FailedPrecondition(StrCat("store '", folder_, "' is open for reading alone")); }

  const std::string folder_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // handles in the order of Table, then RocksDB's "default"
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenStoreForReading(const std::string& folder) {
  auto store = std::make_unique<ReadStore>(folder);
  LC_RETURN_IF_ERROR(store->Open());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace lightcone
