#include "server/engine/backfill/embedding.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kRowsAtOnce = 256;
constexpr size_t kTurnLooksMax = 16'384;  // most rows that one turn looks at, because leases wait for it
constexpr size_t kAsideMax = 10'000;      // most items that are kept with a reason; beyond, embedding stops
constexpr size_t kAsideShown = 10;
constexpr absl::Duration kAfterNothing = absl::Minutes(1);  // between passes

}  // namespace

void BackfillEmbedding::Clear() {
  BeginPasses();
  absl::MutexLock lock(&mu_);
  aside_.clear();
  error_ = absl::OkStatus();
  stopped_ = false;
}

void BackfillEmbedding::BeginPasses(absl::Time next_pass) {
  absl::MutexLock lock(&mu_);
  cursor_.clear();
  passed_by_ = taken_ = 0;
  next_pass_ = next_pass;
}

void BackfillEmbedding::Retry() {
  if (stopped()) return Clear();  // The encoder was at fault, or seemed so, and not the items.
  SetError(absl::OkStatus(), /*stop=*/false);
}

bool BackfillEmbedding::IsReady(absl::Time now) const {
  absl::MutexLock lock(&mu_);
  if (aside_.size() >= kAsideMax || stopped_) return false;
  // A clock that was set back makes nobody wait.
  return now >= next_pass_ || next_pass_ - now > kAfterNothing;
}

bool BackfillEmbedding::CanEmbed(const ItemRecord& record) const {
  return record.has_input && !aside_.contains(record.internal_id);
}

absl::StatusOr<EmbedTurn> BackfillEmbedding::TakeTurn(size_t wanted, absl::Duration between_passes, uint32_t generation,
                                                      uint64_t left, bool* unordered) {
  scan_mu_->AssertHeld();
  EmbedTurn turn;
  turn.generation = generation;
  BackfillLeases::HeldItems held;
  const auto hold = [&](const ItemRecord& record) {
    absl::MutexLock lock(&mu_);
    if (!CanEmbed(record) || !leases_->Hold(record.internal_id, /*touched=*/true)) return false;
    held.push_back({"", record.internal_id});
    ++taken_;
    return true;
  };
  for (TouchedItem& item : TakeTouched(*collection_, &touched_, wanted, generation, hold)) {
    turn.items.push_back({std::move(item.id), item.record.sequence, item.record.internal_id});
  }
  const absl::Status taken = TakeRest(wanted, between_passes, left, &turn, &held, unordered);
  if (!taken.ok()) leases_->ReleaseItems(held);
  LC_RETURN_IF_ERROR(taken);
  if (!turn.items.empty()) turn.token = leases_->OpenTurn(std::move(held));
  return turn;
}

absl::Status BackfillEmbedding::TakeRest(size_t wanted, absl::Duration between_passes, uint64_t left, EmbedTurn* turn,
                                         BackfillLeases::HeldItems* held, bool* unordered) {
  for (size_t looked = 0; turn->items.size() < wanted && looked < kTurnLooksMax;) {
    std::string begin;
    {
      absl::MutexLock lock(&mu_);
      begin = cursor_.empty() ? keys::CollectionRange(collection_->number()).begin : cursor_;
    }
    LC_ASSIGN_OR_RETURN(const std::vector<std::string> order_keys,
                        ScanOrder(*collection_, begin, turn->generation, kRowsAtOnce));
    if (order_keys.empty()) {
      // If the turn has items, the next call sees what became of them.
      if (turn->items.empty()) *unordered = EndPass(between_passes, left);
      break;
    }
    looked += order_keys.size();
    LC_ASSIGN_OR_RETURN(std::vector<OrderRow> rows, ReadOrder(*collection_, order_keys, turn->generation));
    LC_RETURN_IF_ERROR(RemoveFromOrder(*collection_, TakeRows(std::move(rows), wanted, turn, held)));
  }
  return absl::OkStatus();
}

std::vector<OrderRow> BackfillEmbedding::TakeRows(std::vector<OrderRow> rows, size_t wanted, EmbedTurn* turn,
                                                  BackfillLeases::HeldItems* held) {
  std::vector<OrderRow> gone;
  absl::MutexLock lock(&mu_);
  for (OrderRow& row : rows) {
    if (turn->items.size() == wanted) break;
    cursor_ = row.key + '\0';
    if (!row.waits) {
      aside_.erase(row.internal_id);
      gone.push_back(std::move(row));
    } else if (!CanEmbed(row.record)) {
      ++passed_by_;
    } else if (leases_->Hold(row.internal_id, /*touched=*/false)) {
      ++taken_;
      turn->items.push_back({std::move(row.id), row.record.sequence, row.internal_id});
      held->push_back({std::move(row.key), row.internal_id});
    }
  }
  return gone;
}

// Items that somebody held, or that came since, are for the next pass. If a pass has taken nothing, items that are left
// and that it did not pass by are in no order.
bool BackfillEmbedding::EndPass(absl::Duration between_passes, uint64_t left) {
  bool idle = false, others = false;
  {
    absl::MutexLock lock(&mu_);
    idle = taken_ == 0;
    others = idle && left > passed_by_;
  }
  BeginPasses(absl::Now() + (idle ? kAfterNothing : between_passes));
  return others;
}

void BackfillEmbedding::FinishTurn(const EmbedTurn& turn, std::vector<AsideItem> failed) {
  scan_mu_->AssertHeld();
  // The lease ends first: whoever sees an item set aside sees it free.
  if (!leases_->FinishTurn(turn.token)) return;
  absl::MutexLock lock(&mu_);
  passed_by_ += failed.size();
  for (AsideItem& item : failed) aside_.insert_or_assign(item.internal_id, std::move(item));
}

void BackfillEmbedding::SetError(absl::Status error, bool stop) {
  absl::MutexLock lock(&mu_);
  error_ = std::move(error);
  stopped_ = stop;
}

bool BackfillEmbedding::stopped() const {
  absl::MutexLock lock(&mu_);
  return stopped_;
}

void BackfillEmbedding::ForgetAside(const std::vector<uint64_t>& internal_ids) {
  absl::MutexLock lock(&mu_);
  for (const uint64_t id : internal_ids) aside_.erase(id);
}

void BackfillEmbedding::AddTo(BackfillStatus* status) const {
  absl::MutexLock lock(&mu_);
  if (status->error.ok()) status->error = error_;
  if (status->items_left == 0) return;  // Others embedded or deleted the items that were set aside.
  status->items_aside = aside_.size();
  for (const auto& [id, item] : aside_) {
    if (status->aside.size() < kAsideShown) status->aside.push_back(item);
  }
}

}  // namespace lightcone::server
