#include "store/stand_in_tables.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_writer.h"
#include "store/disk_status.h"

namespace lightcone {
namespace {

constexpr size_t kFooterBytes =
    53;  // the end of a table of format version 5, which RocksDB looks for at its file's end

absl::StatusOr<std::string> MakeTable() {
  const std::unique_ptr<rocksdb::Env> memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  rocksdb::Options options;
  options.env = memory.get();
  options.compression = rocksdb::kNoCompression;
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  const std::string path = "/stand-in.sst";
  rocksdb::Status made = writer.Open(path);
  if (made.ok()) made = writer.Put(kStandInKey, "");
  if (made.ok()) made = writer.Finish();
  std::string bytes;
  if (made.ok()) made = rocksdb::ReadFileToString(memory.get(), path, &bytes);
  if (!made.ok()) return ToStatus(made, "make a stand-in of a table");
  return bytes;
}

// The table's bytes, with its end moved to where a file of another size ends.
class StandIn final : public rocksdb::FSRandomAccessFile {
 public:
  StandIn(std::shared_ptr<const std::string> table, uint64_t size) : table_(std::move(table)), size_(size) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t bytes, const rocksdb::IOOptions&, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext*) const override {
    const uint64_t end = std::min<uint64_t>(offset + bytes, size_);
    const uint64_t footer = size_ - kFooterBytes, body = table_->size() - kFooterBytes;
    size_t read = 0;
    for (uint64_t at = offset; at < end; ++at) {
      scratch[read++] = at >= footer ? (*table_)[body + (at - footer)] : at < body ? (*table_)[at] : '\0';
    }
    *result = rocksdb::Slice(scratch, read);
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::shared_ptr<const std::string> table_;
  const uint64_t size_;
};

class Files final : public rocksdb::FileSystemWrapper {
 public:
  Files(std::shared_ptr<const std::string> table, std::map<std::string, uint64_t> lost)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), table_(std::move(table)), lost_(std::move(lost)) {}
  const char* Name() const override { return "LightconeStandIns"; }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* context) override {
    const auto found = lost_.find(std::filesystem::path(name).lexically_normal().string());
    if (found == lost_.end()) return target()->NewRandomAccessFile(name, options, file, context);
    *file = std::make_unique<StandIn>(table_, found->second);
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::shared_ptr<const std::string> table_;
  const std::map<std::string, uint64_t> lost_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<rocksdb::FileSystem>> WithStandIns(std::map<std::string, uint64_t> lost) {
  absl::StatusOr<std::string> table = MakeTable();
  if (!table.ok()) return table.status();
  // No table is smaller than the stand-in: each has rows, an index and properties.
  std::erase_if(lost, [&](const auto& file) { return file.second < table->size(); });
  return std::make_shared<Files>(std::make_shared<const std::string>(*std::move(table)), std::move(lost));
}

}  // namespace lightcone
