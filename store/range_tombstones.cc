#include "store/range_tombstones.h"

namespace lightcone {
namespace {

class TombstoneMarker final : public rocksdb::TablePropertiesCollector {
 public:
  const char* Name() const override { return "lightcone.RangeTombstones"; }
  rocksdb::Status AddUserKey(const rocksdb::Slice& /*key*/, const rocksdb::Slice& /*value*/, rocksdb::EntryType type,
                             rocksdb::SequenceNumber /*sequence*/, uint64_t /*file_size*/) override {
    if (type == rocksdb::kEntryRangeDeletion) found_ = true;
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish(rocksdb::UserCollectedProperties* /*properties*/) override { return rocksdb::Status::OK(); }
  rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
  bool NeedCompact() const override { return found_; }

 private:
  bool found_ = false;
};

class TombstoneMarkerFactory final : public rocksdb::TablePropertiesCollectorFactory {
 public:
  const char* Name() const override { return "lightcone.RangeTombstones"; }
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(Context /*context*/) override {
    return new TombstoneMarker;
  }
};

}  // namespace

std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> MakeRangeTombstoneMarker() {
  return std::make_shared<TombstoneMarkerFactory>();
}

}  // namespace lightcone
