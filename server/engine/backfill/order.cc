#include "server/engine/backfill/order.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/priority.h"
#include "base/status.h"
#include "server/engine/backfill/item_order.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kWriteRows = 1024;  // rows of the order in one batch
constexpr int kOrderNice = 10;       // An ordering gives way to searches.

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

void BackfillOrder::Halt() {
  {
    absl::MutexLock lock(&mu_);
    halted_ = true;
  }
  stop_ = true;
  if (orderer_.joinable()) orderer_.join();
  stop_ = false;
}

void BackfillOrder::Begin(BackfillRecord record, std::optional<FailureHeadFile> head) {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  LC_DCHECK(halted_ && !ordering_);
  halted_ = false;
  ++starts_;
  head_ = std::move(head);
  error_ = absl::OkStatus();
  growth_ = {};
  PutRecord(record);
  if (!record.ordered) StartLocked();
}

void BackfillOrder::Resume() {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  halted_ = false;
  ++starts_;
  if (record_ && !record_->ordered && error_.ok()) StartLocked();
}

void BackfillOrder::Start() {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  StartLocked();
}

bool BackfillOrder::MayOrder() const {
  return !halted_ && !record_->paused && IsDue(*record_) && !collection_->dropped();
}

void BackfillOrder::StartLocked() {
  if (ordering_ || !MayOrder()) return;
  if (orderer_.joinable()) orderer_.join();  // It has ended: it clears ordering_ last.
  BackfillRecord record = *record_;
  record.ordered = false;
  try {
    orderer_ = std::thread([this, record, head = head_] { RunOrdering(record, head ? &*head : nullptr); });
  } catch (const std::exception&) {
    error_ = absl::ResourceExhaustedError("no thread can be started to order the backfill");
    return;
  }
  error_ = absl::OkStatus();
  record_->ordered = false;
  ordering_ = true;
}

void BackfillOrder::PutRecord(const BackfillRecord& record) {
  record_ = record;
  embedding_generation_ = record.paused ? 0 : record.generation;
}

absl::Status BackfillOrder::StoreRecord(const BackfillRecord& record) const {
  WriteBatch batch;
  batch.Put(Table::kMeta, keys::Meta(BackfillName(collection_->number())), Encode(record));
  return collection_->store()->Write(batch, Durability::kDurable);
}

void BackfillOrder::RunOrdering(BackfillRecord record, const FailureHeadFile* head) {
  StandBack(kOrderNice);
  while (true) {
    absl::Status status = OrderOnce(&record, head);
    absl::MutexLock scan(scan_mu_);
    FollowPace(&record);
    record.ordered = true;
    if (status.ok()) status = StoreRecord(record);
    if (status.ok()) begin_order_();
    if (!status.ok() && !absl::IsCancelled(status)) {
      spdlog::error("collection '{}': ordering the backfill failed: {}", collection_->name(), MessageOf(status));
    }
    absl::MutexLock lock(&mu_);
    // A pause or a rollback that ended meanwhile left the ordering to this thread. One that lasts ends it here.
    if (absl::IsCancelled(status) && MayOrder()) continue;
    ordering_ = false;
    if (absl::IsCancelled(status)) return;
    error_ = status;
    if (status.ok()) record_ = record;
    return;
  }
}

void BackfillOrder::FollowPace(BackfillRecord* record) const {
  absl::MutexLock lock(&mu_);
  record->paused = record_->paused;
  record->embed_rate = record_->embed_rate;
  record->p99_ms_max = record_->p99_ms_max;
}

// Running out of memory ends the ordering, not the process.
absl::Status BackfillOrder::OrderOnce(BackfillRecord* record, const FailureHeadFile* head) {
  try {
    ordered_ = 0;
    record->ordered = false;
    record->ordered_sequence = collection_->published_sequence();
    {
      absl::MutexLock scan(scan_mu_);
      FollowPace(record);
      // A crash from here on finds a record without an order, and begins again.
      LC_RETURN_IF_ERROR(StoreRecord(*record));
    }
    return OrderItems(*record, head);
  } catch (...) {
    return Annotate(StatusOfException(), "ordering the backfill");
  }
}

absl::Status BackfillOrder::OrderItems(const BackfillRecord& record, const FailureHeadFile* head) {
  const uint32_t number = collection_->number();
  Store* const store = collection_->store();
  for (uint32_t g = 1; g < record.generation; ++g) {
    const keys::Range range = keys::GenerationRange(number, g);
    {
      const auto left = store->Scan(Table::kOrder, range.begin, range.end);
      LC_RETURN_IF_ERROR(left->status());
      // A deletion of a range begins a new log and flushes a table: not for nothing.
      if (left->Valid()) LC_RETURN_IF_ERROR(store->DeleteRange(Table::kOrder, range.begin, range.end));
    }
    if (collection_->Pin()->VisibleRows(g, record.generation) == 0) continue;
    OrderCall call{collection_, g, record.generation, g == record.head_generation ? head : nullptr, {}, &ordered_};
    call.cancelled = [this, &record] {
      return stop_.load() || embedding_generation() == 0 || collection_->dropped() || !IsDue(record);
    };
    LC_ASSIGN_OR_RETURN(const std::vector<OrderedItem> order, EstimateOrder(call));
    for (size_t begin = 0; begin < order.size(); begin += kWriteRows) {
      LC_RETURN_IF_ERROR(store->CheckGrowth(kWriteRows * keys::Order(0, 0, 0, 0).size()));
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

OperatorWrite BackfillOrder::SetPaused(bool paused, absl::FunctionRef<OperatorWrite(const WriteBatch&)> write,
                                       WriteBatch also, const StartBackfillCall* pace) {
  scan_mu_->AssertHeld();
  std::optional<BackfillRecord> record = this->record();
  if (!record) {
    return {false, NotFound(StrCat("no backfill of collection '", collection_->name(), "' was ever started"))};
  }
  record->paused = paused;
  if (pace != nullptr && pace->embed_rate) {
    record->embed_rate = *pace->embed_rate;
    record->p99_ms_max = pace->p99_ms_max;
  }
  also.Put(Table::kMeta, keys::Meta(BackfillName(collection_->number())), Encode(*record));
  OperatorWrite written = write(also);
  if (!written.in_store) return written;
  absl::MutexLock lock(&mu_);
  PutRecord(*record);
  if (paused) return written;
  ++starts_;
  if (!record->ordered || !error_.ok()) StartLocked();
  return written;
}

std::optional<BackfillRecord> BackfillOrder::record() const {
  absl::MutexLock lock(&mu_);
  return record_;
}

bool BackfillOrder::IsDue(const BackfillRecord& record) const {
  const auto state = collection_->state();
  const uint32_t active = state->record.active_generation;
  if (record.generation == active) return true;
  const GenerationRecord* const generation = state->Find(record.generation);
  // One that served since then was rolled back.
  return record.ahead && record.generation > active && generation != nullptr && !generation->retired &&
         generation->activated_us <= record.started_us;
}

bool BackfillOrder::IsWanted() const {
  absl::MutexLock lock(&mu_);
  return record_ && !record_->paused && IsDue(*record_);
}

BackfillState BackfillOrder::StateLocked(uint64_t left) const {
  if (!record_) return BackfillState::kNone;
  if (!IsDue(*record_)) return BackfillState::kStopped;
  if (!error_.ok()) return BackfillState::kFailed;
  if (record_->paused) return BackfillState::kPaused;
  if (!record_->ordered) return BackfillState::kOrdering;
  return left == 0 ? BackfillState::kDone : BackfillState::kRunning;
}

std::optional<BackfillOrder::Snapshot> BackfillOrder::TakeSnapshot() const {
  absl::MutexLock lock(&mu_);
  if (!record_) return std::nullopt;
  const uint64_t left = CountsOf(collection_->progress(), record_->generation).left;
  return Snapshot{*record_, left, StateLocked(left)};
}

BackfillStatus BackfillOrder::Status() const {
  absl::MutexLock lock(&mu_);
  BackfillStatus status;
  status.generation = record_ ? record_->generation : collection_->state()->record.active_generation;
  const BackfillCounts counts =
      status.generation == 0 ? BackfillCounts() : CountsOf(collection_->progress(), status.generation);
  status.state = StateLocked(counts.left);
  status.items_done = counts.done;
  status.items_left = counts.left;
  if (!record_) return status;
  status.head_generation = record_->head_generation;
  status.items_ordered = record_->ordered ? counts.left : static_cast<uint64_t>(ordered_.load());
  status.started = absl::FromUnixMicros(record_->started_us);
  status.error = error_;
  status.embed_rate = record_->embed_rate;
  status.ahead = record_->generation != collection_->state()->record.active_generation && IsDue(*record_);
  status.items_per_second = growth_.PerSecond();
  return status;
}

void BackfillOrder::NoteProgress(absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (!record_ || !growth_.Due(now)) return;
  const BackfillCounts counts = CountsOf(collection_->progress(), record_->generation);
  const bool serves = record_->generation == collection_->state()->record.active_generation;
  if (std::exchange(growth_serves_, serves) != serves) growth_ = {};
  // New items are done where their generation serves, and left where it does not: only the other count is the
  // backfill's alone.
  growth_.Note(now, serves ? UINT64_MAX - counts.left : counts.done);
}

uint64_t BackfillOrder::starts() const {
  absl::MutexLock lock(&mu_);
  return starts_;
}

}  // namespace lightcone::server
