// Collections and aliases: creating, listing, dropping, rebuilding; idempotency of operator calls.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

std::string TextOf(const IndexChange& c) {
  const auto text = [](const auto& value) { return value ? StrCat(*value) : std::string("-"); };
  return StrCat(
      c.kind ? StrCat(static_cast<int>(*c.kind)) : "-", ",", text(c.growing_rows_max), ",", text(c.merge_rows_max), ",",
      text(c.tombstones_share_max), ",", text(c.hnsw_m), ",", text(c.hnsw_ef_construction), ",", text(c.hnsw_ef_search),
      ",", text(c.build_threads), c.codes ? StrCat(",", static_cast<int>(*c.codes)) : "",
      c.ivf_lists || c.ivf_nprobe || c.pq_m ? StrCat(",", text(c.ivf_lists), ",", text(c.ivf_nprobe), ",", text(c.pq_m))
                                            : "");
}

}  // namespace

absl::Status EngineImpl::NoCollection(const std::string& name) const {
  std::string list;
  size_t left = 20;  // of the names shown
  for (const auto& [known, served] : collections_) {
    if (left-- == 0) {
      list += ", ...";
      break;
    }
    list += StrCat(list.empty() ? "" : ", ", known);
  }
  return NotFound(StrCat("no collection '", name, "'; there are: ", list.empty() ? "none" : list));
}

absl::StatusOr<EngineImpl::ServedPtr> EngineImpl::Find(const std::string& name) const {
  absl::ReaderMutexLock lock(&catalog_mu_);
  if (const auto found = collections_.find(name); found != collections_.end()) return found->second;
  if (const auto alias = aliases_.find(name); alias != aliases_.end()) return alias->second;
  if (const auto refused = refused_.find(name); refused != refused_.end()) return refused->second;
  return NoCollection(name);
}

CollectionStatus EngineImpl::StatusOf(const Served& served) const {
  const Collection& collection = *served.collection;
  const auto state = collection.state();
  const ProgressRecord progress = collection.progress();
  IndexStats stats = collection.Stats();
  CollectionStatus status;
  status.name = state->record.name;
  status.metric = state->record.metric;
  status.curvature = state->record.curvature;
  status.index = state->record.index;
  status.active_generation = state->record.active_generation;
  const uint32_t view = status.active_generation != 0 ? status.active_generation : UINT32_MAX;
  std::map<uint32_t, uint64_t> by_generation;
  for (const auto& [generations, count] : progress.items) {
    by_generation[HeadGeneration(generations, view)] += count;
    status.items += count;
  }
  status.items_by_generation.assign(by_generation.begin(), by_generation.end());
  status.segments = std::move(stats.segments);
  status.index_choice = std::move(stats.choice);
  status.index_error = std::move(stats.last_error);
  status.write_error = served.writer.broken();
  status.payload_indexes = collection.payloads().Status();
  for (const PayloadIndexStatus& one : status.payload_indexes) {
    status.payload_index_bytes += static_cast<int64_t>(one.bytes);
  }
  status.aliases = state->record.aliases;
  status.created = absl::FromUnixMicros(state->record.created_us);
  status.sequence = progress.sequence;
  status.canary_generation = state->record.canary_generation;
  status.canary_share = state->record.canary_share;
  status.mapped_bytes = stats.mapped_bytes;
  status.heap_bytes = stats.heap_bytes + status.payload_index_bytes;
  for (const auto& [pair, adapter] : state->reach.adapters()) {
    status.heap_bytes += static_cast<int64_t>(adapter->adapter.bytes());
    if (adapter->rows != nullptr) status.heap_bytes += adapter->rows->bytes();
    if (adapter->carried == nullptr) continue;
    status.carried_rows += adapter->carried->rows();
    status.carried_bytes += adapter->carried->bytes();
  }
  status.mapped_bytes += status.carried_bytes;
  status.builds_total = stats.builds_total;
  status.rebuilds_total = stats.rebuilds_total;
  status.builds_running = stats.builds_running;
  status.segments_unchecked = stats.segments_unchecked;
  status.segments_damaged = stats.segments_damaged;
  return status;
}

std::string EngineImpl::IndexFolder(uint32_t collection) const {
  return StrCat(options_.data_folder, "/index/", collection);
}
std::string EngineImpl::EncoderFolder(uint32_t collection) const {
  return StrCat(options_.data_folder, "/encoders/", collection);
}
std::string EngineImpl::EncoderPath(uint32_t collection, uint32_t generation) const {
  return StrCat(EncoderFolder(collection), "/", generation, ".pt");
}

absl::StatusOr<std::optional<RequestRecord>> EngineImpl::FindRequest(const std::string& request_id,
                                                                     const std::string& method,
                                                                     const std::string& fingerprint) const {
  if (request_id.empty()) return std::optional<RequestRecord>();
  const auto stored = store_->Get(Table::kMeta, keys::Meta(RequestName(request_id)));
  if (absl::IsNotFound(stored.status())) return std::optional<RequestRecord>();
  LC_RETURN_IF_ERROR(stored.status());
  // It may stem from a write whose sync failed: who answers by it answers for its durability.
  LC_RETURN_IF_ERROR(store_->Sync());
  LC_ASSIGN_OR_RETURN(RequestRecord record, DecodeRequest(*stored));
  if (record.method != method || record.fingerprint != fingerprint) {
    return FieldError(absl::StatusCode::kAlreadyExists, "request_id", StrCat("'", request_id, "'"),
                      StrCat("an id that is new; this one belongs to a ", record.method, " with another content"));
  }
  return std::optional<RequestRecord>(std::move(record));
}

absl::StatusOr<std::optional<RequestRecord>> EngineImpl::FindRequestOn(const Collection& collection,
                                                                       const std::string& request_id,
                                                                       const std::string& method,
                                                                       const std::string& fingerprint) const {
  if (collection.dropped()) return NotFound(StrCat("collection '", collection.name(), "' has been dropped"));
  return FindRequest(request_id, method, fingerprint);
}

OperatorWrite EngineImpl::WriteOperation(const WriteBatch& batch) {
  const absl::Status status = store_->Write(batch, Durability::kDurable);
  if (status.ok()) return {true, status};
  if (absl::IsAborted(status)) return {false, status};  // refused before anything was written
  for (const WriteBatch::Operation& operation : batch.operations()) {
    const auto stored = store_->Get(operation.table, operation.key);
    if (!stored.ok() && !absl::IsNotFound(stored.status())) {
      return {false, Unavailable(StrCat("nobody knows before a restart whether this was stored: ", MessageOf(status),
                                        "; ", MessageOf(stored.status())))};
    }
    const bool there = operation.value ? stored.ok() && *stored == *operation.value : !stored.ok();
    if (!there) return {false, status};
  }
  return {true, status};
}

void EngineImpl::RecordRequest(const std::string& request_id, RequestRecord record, WriteBatch* batch) {
  if (request_id.empty()) return;
  const std::string key = keys::Meta(RequestName(request_id));
  batch->Expect(Table::kMeta, key, std::nullopt);
  batch->Put(Table::kMeta, key, Encode(record));
}

absl::StatusOr<CollectionStatus> EngineImpl::AnswerAgain(const RequestRecord& record, const std::string& name) {
  absl::ReaderMutexLock lock(&catalog_mu_);
  for (const auto& [known, served] : collections_) {
    if (served->collection->number() == record.collection) return StatusOf(*served);
  }
  return NotFound(StrCat("collection '", name, "' was made by this request, and dropped since"));
}

absl::StatusOr<CollectionStatus> EngineImpl::CreateCollection(const CreateCollectionCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_RETURN_IF_ERROR(CheckName(call.name, "name"));
  LC_RETURN_IF_ERROR(CheckPayloadFields(call.payload_fields, "payload_fields"));
  const bool lorentz = call.metric == Metric::kLorentz;
  if (lorentz && !(call.curvature >= kCurvatureMin && call.curvature <= kCurvatureMax)) {
    return InvalidField("curvature", StrCat(call.curvature), StrCat(kCurvatureMin, " .. ", kCurvatureMax));
  }
  const std::string fingerprint =
      StrCat(call.name, "|", MetricName(call.metric), "|", call.curvature, "|", TextOf(call.index),
             call.payload_fields.empty() ? "" : StrCat("|", DigestOf(TextOf(call.payload_fields))));
  absl::MutexLock lock(&operator_mu_);
  LC_ASSIGN_OR_RETURN(const auto before, FindRequest(call.request_id, "CreateCollection", fingerprint));
  if (before) return AnswerAgain(*before, call.name);
  const IndexSettings settings = call.index.Over(call.index_defaults);
  LC_RETURN_IF_ERROR(settings.Validate());
  {
    absl::ReaderMutexLock catalog(&catalog_mu_);
    if (collections_.contains(call.name) || aliases_.contains(call.name)) {
      return AlreadyExists(StrCat(collections_.contains(call.name) ? "a collection" : "an alias", " named '", call.name,
                                  "' exists already"));
    }
    if (const auto refused = refused_.find(call.name); refused != refused_.end()) return refused->second;
    if (static_cast<int64_t>(collections_.size()) >= options_.limits.collections_max) {
      return ResourceExhausted(StrCat("there are ", collections_.size(), " collections; allowed: at most ",
                                      options_.limits.collections_max));
    }
  }
  CollectionRecord record;
  record.name = call.name;
  record.metric = call.metric;
  record.curvature = lorentz ? call.curvature : 1.0;
  record.index = settings;
  record.payload_fields = call.payload_fields;
  record.created_us = NowMicros();
  const uint32_t number = next_collection_++;  // used up even if this fails: a write in doubt may hold it
  WriteBatch batch;
  batch.Put(Table::kMeta, keys::Meta(kNextCollectionName), StrCat(number + 1));
  batch.Expect(Table::kMeta, keys::CollectionName(call.name), std::nullopt);
  batch.Put(Table::kMeta, keys::CollectionName(call.name), StrCat(number));
  std::string encoded = Encode(record);
  batch.Put(Table::kCollections, keys::Collection(number), encoded);
  RecordRequest(call.request_id, {"CreateCollection", fingerprint, number, 0, 0, 0, NowMicros()}, &batch);
  // The index first: a folder without a record is nothing, a record without an index would fail the answer.
  LC_ASSIGN_OR_RETURN(auto collection, Collection::Open(number, store_.get(), IndexFolder(number), std::move(record),
                                                        std::move(encoded), {}, {}, {}, LimitsOfIndex()));
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) {
    collection.reset();
    std::error_code ignored;
    std::filesystem::remove_all(IndexFolder(number), ignored);
    return written.status;
  }
  auto served = std::make_shared<Served>(std::move(collection), options_.write_queue_max);
  const CollectionStatus status = StatusOf(*served);
  absl::MutexLock catalog(&catalog_mu_);
  collections_[call.name] = std::move(served);
  LC_RETURN_IF_ERROR(written.status);
  return status;
}

absl::StatusOr<std::vector<CollectionStatus>> EngineImpl::ListCollections() {
  std::vector<ServedPtr> all;
  {
    absl::ReaderMutexLock lock(&catalog_mu_);
    for (const auto& [name, served] : collections_) all.push_back(served);
  }
  std::vector<CollectionStatus> list;
  for (const ServedPtr& served : all) list.push_back(StatusOf(*served));
  return list;
}

std::vector<std::pair<std::string, absl::Status>> EngineImpl::RefusedCollections() const {
  absl::ReaderMutexLock lock(&catalog_mu_);
  std::vector<std::pair<std::string, absl::Status>> refused;
  for (const std::string& name : refused_names_) refused.emplace_back(name, refused_.at(name));
  return refused;
}

absl::StatusOr<CollectionStatus> EngineImpl::GetCollection(const std::string& name) {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
  return StatusOf(*served);
}

absl::Status EngineImpl::DropCollection(const std::string& name, const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  ServedPtr served;  // may be the last to know it: what it ends then nobody waits for under the lock
  absl::MutexLock lock(&operator_mu_);
  LC_ASSIGN_OR_RETURN(const auto before, FindRequest(request_id, "DropCollection", name));
  if (before) return absl::OkStatus();
  {
    absl::ReaderMutexLock catalog(&catalog_mu_);
    if (const auto refused = refused_.find(name); refused != refused_.end()) return refused->second;
    const auto found = collections_.find(name);
    if (found == collections_.end()) {
      if (aliases_.contains(name)) {
        return InvalidField("name", StrCat("'", name, "', an alias"), "the name of a collection");
      }
      return NoCollection(name);
    }
    served = found->second;
  }
  Collection& collection = *served->collection;
  OperatorWrite written;
  {
    absl::MutexLock operators(&collection.operator_mutex());
    const auto state = collection.state();
    WriteBatch batch;
    batch.Delete(Table::kMeta, keys::CollectionName(name));
    for (const std::string& alias : state->record.aliases) batch.Delete(Table::kMeta, keys::CollectionName(alias));
    batch.Delete(Table::kCollections, keys::Collection(collection.number()));
    // From here on a start ends the drop.
    batch.Put(Table::kMeta, keys::Meta(DroppingName(collection.number())), "");
    RecordRequest(request_id, {"DropCollection", name, collection.number(), 0, 0, 0, NowMicros()}, &batch);
    written = WriteOperation(batch);
    if (!written.in_store) return written.status;
    collection.MarkDropped();
    absl::MutexLock catalog(&catalog_mu_);
    collections_.erase(name);
    for (const std::string& alias : state->record.aliases) aliases_.erase(alias);
  }
  std::error_code ignored;
  std::filesystem::remove_all(EncoderFolder(collection.number()), ignored);
  for (Embedder* embedder : {&embedder_, &background_embedder_}) embedder->Forget(collection.number());
  return written.status;  // Whoever lets go of the collection last, most often we now, removes its data.
}

absl::Status EngineImpl::SetAlias(const std::string& alias, const std::string& name, const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  LC_RETURN_IF_ERROR(CheckName(alias, "alias"));
  const std::string fingerprint = StrCat(alias, "|", name);
  absl::MutexLock lock(&operator_mu_);
  LC_ASSIGN_OR_RETURN(const auto before, FindRequest(request_id, "SetAlias", fingerprint));
  if (before) return absl::OkStatus();
  {
    absl::ReaderMutexLock catalog(&catalog_mu_);
    if (const auto refused = refused_.find(alias); refused != refused_.end()) return refused->second;
  }
  if (name.empty()) return RemoveAlias(alias, request_id, fingerprint);
  LC_ASSIGN_OR_RETURN(const ServedPtr target, Find(name));
  ServedPtr old;
  {
    absl::ReaderMutexLock catalog(&catalog_mu_);
    if (collections_.contains(alias)) return AlreadyExists(StrCat("a collection named '", alias, "' exists already"));
    if (const auto found = aliases_.find(alias); found != aliases_.end()) old = found->second;
  }
  WriteBatch batch;
  const auto change = [&](Collection& collection, bool add) {
    const auto state = collection.state();
    CollectionRecord record = state->record;
    std::erase(record.aliases, alias);
    if (add) record.aliases.insert(std::upper_bound(record.aliases.begin(), record.aliases.end(), alias), alias);
    batch.Expect(Table::kCollections, keys::Collection(collection.number()), state->encoded);
    batch.Put(Table::kCollections, keys::Collection(collection.number()), Encode(record));
    return std::pair(std::move(record), state->generations);
  };
  // Both records stay as they are meanwhile; the lower number first, as everybody who needs two does.
  std::vector<Collection*> locked = {target->collection.get()};
  if (old != nullptr && old != target) locked.push_back(old->collection.get());
  std::sort(locked.begin(), locked.end(), [](auto* a, auto* b) { return a->number() < b->number(); });
  absl::MutexLock first(&locked.front()->operator_mutex());
  std::optional<absl::MutexLock> second;
  if (locked.size() > 1) second.emplace(&locked.back()->operator_mutex());
  std::vector<std::pair<Collection*, std::pair<CollectionRecord, std::vector<GenerationRecord>>>> changed;
  for (Collection* c : locked) changed.emplace_back(c, change(*c, c == target->collection.get()));
  batch.Put(Table::kMeta, keys::CollectionName(alias), StrCat(target->collection->number()));
  RecordRequest(request_id, {"SetAlias", fingerprint, target->collection->number(), 0, 0, 0, NowMicros()}, &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  for (auto& [c, records] : changed) c->Publish(std::move(records.first), std::move(records.second));
  absl::MutexLock catalog(&catalog_mu_);
  aliases_[alias] = target;
  return written.status;
}

absl::Status EngineImpl::RemoveAlias(const std::string& alias, const std::string& request_id,
                                     const std::string& fingerprint) {
  ServedPtr target;
  {
    absl::ReaderMutexLock catalog(&catalog_mu_);
    const auto found = aliases_.find(alias);
    if (found == aliases_.end()) return NotFound(StrCat("no alias '", alias, "'"));
    target = found->second;
  }
  Collection& collection = *target->collection;
  absl::MutexLock lock(&collection.operator_mutex());
  const auto state = collection.state();
  CollectionRecord record = state->record;
  std::erase(record.aliases, alias);
  WriteBatch batch;
  batch.Expect(Table::kCollections, keys::Collection(collection.number()), state->encoded);
  batch.Put(Table::kCollections, keys::Collection(collection.number()), Encode(record));
  batch.Delete(Table::kMeta, keys::CollectionName(alias));
  RecordRequest(request_id, {"SetAlias", fingerprint, collection.number(), 0, 0, 0, NowMicros()}, &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  collection.Publish(std::move(record), state->generations);
  absl::MutexLock catalog(&catalog_mu_);
  aliases_.erase(alias);
  return written.status;
}

absl::StatusOr<CollectionStatus> EngineImpl::Rebuild(const std::string& name, const IndexChange& index, bool wait,
                                                     const std::string& request_id, const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
  Collection& collection = *served->collection;
  {
    absl::MutexLock lock(&collection.operator_mutex());
    const std::string fingerprint = StrCat(name, "|", TextOf(index));
    LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, request_id, "Rebuild", fingerprint));
    if (!before) {
      const auto state = collection.state();
      CollectionRecord record = state->record;
      IndexSettings settings = index.Over(state->record.index);
      ++settings.rebuild;  // so that a start goes on with what this one does not end
      record.index = settings;
      LC_RETURN_IF_ERROR(settings.Validate());
      for (const GenerationRecord& generation : state->generations) {
        if (!generation.retired) LC_RETURN_IF_ERROR(settings.ValidateFor(generation.space.dimension));
      }
      WriteBatch batch;
      batch.Expect(Table::kCollections, keys::Collection(collection.number()), state->encoded);
      batch.Put(Table::kCollections, keys::Collection(collection.number()), Encode(record));
      RecordRequest(request_id, {"Rebuild", fingerprint, collection.number(), 0, 0, 0, NowMicros()}, &batch);
      const OperatorWrite written = WriteOperation(batch);
      if (!written.in_store) return written.status;
      collection.Publish(std::move(record), state->generations);
      LC_RETURN_IF_ERROR(collection.Reconfigure(settings));
      LC_RETURN_IF_ERROR(written.status);
    }
  }
  if (wait) LC_RETURN_IF_ERROR(collection.Flush(context));
  return StatusOf(*served);
}

}  // namespace lightcone::server
