#include "store/rocksdb_iterator.h"

#include <optional>
#include <string>

#include "base/dcheck.h"
#include "base/status.h"
#include "store/column_families.h"
#include "store/disk_status.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/slices.h"

namespace lightcone {
namespace {

// Empty `end` in keys means "to the table's end".
bool InOneCollection(std::string_view begin, std::string_view end) {
  if (begin.size() < kPrefixBytes || end.size() < kPrefixBytes) return false;
  if (begin.substr(0, kPrefixBytes) == end.substr(0, kPrefixBytes)) return true;
  // [c, c + 1) is the most common range and lies in one collection as well.
  std::string next(begin.substr(0, kPrefixBytes));
  for (size_t i = kPrefixBytes; i-- > 0;) {
    next[i] = static_cast<char>(static_cast<uint8_t>(next[i]) + 1);
    if (next[i] != 0) break;
  }
  return end == next;
}

class RocksIterator final : public Iterator {
 public:
  RocksIterator(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, Table table, std::string_view begin,
                std::string_view end)
      : table_(table), end_(end), end_slice_(end_) {
    rocksdb::ReadOptions read;
    if (!end_.empty()) read.iterate_upper_bound = &end_slice_;
    const bool one = HasCollectionPrefix(table) && InOneCollection(begin, end);
    read.total_order_seek = !one;
    read.prefix_same_as_start = one;
    read.fill_cache = !IsBulk(table);
    iterator_.reset(db->NewIterator(read, family));
    iterator_->Seek(ToSlice(begin));
    OpenValue();
  }

  bool Valid() const override { return status_.ok() && iterator_->Valid(); }
  void Next() override {
    LC_DCHECK(iterator_->Valid());
    iterator_->Next();
    OpenValue();
  }
  std::string_view key() const override { return ToView(iterator_->key()); }
  std::string_view value() const override { return value_; }
  absl::Status status() const override { return status_; }
  std::optional<std::string> SkipDamaged() override {
    if (status_.ok() || !iterator_->Valid()) return std::nullopt;
    std::string damaged(key());
    status_ = absl::OkStatus();
    Next();
    return damaged;
  }

 private:
  // Verifies the value under the cursor, or keeps the error that ended the walk.
  void OpenValue() {
    if (!iterator_->Valid()) {
      status_ = ToStatus(iterator_->status(), StrCat("scan table '", TableName(table_), "'"));
      return;
    }
    auto value = OpenEnvelope(table_, key(), ToView(iterator_->value()));
    if (value.ok()) {
      value_ = *value;
    } else {
      status_ = value.status();
    }
  }

  const Table table_;
  const std::string end_;
  const rocksdb::Slice end_slice_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  std::string_view value_;
  absl::Status status_;
};

}  // namespace

std::unique_ptr<Iterator> MakeRocksIterator(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, Table table,
                                            std::string_view begin, std::string_view end) {
  return std::make_unique<RocksIterator>(db, family, table, begin, end);
}

}  // namespace lightcone
