#include "server/engine/backfill/backfill.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/priority.h"
#include "base/status.h"
#include "server/engine/backfill/item_order.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kWriteRows = 1024;   // of the order a batch
constexpr int kOrderNice = 10;        // an ordering gives way to searches
constexpr size_t kLeaseBlock = 1024;  // keys of the order that are looked at together, at most
constexpr size_t kAsideShown = 10;
constexpr size_t kLeaseLooks = 65'536;  // that one call looks at, at most: others wait for it

// The first key behind `key`.
std::string Behind(std::string key) {
  key.push_back('\0');
  return key;
}

}  // namespace

BackfillCounts CountsOf(const ProgressRecord& progress, uint32_t generation) {
  BackfillCounts counts;
  for (const auto& [generations, count] : progress.items) {
    if (HeadGeneration(generations, generation) >= generation) {
      counts.done += count;
    } else if (generations.back() < generation) {
      counts.left += count;
    }
  }
  return counts;
}

void Backfill::Halt() {
  {
    absl::MutexLock lock(&mu_);
    halted_ = true;
  }
  stop_ = true;
  if (orderer_.joinable()) orderer_.join();
  stop_ = false;
}

void Backfill::Begin(BackfillRecord record, std::optional<FailureHeadFile> head) {
  absl::MutexLock lock(&mu_);
  halted_ = false;
  ++starts_;
  record_ = record;
  head_ = std::move(head);
  error_ = absl::OkStatus();
  Forget();
  paused_ = record.paused;
  embeds_ = record.paused ? 0 : record.generation;
  if (!record.ordered) StartOrdering();
}

void Backfill::Forget() {
  cursor_ = keys::CollectionRange(collection_->number()).begin;
  returned_.clear();
  retry_.clear();
  leases_.clear();
  leased_.clear();
  passed_.clear();
  tried_.clear();
  behind_.clear();
  BeginPasses();
  aside_.clear();
  embed_error_ = absl::OkStatus();
  embed_stopped_ = false;
  growth_ = {};
}

void Backfill::Resume() {
  absl::MutexLock lock(&mu_);
  halted_ = false;
  ++starts_;
  if (record_ && !record_->ordered && error_.ok()) StartOrdering();
}

bool Backfill::Wanted(const BackfillRecord& record) const {
  return !halted_ && !record_->paused && Current(record) && !collection_->dropped();
}

void Backfill::StartOrdering() {
  if (ordering_ || !Wanted(*record_)) return;
  if (orderer_.joinable()) orderer_.join();  // at its end: it has said so under mu_
  BackfillRecord record = *record_;
  record.ordered = false;
  try {
    orderer_ = std::thread([this, record, head = head_] { Order(record, head ? &*head : nullptr); });
  } catch (const std::exception&) {
    error_ = absl::ResourceExhaustedError("no thread can be started to order the backfill");
    return;
  }
  error_ = absl::OkStatus();
  record_->ordered = false;
  ordering_ = true;
}

absl::Status Backfill::StoreRecord(const BackfillRecord& record) const {
  WriteBatch batch;
  batch.Put(Table::kMeta, keys::Meta(BackfillName(collection_->number())), Encode(record));
  return collection_->store()->Write(batch, Durability::kDurable);
}

void Backfill::Order(BackfillRecord record, const FailureHeadFile* head) {
  StandBack(kOrderNice);
  while (true) {
    const absl::Status status = OrderOnce(&record, head);
    absl::MutexLock lock(&mu_);
    FollowPace(&record);
    // A pause or a rollback that ended meanwhile begins it again here, else the call that ends it does (SetPaused,
    // Resume).
    if (absl::IsCancelled(status) && Wanted(record)) continue;
    ordering_ = false;
    if (absl::IsCancelled(status)) return;
    record.ordered = true;
    error_ = status.ok() ? StoreRecord(record) : status;
    if (!error_.ok()) {
      spdlog::error("collection '{}': ordering the backfill failed: {}", collection_->name(), MessageOf(error_));
      return;
    }
    record_ = record;
    ++orders_;
    cursor_ = keys::CollectionRange(collection_->number()).begin;
    // What waits here is in the new order, by a key of its own.
    returned_.clear();
    retry_.clear();
    for (auto& [internal_id, key] : passed_) key.clear();
    behind_.clear();
    BeginPasses();
    return;
  }
}

void Backfill::FollowPace(BackfillRecord* record) const {
  record->paused = record_->paused;
  record->embed_rate = record_->embed_rate;
  record->p99_ms_max = record_->p99_ms_max;
}

// Running out of memory ends the ordering, not the process.
absl::Status Backfill::OrderOnce(BackfillRecord* record, const FailureHeadFile* head) {
  try {
    ordered_ = 0;
    record->ordered_sequence = collection_->published_sequence();
    {
      absl::MutexLock lock(&mu_);
      FollowPace(record);
      // A crash from here on finds a record without an order, and begins again.
      LC_RETURN_IF_ERROR(StoreRecord(*record));
    }
    return OrderItems(*record, head);
  } catch (...) {
    return Annotate(StatusOfException(), "ordering the backfill");
  }
}

absl::Status Backfill::OrderItems(const BackfillRecord& record, const FailureHeadFile* head) {
  const uint32_t number = collection_->number();
  Store* const store = collection_->store();
  for (uint32_t g = 1; g < record.generation; ++g) {
    const keys::Range range = keys::GenerationRange(number, g);
    LC_RETURN_IF_ERROR(store->DeleteRange(Table::kOrder, range.begin, range.end));
    if (collection_->Pin()->VisibleRows(g, record.generation) == 0) continue;
    OrderCall call{collection_, g, record.generation, g == record.head_generation ? head : nullptr, {}, &ordered_};
    call.cancelled = [this, &record] {
      return stop_.load() || paused_.load() || collection_->dropped() || !Current(record);
    };
    LC_ASSIGN_OR_RETURN(const std::vector<OrderedItem> order, EstimateOrder(call));
    for (size_t begin = 0; begin < order.size(); begin += kWriteRows) {
      WriteBatch batch;
      for (size_t i = begin; i < std::min(order.size(), begin + kWriteRows); ++i) {
        batch.Put(Table::kOrder, keys::Order(number, g, order[i].uncertainty, order[i].internal_id), "");
      }
      LC_RETURN_IF_ERROR(store->Write(batch, Durability::kProcess));
      if (call.cancelled()) return absl::CancelledError("the backfill was halted");
    }
  }
  return absl::OkStatus();
}

absl::Status Backfill::SetPaused(bool paused, absl::FunctionRef<OperatorWrite(const WriteBatch&)> write,
                                 WriteBatch also, const StartBackfillCall* pace) {
  absl::MutexLock lock(&mu_);
  if (!record_) return NotFound(StrCat("no backfill of collection '", collection_->name(), "' was ever started"));
  BackfillRecord record = *record_;
  record.paused = paused;
  if (pace != nullptr && pace->embed_rate) {
    record.embed_rate = *pace->embed_rate;
    record.p99_ms_max = pace->p99_ms_max;
  }
  also.Put(Table::kMeta, keys::Meta(BackfillName(collection_->number())), Encode(record));
  const OperatorWrite written = write(also);
  if (!written.in_store) return written.status;
  record_ = record;
  paused_ = paused;
  embeds_ = paused ? 0 : record.generation;
  if (!paused) {
    tried_.clear();
    embed_error_ = absl::OkStatus();
    ++starts_;
  }
  if (!paused && embed_stopped_) {  // it was the encoder, or so it seemed, and not these items
    embed_stopped_ = false;
    aside_.clear();
    BeginPasses();
  }
  if (!paused && (!record.ordered || !error_.ok())) StartOrdering();
  return written.status;
}

std::optional<BackfillRecord> Backfill::record() const {
  absl::MutexLock lock(&mu_);
  return record_;
}

bool Backfill::Current(const BackfillRecord& record) const {
  return collection_->state()->record.active_generation == record.generation;
}

BackfillState Backfill::StateNow(uint64_t left) const {
  if (!record_) return BackfillState::kNone;
  if (!Current(*record_)) return BackfillState::kStopped;
  if (!error_.ok()) return BackfillState::kFailed;
  if (record_->paused) return BackfillState::kPaused;
  if (!record_->ordered) return BackfillState::kOrdering;
  return left == 0 ? BackfillState::kDone : BackfillState::kRunning;
}

BackfillStatus Backfill::Status() const {
  absl::MutexLock lock(&mu_);
  BackfillStatus status;
  const uint32_t generation = record_ ? record_->generation : collection_->state()->record.active_generation;
  const BackfillCounts counts = generation == 0 ? BackfillCounts() : CountsOf(collection_->progress(), generation);
  status.state = StateNow(counts.left);
  status.generation = generation;
  status.items_done = counts.done;
  status.items_left = counts.left;
  for (const auto& [token, lease] : leases_) {
    if (lease.ends > LeaseClock::now()) status.items_leased += lease.items.size();
  }
  status.embedded_total = embedded_.load();
  if (!record_) return status;
  status.head_generation = record_->head_generation;
  status.items_ordered = record_->ordered ? counts.left : static_cast<uint64_t>(ordered_.load());
  status.started = absl::FromUnixMicros(record_->started_us);
  status.error = error_.ok() ? embed_error_ : error_;
  status.embed_rate = record_->embed_rate;
  status.items_per_second = growth_.PerSecond();
  if (counts.left == 0) return status;  // somebody else embedded what was set aside, or deleted it
  status.items_aside = aside_.size();
  for (const auto& [id, item] : aside_) {
    if (status.aside.size() < kAsideShown) status.aside.push_back(item);
  }
  return status;
}

void Backfill::NoteProgress(absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (!record_ || !growth_.Due(now)) return;
  // What is left falls by backfill alone; what is done also grows by items that are new.
  growth_.Note(now, UINT64_MAX - CountsOf(collection_->progress(), record_->generation).left);
}

void Backfill::TakeBack(const std::string& finished_token) {
  const LeaseClock::time_point now = LeaseClock::now();
  std::erase_if(leases_, [&](const auto& entry) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto& [token, lease] = entry;
    if (lease.ends > now && (token != finished_token || lease.own)) return false;
    NoteTried(lease, token == finished_token);
    GiveBack(lease, token == finished_token ? &retry_ : &returned_);
    return true;
  });
}

void Backfill::GiveBack(const OpenLease& lease, std::set<std::string>* keys) {
  for (const Leased& item : lease.items) {
    std::string key = Release(item);
    if (!key.empty()) keys->insert(std::move(key));
  }
}

absl::StatusOr<std::vector<std::string>> Backfill::NextKeys(size_t count, bool* through) {
  // Both run in the order of their keys; what came back is behind nothing.
  std::vector<std::string> found;
  const std::string end = keys::GenerationRange(collection_->number(), record_->generation).begin;
  const auto rows = collection_->store()->Scan(Table::kOrder, cursor_, end);
  while (found.size() < count) {
    if (!returned_.empty() && (!rows->Valid() || *returned_.begin() < rows->key())) {
      found.push_back(std::move(returned_.extract(returned_.begin()).value()));
    } else if (rows->Valid()) {
      found.emplace_back(rows->key());
      cursor_ = Behind(found.back());
      rows->Next();
    } else {
      *through = true;
      if (retry_.empty()) break;
      const auto next = retry_.upper_bound(retry_cursor_);
      found.push_back(std::move(retry_.extract(next == retry_.end() ? retry_.begin() : next).value()));
      retry_cursor_ = found.back();
    }
  }
  if (!rows->status().ok()) returned_.insert(found.begin(), found.end());
  LC_RETURN_IF_ERROR(rows->status());
  return found;
}

absl::Status Backfill::LeaseKeys(const std::vector<std::string>& order_keys, size_t wanted, LeaseAnswer* answer,
                                 OpenLease* lease, WriteBatch* gone) {
  std::vector<uint64_t> ids;
  for (const std::string& key : order_keys) {
    LC_ASSIGN_OR_RETURN(const keys::EmbeddingKey parsed, keys::ParseOrder(key));
    ids.push_back(parsed.internal_id);
  }
  LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> rows, collection_->CurrentRows(ids));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (answer->items.size() == wanted) {
      returned_.insert(order_keys[i]);
      continue;
    }
    const ItemRecord& record = rows[i].record;
    if (!rows[i].found || !Waits(record)) {
      gone->Delete(Table::kOrder, order_keys[i]);
      aside_.erase(ids[i]);
      continue;
    }
    LC_ASSIGN_OR_RETURN(const float uncertainty, keys::OrderUncertainty(order_keys[i]));
    if (behind_.erase(ids[i]) > 0) {
      retry_.insert(order_keys[i]);
      continue;
    }
    if (!Hold(ids[i], order_keys[i])) continue;  // by another key of it, or because a search found it
    const uint32_t head = HeadGeneration(record.generations, record_->generation);
    answer->items.push_back({std::move(rows[i].id), record.sequence, head, uncertainty, record.has_input});
    lease->items.push_back({order_keys[i], ids[i]});
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Backfill::LeaseWorst(size_t wanted, LeaseAnswer* answer, OpenLease* lease) {
  const auto skip = [this](const ItemRecord& record) {
    mu_.AssertHeld();
    return tried_.contains(record.internal_id);
  };
  for (Found& item : TakeFound(&for_workers_, wanted, skip, lease)) {
    answer->items.push_back(
        {std::move(item.id), item.record.sequence, item.generation, 0, item.record.has_input, true});
  }
  size_t block = wanted;
  bool through = false;
  for (size_t looked = 0; answer->items.size() < wanted && looked < kLeaseLooks;) {
    LC_ASSIGN_OR_RETURN(const std::vector<std::string> keys, NextKeys(block, &through));
    if (keys.empty()) break;
    looked += keys.size();
    block = std::max(wanted, std::min(kLeaseBlock, 2 * block));
    WriteBatch gone;
    const absl::Status leased = LeaseKeys(keys, wanted, answer, lease, &gone);
    if (!leased.ok()) returned_.insert(keys.begin(), keys.end());
    LC_RETURN_IF_ERROR(leased);
    // Keys of what is done only cost a look at the next start, so their removal need not be durable.
    if (!gone.empty()) LC_RETURN_IF_ERROR(collection_->store()->Write(gone, Durability::kProcess));
  }
  return through;
}

bool Backfill::HasUnordered() const {
  if (collection_->published_sequence() <= record_->ordered_sequence) return false;
  uint64_t waiting = 0;
  for (const auto& [generations, count] : collection_->progress().items) {
    // What a newer generation embedded, before a rollback, is never ordered.
    if (generations.back() < record_->generation) waiting += count;
  }
  // An item may be known by keys of several orders.
  absl::flat_hash_set<uint64_t> known = leased_;
  for (const std::set<std::string>* keys : {&retry_, &returned_}) {
    for (const std::string& key : *keys) {
      const auto parsed = keys::ParseOrder(key);
      if (parsed.ok()) known.insert(parsed->internal_id);
    }
  }
  return waiting > known.size();
}

absl::Status Backfill::Renew(const std::string& token, absl::Duration timeout) {
  const auto lease = leases_.find(token);
  if (lease == leases_.end() || lease->second.own) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "renew_token", token,
                      "the token of an open lease; one ends by its timeout, as finished_token, by a restart, and by a "
                      "start of the backfill");
  }
  lease->second.ends = LeaseClock::now() + absl::ToChronoNanoseconds(timeout);
  return absl::OkStatus();
}

absl::StatusOr<LeaseAnswer> Backfill::Lease(const LeaseCall& call) {
  absl::MutexLock lock(&mu_);
  if (!record_) {
    return FailedPrecondition(StrCat("no backfill of collection '", collection_->name(), "' was started; start one"));
  }
  TakeBack(call.finished_token);
  LeaseAnswer answer;
  answer.generation = record_->generation;
  answer.state = StateNow(CountsOf(collection_->progress(), record_->generation).left);
  answer.expires = absl::Now() + call.timeout;
  if (!call.renew_token.empty()) {
    LC_RETURN_IF_ERROR(Renew(call.renew_token, call.timeout));
    answer.token = call.renew_token;
    return answer;
  }
  if (answer.state != BackfillState::kRunning) return answer;
  OpenLease lease{LeaseClock::now() + absl::ToChronoNanoseconds(call.timeout), {}};
  const absl::StatusOr<bool> through = LeaseWorst(static_cast<size_t>(call.items_max), &answer, &lease);
  if (!through.ok()) GiveBack(lease, &returned_);
  LC_RETURN_IF_ERROR(through.status());
  if (!answer.items.empty()) {
    answer.token = absl::StrCat(absl::Hex(nonce_), "-", next_token_++);
    leases_.emplace(answer.token, std::move(lease));
  }
  if (*through && HasUnordered()) {
    StartOrdering();
    if (answer.items.empty()) answer.state = BackfillState::kOrdering;
  }
  return answer;
}

}  // namespace lightcone::server
