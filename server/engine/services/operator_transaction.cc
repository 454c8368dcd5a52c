#include "server/engine/services/operator_transaction.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr uint64_t kFileBytes = 1 << 20;  // room for the small files that a call writes beside its batch

}  // namespace

OperatorWrite WriteOperatorBatch(Store& store, const WriteBatch& batch) {
  const absl::Status status = store.Write(batch, Durability::kDurable);
  if (status.ok()) return {true, status};
  if (absl::IsAborted(status)) return {false, status};  // The store refused the batch before it wrote anything.
  for (const WriteBatch::Operation& operation : batch.operations()) {
    const auto stored = store.Get(operation.table, operation.key);
    if (!stored.ok() && !absl::IsNotFound(stored.status())) {
      return {false, Unavailable(StrCat("nobody knows before a restart whether this was stored: ", MessageOf(status),
                                        "; ", MessageOf(stored.status())))};
    }
    const bool there = operation.value ? stored.ok() && *stored == *operation.value : !stored.ok();
    if (!there) return {false, status};
  }
  return {true, status};
}

RecordsChange::RecordsChange(Collection& collection) ABSL_NO_THREAD_SAFETY_ANALYSIS
    : collection_(collection),
      lock_(&collection.operator_mutex()),
      before_(collection.state()),
      generations_(before_->generations) {}

CollectionRecord& RecordsChange::record() {
  if (!record_) record_ = before_->record;
  return *record_;
}

GenerationRecord& RecordsChange::generation(uint32_t number) {
  LC_DCHECK(number >= 1 && number <= generations_.size() + 1);
  if (number > generations_.size()) generations_.emplace_back();
  const auto& changed = changed_generations_;
  if (std::find(changed.begin(), changed.end(), number) == changed.end()) changed_generations_.push_back(number);
  return generations_[number - 1];
}

AdapterSet& RecordsChange::adapters() {
  if (!adapters_) adapters_ = before_->reach.adapters();
  return *adapters_;
}

void RecordsChange::WriteTo(WriteBatch* batch) const {
  if (!record_ && changed_generations_.empty() && !adapters_) return;
  const std::string key = keys::Collection(collection_.number());
  batch->Expect(Table::kCollections, key, before_->encoded);
  if (record_) batch->Put(Table::kCollections, key, Encode(*record_));
  for (const uint32_t number : changed_generations_) {
    batch->Put(Table::kGenerations, keys::Generation(collection_.number(), number), Encode(generations_[number - 1]));
  }
}

void RecordsChange::Publish() {
  if (!record_ && changed_generations_.empty() && !adapters_) return;
  AdapterSet adapters = adapters_ ? *std::move(adapters_) : before_->reach.adapters();
  collection_.Publish(std::move(record_), std::move(generations_), std::move(adapters));
}

OperatorTransaction::OperatorTransaction(Store* store, OperatorRequest request)
    : store_(store), request_id_(std::move(request.id)) {
  request_.method = std::string(request.method);
  request_.fingerprint = std::move(request.fingerprint);
}

absl::StatusOr<OperatorTransaction> OperatorTransaction::Begin(const Context& context, Collection& collection,
                                                               OperatorRequest request) {
  LC_RETURN_IF_ERROR(CheckRequestId(request.id));
  OperatorTransaction made(context.store.get(), std::move(request));
  context.store->MakeRoom(kFileBytes);
  made.Join(collection);
  if (collection.dropped()) return NotFound(StrCat("collection '", collection.name(), "' has been dropped"));
  made.request_.collection = collection.number();
  LC_RETURN_IF_ERROR(made.FindEarlier());
  return made;
}

absl::StatusOr<OperatorTransaction> OperatorTransaction::BeginOnCatalog(Context& context, OperatorRequest request) {
  LC_RETURN_IF_ERROR(CheckRequestId(request.id));
  OperatorTransaction made(context.store.get(), std::move(request));
  context.store->MakeRoom(kFileBytes);
  made.catalog_lock_ = std::make_unique<absl::MutexLock>(&context.catalog.operator_mutex());
  LC_RETURN_IF_ERROR(made.FindEarlier());
  return made;
}

absl::Status OperatorTransaction::FindEarlier() {
  request_.time_us = NowMicros();
  if (request_id_.empty()) return absl::OkStatus();
  const auto stored = store_->Get(Table::kMeta, keys::Meta(RequestName(request_id_)));
  if (absl::IsNotFound(stored.status())) return absl::OkStatus();
  LC_RETURN_IF_ERROR(stored.status());
  // It may stem from a write whose sync failed: who answers by it answers for its durability.
  LC_RETURN_IF_ERROR(store_->Sync());
  LC_ASSIGN_OR_RETURN(earlier_, DecodeRequest(*stored));
  if (earlier_->method == request_.method && earlier_->fingerprint == request_.fingerprint) return absl::OkStatus();
  return FieldError(absl::StatusCode::kAlreadyExists, "request_id", StrCat("'", request_id_, "'"),
                    StrCat("an id that is new; this one belongs to a ", earlier_->method, " with another content"));
}

RecordsChange& OperatorTransaction::Join(Collection& collection) {
  return *changes_.emplace_back(std::make_unique<RecordsChange>(collection));
}

absl::Status OperatorTransaction::Audit(AuditRecord record) {
  record.collection = before().record.name;
  record.time_us = request_.time_us;
  record.request_id = request_id_;
  // The clock may have been ahead: an entry stands behind those before it, whatever its time.
  int64_t place = request_.time_us;
  const auto later = store_->Scan(Table::kMeta, keys::Meta(AuditName(place, 0)), keys::Meta(kAuditEnd));
  for (; later->Valid(); later->Next()) {
    const auto at = ParseAuditKey(later->key());
    if (at && at->second == request_.collection) place = at->first + 1;
  }
  LC_RETURN_IF_ERROR(later->status());
  batch_.Put(Table::kMeta, keys::Meta(AuditName(place, request_.collection)), Encode(record));
  return absl::OkStatus();
}

void OperatorTransaction::FinishBatch() {
  for (const auto& change : changes_) change->WriteTo(&batch_);
  if (request_id_.empty()) return;
  const std::string key = keys::Meta(RequestName(request_id_));
  batch_.Expect(Table::kMeta, key, std::nullopt);
  batch_.Put(Table::kMeta, key, Encode(request_));
}

OperatorWrite OperatorTransaction::Write() {
  FinishBatch();
  return WriteOperatorBatch(*store_, batch_);
}

WriteBatch OperatorTransaction::TakeBatch() {
  FinishBatch();
  return std::move(batch_);
}

void OperatorTransaction::Publish() {
  for (const auto& change : changes_) change->Publish();
}

absl::Status OperatorTransaction::Commit() {
  const OperatorWrite written = Write();
  if (written.in_store) Publish();
  return written.status;
}

}  // namespace lightcone::server
