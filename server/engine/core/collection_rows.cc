#include "server/engine/core/collection_rows.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/collection/meta.h"
#include "server/engine/jobs/jobs.h"
#include "spdlog/spdlog.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/walk.h"

namespace lightcone::server {
namespace {

constexpr Table kCollectionTables[] = {Table::kGenerations, Table::kItems,  Table::kEmbeddings, Table::kOrder,
                                       Table::kChanges,     Table::kInputs, Table::kProbes};
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

// Copies the rows of a table that `keeps` wants. A damaged row that `may_lack` allows is left out. DATA_LOSS names
// another one.
absl::Status CopyKept(const Store& from, Table table, BatchedRows& out,
                      absl::FunctionRef<absl::StatusOr<bool>(std::string_view key, std::string_view value)> keeps,
                      absl::FunctionRef<bool(std::string_view key)> may_lack) {
  const auto copy = [&](std::string_view key, std::string_view value) -> absl::Status {
    LC_ASSIGN_OR_RETURN(const bool kept, keeps(key, value));
    return kept ? out.Put(table, std::string(key), std::string(value)) : absl::OkStatus();
  };
  const auto pass_over = [&](std::string_view key, const absl::Status& why) {
    if (!may_lack(key)) return DataLoss(StrCat(Place(table, key), " is damaged: ", MessageOf(why)));
    spdlog::warn("snapshot: {} is damaged and is left out: {}", Place(table, key), MessageOf(why));
    return absl::OkStatus();
  };
  const auto rows = from.Scan(table, "", "");
  LC_RETURN_IF_ERROR(WalkPastDamage(*rows, copy, pass_over));
  return out.Flush();
}

// Whether a snapshot can do without a row of table kMeta: the memory of a request, an entry of the audit log, and what
// CopyKept copies for no collection.
bool MayLackMeta(std::string_view key) {
  return key != keys::Meta(kClockName) && !key.starts_with(keys::CollectionName(""));
}

// Whether a row of table kMeta belongs to the server or to one of the collections. What CopyCollectionRows copies, what
// tells of a drop and the next number are not kept, nor is a request that restored a collection: it names another one.
absl::StatusOr<bool> KeepsMeta(const std::set<uint32_t>& numbers, std::string_view key, std::string_view value) {
  if (key == keys::Meta(kClockName)) return true;
  if (key.starts_with(keys::CollectionName(""))) {
    LC_ASSIGN_OR_RETURN(const uint32_t number, ParseNumber(value, "the number of a name"));
    return numbers.contains(number);
  }
  if (key.starts_with(keys::Meta(kRequestPrefix))) {
    LC_ASSIGN_OR_RETURN(const RequestRecord request, DecodeRequest(value));
    return numbers.contains(request.collection) && request.method != kRestoreMethod;
  }
  const auto audit = ParseAuditKey(key);
  return audit && numbers.contains(audit->second);
}

// Numbers are never used twice: a new collection would overwrite what has its number.
absl::Status PutNextNumber(const Store& from, const std::set<uint32_t>& numbers, BatchedRows& out) {
  uint32_t next = *numbers.rbegin() + 1;
  const std::string key = keys::Meta(kNextCollectionName);
  const auto stored = from.Get(Table::kMeta, key);
  if (!absl::IsNotFound(stored.status())) {
    LC_RETURN_IF_ERROR(stored.status());
    LC_ASSIGN_OR_RETURN(const uint32_t number, ParseNumber(*stored, Place(Table::kMeta, key)));
    next = std::max(next, number);
  }
  return out.Put(Table::kMeta, key, StrCat(next));
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
  LC_RETURN_IF_ERROR(PutNextNumber(from, numbers, out));
  const auto keeps_meta = [&](std::string_view key, std::string_view value) { return KeepsMeta(numbers, key, value); };
  LC_RETURN_IF_ERROR(CopyKept(from, Table::kMeta, out, keeps_meta, MayLackMeta));
  const auto keeps_job = [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
    LC_ASSIGN_OR_RETURN(const JobRecord job, DecodeJob(value));
    return numbers.contains(job.collection_number);
  };
  return CopyKept(from, Table::kJobs, out, keeps_job, [](std::string_view) { return true; });
}

}  // namespace

absl::Status CopyCollectionRows(const Store& from, uint32_t from_number, Store& to, uint32_t to_number,
                                const CheckBatch& check) {
  BatchedRows out(to, check);
  for (const Table table : kCollectionTables) {
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

absl::StatusOr<uint64_t> CountCollectionBytes(const Store& from, uint32_t number, const CheckBatch& check) {
  uint64_t bytes = 0;
  size_t row = 0;
  const keys::Range range = keys::CollectionRange(number);
  for (const Table table : kCollectionTables) {
    const auto rows = from.Scan(table, range.begin, range.end);
    for (; rows->Valid(); rows->Next()) {
      bytes += rows->key().size() + rows->value().size();
      if (++row % kBatchRows == 0) LC_RETURN_IF_ERROR(check(0));
    }
    LC_RETURN_IF_ERROR(rows->status());
  }
  return bytes;
}

absl::Status WriteChosenStore(const Store& from, const std::set<uint32_t>& numbers, const std::string& folder,
                              const StoreOptions& options, const CheckBatch& check) {
  LC_DCHECK(!numbers.empty());
  StoreOptions plain = options;
  plain.reserve_bytes = 0;  // the reserve is the running store's
  plain.memory_bytes = std::min(plain.memory_bytes, kMemoryBytesMax);
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Store> to, OpenStore(folder, plain));
  LC_RETURN_IF_ERROR(FillChosenStore(from, numbers, *to, check));
  return to->Sync();
}

}  // namespace lightcone::server
