#include "server/engine/backfill/leases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kBlockMax = 1024;                      // most rows that are read at once
constexpr size_t kLeaseLooksMax = 65'536;               // most rows that one call looks at, because others wait for it
constexpr absl::Duration kTurnMax = absl::Minutes(30);  // Then a turn's items are free for all.

}  // namespace

void BackfillLeases::Clear() {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  leases_.clear();
  held_.clear();
  passed_.clear();
  tried_.clear();
  behind_.clear();
  cursor_ = keys::CollectionRange(collection_->number()).begin;
  pending_.clear();
  retry_.clear();
}

void BackfillLeases::BeginOrder() {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  ++orders_;
  cursor_ = keys::CollectionRange(collection_->number()).begin;
  // The new order has a key of its own for each of these items.
  pending_.clear();
  retry_.clear();
  behind_.clear();
  for (auto& [internal_id, key] : passed_) key.clear();
}

void BackfillLeases::ForgetTried() {
  absl::MutexLock lock(&mu_);
  tried_.clear();
}

uint64_t BackfillLeases::CountHeldItems() const {
  absl::MutexLock lock(&mu_);
  uint64_t count = 0;
  for (const auto& [token, lease] : leases_) count += lease.ends > Clock::now() ? lease.items.size() : 0;
  return count;
}

void BackfillLeases::TakeBack(const std::string& finished_token, uint32_t generation) {
  scan_mu_->AssertHeld();
  std::vector<std::pair<OpenLease, bool>> ended;  // with whether a worker finished it
  {
    absl::MutexLock lock(&mu_);
    for (auto next = leases_.begin(); next != leases_.end();) {
      auto& [token, lease] = *next;
      const bool finished = token == finished_token && !lease.own;
      if (finished || lease.ends <= Clock::now()) {
        ended.emplace_back(std::move(lease), finished);
        next = leases_.erase(next);
      } else {
        ++next;
      }
    }
  }
  for (const auto& [lease, finished] : ended) {
    const std::vector<uint64_t> undone = ReadUndoneTouched(lease, generation);
    absl::MutexLock lock(&mu_);
    for (const uint64_t id : undone) {
      tried_.insert(id);
      const auto passed = passed_.find(id);
      if (finished && passed != passed_.end() && passed->second.empty()) behind_.insert(id);
    }
    ReleaseInto(lease.items, finished ? &retry_ : &pending_);
  }
}

std::vector<uint64_t> BackfillLeases::ReadUndoneTouched(const OpenLease& lease, uint32_t generation) const {
  std::vector<uint64_t> ids;
  for (const HeldItem& item : lease.items) {
    if (item.order_key.empty()) ids.push_back(item.internal_id);
  }
  if (ids.empty() || lease.own) return {};
  const absl::StatusOr<std::vector<ResolvedRow>> rows = collection_->CurrentRows(ids);
  if (!rows.ok()) return ids;
  size_t next = 0;
  std::erase_if(ids, [&](uint64_t) {
    const ResolvedRow& row = (*rows)[next++];
    return !row.found || !WaitsFor(row.record, generation);
  });
  return ids;
}

absl::Status BackfillLeases::Renew(const std::string& token, absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  const auto lease = leases_.find(token);
  if (lease == leases_.end() || lease->second.own) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "renew_token", token,
                      "the token of an open lease; one ends by its timeout, as finished_token, by a restart, and by a "
                      "start of the backfill");
  }
  lease->second.ends = Clock::now() + absl::ToChronoNanoseconds(timeout);
  return absl::OkStatus();
}

absl::StatusOr<bool> BackfillLeases::LeaseWorst(const LeaseCall& call, LeaseAnswer* answer,
                                                std::vector<uint64_t>* done) {
  scan_mu_->AssertHeld();
  const auto wanted = static_cast<size_t>(call.items_max);
  OpenLease lease{Clock::now() + absl::ToChronoNanoseconds(call.timeout), {}};
  const auto hold = [&](const ItemRecord& record) {
    {
      absl::MutexLock lock(&mu_);
      if (tried_.contains(record.internal_id)) return false;
    }
    if (!Hold(record.internal_id, /*touched=*/true)) return false;
    lease.items.push_back({"", record.internal_id});
    return true;
  };
  for (TouchedItem& item : TakeTouched(*collection_, &touched_, wanted, answer->generation, hold)) {
    const ItemRecord& record = item.record;
    const uint32_t head = HeadGeneration(record.generations, answer->generation);
    answer->items.push_back({std::move(item.id), record.sequence, head, 0, record.has_input, /*found_lately=*/true});
  }
  bool through = false;
  const absl::Status leased = LeaseRest(wanted, answer, &lease.items, done, &through);
  if (!leased.ok()) ReleaseItems(lease.items);
  LC_RETURN_IF_ERROR(leased);
  if (!answer->items.empty()) answer->token = Open(std::move(lease), "-");
  return through;
}

absl::Status BackfillLeases::LeaseRest(size_t wanted, LeaseAnswer* answer, HeldItems* held, std::vector<uint64_t>* done,
                                       bool* through) {
  size_t block = wanted;
  for (size_t looked = 0; answer->items.size() < wanted && looked < kLeaseLooksMax;) {
    LC_ASSIGN_OR_RETURN(const std::vector<std::string> order_keys, NextKeys(block, answer->generation, through));
    if (order_keys.empty()) break;
    looked += order_keys.size();
    block = std::max(wanted, std::min(kBlockMax, 2 * block));
    absl::StatusOr<std::vector<OrderRow>> rows = ReadOrder(*collection_, order_keys, answer->generation);
    if (!rows.ok()) {
      absl::MutexLock lock(&mu_);
      pending_.insert(order_keys.begin(), order_keys.end());
      return rows.status();
    }
    const std::vector<OrderRow> gone = LeaseRows(*std::move(rows), wanted, answer, held);
    for (const OrderRow& row : gone) done->push_back(row.internal_id);
    LC_RETURN_IF_ERROR(RemoveFromOrder(*collection_, gone));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> BackfillLeases::NextKeys(size_t count, uint32_t generation, bool* through) {
  std::string begin;
  {
    absl::MutexLock lock(&mu_);
    begin = cursor_;
  }
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> scanned, ScanOrder(*collection_, begin, generation, count));
  absl::MutexLock lock(&mu_);
  std::vector<std::string> order_keys;
  // The keys before the cursor and those behind it are merged in the order of both.
  for (auto next = scanned.begin(); order_keys.size() < count;) {
    if (!pending_.empty() && (next == scanned.end() || *pending_.begin() < *next)) {
      order_keys.push_back(std::move(pending_.extract(pending_.begin()).value()));
    } else if (next != scanned.end()) {
      order_keys.push_back(*next++);
      cursor_ = order_keys.back() + '\0';
    } else {
      *through = true;
      if (retry_.empty()) break;
      const auto behind = retry_.upper_bound(retry_cursor_);
      order_keys.push_back(std::move(retry_.extract(behind == retry_.end() ? retry_.begin() : behind).value()));
      retry_cursor_ = order_keys.back();
    }
  }
  return order_keys;
}

std::vector<OrderRow> BackfillLeases::LeaseRows(std::vector<OrderRow> rows, size_t wanted, LeaseAnswer* answer,
                                                HeldItems* held) {
  std::vector<OrderRow> gone;
  absl::MutexLock lock(&mu_);
  for (OrderRow& row : rows) {
    if (answer->items.size() == wanted) {
      pending_.insert(std::move(row.key));
    } else if (!row.waits) {
      gone.push_back(std::move(row));
    } else if (behind_.erase(row.internal_id) > 0) {
      retry_.insert(std::move(row.key));
    } else if (HoldOrdered(row.internal_id, row.key)) {
      const uint32_t head = HeadGeneration(row.record.generations, answer->generation);
      answer->items.push_back({std::move(row.id), row.record.sequence, head, row.uncertainty, row.record.has_input,
                               /*found_lately=*/false});
      held->push_back({std::move(row.key), row.internal_id});
    }
  }
  return gone;
}

bool BackfillLeases::HasUnordered(const BackfillRecord& record) const {
  scan_mu_->AssertHeld();
  if (collection_->published_sequence() <= record.ordered_sequence) return false;
  uint64_t waiting = 0;
  for (const auto& [generations, count] : collection_->progress().items) {
    // Items that a newer generation embedded, before a rollback, are never ordered.
    if (generations.back() < record.generation) waiting += count;
  }
  absl::MutexLock lock(&mu_);
  absl::flat_hash_set<uint64_t> known = held_;  // A set, because several orders may hold keys of one item.
  for (const std::set<std::string>* order_keys : {&retry_, &pending_}) {
    for (const std::string& key : *order_keys) {
      const auto parsed = keys::ParseOrder(key);
      if (parsed.ok()) known.insert(parsed->internal_id);
    }
  }
  return waiting > known.size();
}

bool BackfillLeases::Hold(uint64_t internal_id, bool touched) {
  absl::MutexLock lock(&mu_);
  if (!held_.insert(internal_id).second) return false;
  if (touched) passed_.emplace(internal_id, "");
  return true;
}

bool BackfillLeases::HoldOrdered(uint64_t internal_id, const std::string& order_key) {
  if (held_.insert(internal_id).second) return true;
  if (const auto passed = passed_.find(internal_id); passed != passed_.end()) passed->second = order_key;
  return false;
}

std::string BackfillLeases::Open(OpenLease lease, const char* kind) {
  absl::MutexLock lock(&mu_);
  std::string token = absl::StrCat(absl::Hex(nonce_), kind, next_token_++);
  lease.order = orders_;
  leases_.emplace(token, std::move(lease));
  return token;
}

std::string BackfillLeases::OpenTurn(HeldItems items) {
  OpenLease lease{Clock::now() + absl::ToChronoNanoseconds(kTurnMax), std::move(items)};
  lease.own = true;
  return Open(std::move(lease), "-e");
}

bool BackfillLeases::ExtendTurn(const std::string& token) {
  absl::MutexLock lock(&mu_);
  const auto lease = leases_.find(token);
  if (lease == leases_.end()) return false;
  lease->second.ends = Clock::now() + absl::ToChronoNanoseconds(kTurnMax);
  return true;
}

bool BackfillLeases::HasTurn(const std::string& token) const {
  absl::MutexLock lock(&mu_);
  return leases_.contains(token);
}

bool BackfillLeases::FinishTurn(const std::string& token) {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  const auto lease = leases_.find(token);
  if (lease == leases_.end()) return false;
  for (const HeldItem& item : lease->second.items) {
    std::string key = Release(item);
    // A touched item has a key only if the scan met it. Another order may have been scanned meanwhile.
    const bool passed = item.order_key.empty() || key < cursor_ || lease->second.order != orders_;
    if (!key.empty() && passed) retry_.insert(std::move(key));
  }
  leases_.erase(lease);
  return true;
}

void BackfillLeases::ReleaseItems(const HeldItems& items) {
  scan_mu_->AssertHeld();
  absl::MutexLock lock(&mu_);
  ReleaseInto(items, &pending_);
}

bool BackfillLeases::HasNoLease() const {
  absl::MutexLock lock(&mu_);
  return leases_.empty();
}

std::string BackfillLeases::Release(const HeldItem& item) {
  held_.erase(item.internal_id);
  if (!item.order_key.empty()) return item.order_key;
  const auto passed = passed_.extract(item.internal_id);
  return passed.empty() ? "" : passed.mapped();
}

void BackfillLeases::ReleaseInto(const HeldItems& items, std::set<std::string>* keys) {
  for (const HeldItem& item : items) {
    std::string key = Release(item);
    if (!key.empty()) keys->insert(std::move(key));
  }
}

}  // namespace lightcone::server
