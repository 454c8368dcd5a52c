// One change that an operator asks for, from its request id to its answer: the same request is recognised, the
// collection is locked, records and request are written as one batch, and memory follows the store.
// Threads: a transaction belongs to one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/collection/collection.h"
#include "server/engine/collection/meta.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// Writes an operator's batch, durably, and finds out what became of it where the store reports an error.
OperatorWrite WriteOperatorBatch(Store& store, const WriteBatch& batch);

// The records of one collection as a transaction changes them. Holds the collection's operator mutex.
class RecordsChange {
 public:
  explicit RecordsChange(Collection& collection);
  RecordsChange(const RecordsChange&) = delete;
  RecordsChange& operator=(const RecordsChange&) = delete;

  const CollectionState& before() const { return *before_; }
  // Each of these marks what it returns as changed.
  CollectionRecord& record();
  GenerationRecord& generation(uint32_t number);  // a number above the last one adds a record
  AdapterSet& adapters();

  // Adds the changed records but for adapters, which the caller adds, under the condition that nobody changed them.
  void WriteTo(WriteBatch* batch) const;
  // Does nothing where no record changed.
  void Publish();

 private:
  Collection& collection_;
  absl::MutexLock lock_;
  const std::shared_ptr<const CollectionState> before_;
  std::optional<CollectionRecord> record_;
  std::vector<GenerationRecord> generations_;
  std::vector<uint32_t> changed_generations_;
  std::optional<AdapterSet> adapters_;
};

struct OperatorRequest {
  std::string id;  // empty: the call is not idempotent
  std::string_view method;
  std::string fingerprint;  // A text that differs where the call's content does.
};

class OperatorTransaction {
 public:
  // INVALID_ARGUMENT for a malformed id. ALREADY_EXISTS when the id belongs to another call. NOT_FOUND when the
  // collection was dropped while the call waited.
  static absl::StatusOr<OperatorTransaction> Begin(const Context& context, Collection& collection,
                                                   OperatorRequest request);
  // A change of the catalog: holds its operator mutex.
  static absl::StatusOr<OperatorTransaction> BeginOnCatalog(Context& context, OperatorRequest request);

  // What the same request did before, durably. nullptr: the request is new.
  const RequestRecord* earlier() const { return earlier_ ? &*earlier_ : nullptr; }
  int64_t time_us() const { return request_.time_us; }

  // Locks a further collection. Whoever needs two joins the lower number first.
  RecordsChange& Join(Collection& collection);
  // Those of the collection that Begin named.
  RecordsChange& records() { return *changes_.front(); }
  const CollectionState& before() const { return changes_.front()->before(); }

  // What is written beside the changed records.
  WriteBatch& batch() { return batch_; }
  // What the same request will find as earlier().
  RequestRecord& request() { return request_; }
  // Adds an entry to the audit log, behind those of the collection so far, with this transaction's collection, time and
  // request.
  absl::Status Audit(AuditRecord record);

  // Write, and Publish unless the store refused the batch.
  absl::Status Commit();
  // The two halves, for callers with work in between. Memory has to follow when the batch is in the store.
  OperatorWrite Write();
  void Publish();
  // The batch with the request's record and nothing written, for a caller that writes it with its own.
  WriteBatch TakeBatch();

 private:
  OperatorTransaction(Store* store, OperatorRequest request);
  absl::Status FindEarlier();
  void FinishBatch();

  Store* store_;
  std::string request_id_;
  RequestRecord request_;
  std::optional<RequestRecord> earlier_;
  WriteBatch batch_;
  std::unique_ptr<absl::MutexLock> catalog_lock_;
  std::vector<std::unique_ptr<RecordsChange>> changes_;
};

}  // namespace lightcone::server
