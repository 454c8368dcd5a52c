#include "server/engine/core/collection_rows.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "server/engine/collection/meta.h"
#include "server/engine/jobs/jobs.h"
#include "spdlog/spdlog.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/walk.h"

namespace lightcone::server {
namespace {

constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kBatchRows = 8'192;
constexpr size_t kNumberBytes = sizeof(uint32_t);  // length of the collection's number at the start of a key
constexpr int64_t kMemoryBytesMax = int64_t{64} << 20;

// Writes rows in batches of a bounded size.
class BatchedRows {
 public:
  BatchedRows(Store& to, const CheckBatch& check) : to_(to), check_(check) {}

  absl::Status Put(Table table, std::string key, std::string value) {
    bytes_ += key.size() + value.size();
    batch_.Put(table, std::move(key), std::move(value));
    const bool full = bytes_ >= kBatchBytes || batch_.operations().size() >= kBatchRows;
    return full ? Flush() : absl::OkStatus();
  }
  absl::Status Flush() {
    if (batch_.empty()) return absl::OkStatus();
    LC_RETURN_IF_ERROR(check_(bytes_));
    bytes_ = 0;
    return to_.Write(std::exchange(batch_, {}), Durability::kProcess);
  }

 private:
  Store& to_;
  const CheckBatch& check_;
  WriteBatch batch_;
  size_t bytes_ = 0;
};

absl::Status CopyTable(const Store& from, Table table, uint32_t from_number, uint32_t to_number, BatchedRows& out) {
  const keys::Range range = keys::CollectionRange(from_number);
  const std::string prefix = keys::Collection(to_number);
  const auto rows = from.Scan(table, range.begin, range.end);
  for (; rows->Valid(); rows->Next()) {
    LC_RETURN_IF_ERROR(out.Put(table, StrCat(prefix, rows->key().substr(kNumberBytes)), std::string(rows->value())));
  }
  LC_RETURN_IF_ERROR(rows->status());
  return out.Flush();
}

// Copies the rows of a table that `keeps` wants. A damaged row is left out.
absl::Status CopyKept(const Store& from, Table table, BatchedRows& out,
                      absl::FunctionRef<absl::StatusOr<bool>(std::string_view key, std::string_view value)> keeps) {
  const auto copy = [&](std::string_view key, std::string_view value) -> absl::Status {
    LC_ASSIGN_OR_RETURN(const bool kept, keeps(key, value));
    return kept ? out.Put(table, std::string(key), std::string(value)) : absl::OkStatus();
  };
  const auto pass_over = [&](std::string_view key, const absl::Status& why) {
    spdlog::warn("snapshot: {} is damaged and is left out: {}", Place(table, key), MessageOf(why));
    return absl::OkStatus();
  };
  const auto rows = from.Scan(table, "", "");
  LC_RETURN_IF_ERROR(WalkPastDamage(*rows, copy, pass_over));
  return out.Flush();
}

// Whether a row of table kMeta belongs to the server or to one of the collections. What CopyCollectionRows copies and
// what tells of a drop is not kept.
absl::StatusOr<bool> KeepsMeta(const std::set<uint32_t>& numbers, std::string_view key, std::string_view value) {
  if (key == keys::Meta(kNextCollectionName) || key == keys::Meta(kClockName)) return true;
  if (key.starts_with(keys::CollectionName(""))) {
    LC_ASSIGN_OR_RETURN(const uint32_t number, ParseNumber(value, "the number of a name"));
    return numbers.contains(number);
  }
  if (key.starts_with(keys::Meta(kRequestPrefix))) {
    LC_ASSIGN_OR_RETURN(const RequestRecord request, DecodeRequest(value));
    return numbers.contains(request.collection);
  }
  const auto audit = ParseAuditKey(key);
  return audit && numbers.contains(audit->second);
}

absl::Status FillChosenStore(const Store& from, const std::set<uint32_t>& numbers, Store& to, const CheckBatch& check) {
  BatchedRows out(to, check);
  for (const uint32_t number : numbers) {
    const auto record = from.Get(Table::kCollections, keys::Collection(number));
    if (absl::IsNotFound(record.status())) {
      return Aborted("a collection was dropped while its snapshot was made; make another one");
    }
    LC_RETURN_IF_ERROR(record.status());
    LC_RETURN_IF_ERROR(out.Put(Table::kCollections, keys::Collection(number), *record));
    LC_RETURN_IF_ERROR(CopyCollectionRows(from, number, to, number, check));
  }
  LC_RETURN_IF_ERROR(CopyKept(from, Table::kMeta, out, [&](std::string_view key, std::string_view value) {
    return KeepsMeta(numbers, key, value);
  }));
  return CopyKept(from, Table::kJobs, out, [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
    LC_ASSIGN_OR_RETURN(const JobRecord job, DecodeJob(value));
    return numbers.contains(job.collection_number);
  });
}

}  // namespace

absl::Status CopyCollectionRows(const Store& from, uint32_t from_number, Store& to, uint32_t to_number,
                                const CheckBatch& check) {
  BatchedRows out(to, check);
  for (const Table table : {Table::kGenerations, Table::kItems, Table::kEmbeddings, Table::kOrder, Table::kChanges,
                            Table::kInputs, Table::kProbes}) {
    LC_RETURN_IF_ERROR(CopyTable(from, table, from_number, to_number, out));
  }
  for (const auto name : {&ProgressName, &BackfillName, &BackfillHeadName}) {
    absl::StatusOr<std::string> value = from.Get(Table::kMeta, keys::Meta(name(from_number)));
    if (absl::IsNotFound(value.status())) continue;
    LC_RETURN_IF_ERROR(value.status());
    LC_RETURN_IF_ERROR(out.Put(Table::kMeta, keys::Meta(name(to_number)), *std::move(value)));
  }
  return out.Flush();
}

absl::Status WriteChosenStore(const Store& from, const std::set<uint32_t>& numbers, const std::string& folder,
                              const StoreOptions& options, const CheckBatch& check) {
  StoreOptions plain = options;
  plain.reserve_bytes = 0;  // the reserve is the running store's
  plain.memory_bytes = std::min(plain.memory_bytes, kMemoryBytesMax);
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Store> to, OpenStore(folder, plain));
  LC_RETURN_IF_ERROR(FillChosenStore(from, numbers, *to, check));
  return to->Sync();
}

}  // namespace lightcone::server
