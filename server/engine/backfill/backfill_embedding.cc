// The server's own part in a backfill: items whose input is stored, for its encoder, in the order of the leases but
// apart from them, so that workers elsewhere find everything that it leaves.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "server/engine/backfill/backfill.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kKeysAtOnce = 256;
constexpr size_t kKeysATurn = 4'096;                    // that one turn looks at, at most: leases wait for it
constexpr size_t kAsideMax = 10'000;                    // that are remembered with a reason; beyond, embedding stops
constexpr absl::Duration kTurnMax = absl::Minutes(30);  // after which its items are anybody's
constexpr absl::Duration kAfterNothing = absl::Minutes(1);  // between passes

}  // namespace

bool Backfill::HasEmbeddable(absl::Time now) const {
  absl::MutexLock lock(&mu_);
  if (!record_ || aside_.size() >= kAsideMax || embed_stopped_) return false;
  // A clock that was set back makes nobody wait.
  if (now < next_pass_ && next_pass_ - now <= kAfterNothing) return false;
  return StateNow(CountsOf(collection_->progress(), record_->generation).left) == BackfillState::kRunning;
}

absl::StatusOr<EmbedTurn> Backfill::TakeEmbeddable(size_t wanted, absl::Duration between_passes) {
  absl::MutexLock lock(&mu_);
  EmbedTurn turn;
  if (!record_) return turn;
  const absl::Time now = absl::Now();
  TakeBack("");
  const uint64_t left = CountsOf(collection_->progress(), record_->generation).left;
  if (StateNow(left) != BackfillState::kRunning) return turn;
  turn.generation = record_->generation;
  OpenLease lease{LeaseClock::now() + absl::ToChronoNanoseconds(kTurnMax), {}, orders_, /*own=*/true};
  const auto skip = [this](const ItemRecord& record) {
    mu_.AssertHeld();
    return !record.has_input || aside_.contains(record.internal_id);
  };
  for (Found& item : TakeFound(&for_encoder_, wanted, skip, &lease)) {
    turn.items.push_back({std::move(item.id), item.record.sequence, item.record.internal_id});
    ++taken_;
  }
  const keys::Range all = keys::CollectionRange(collection_->number());
  if (embed_cursor_.empty()) embed_cursor_ = all.begin;
  const std::string end = keys::GenerationRange(collection_->number(), record_->generation).begin;
  for (size_t looked = 0; turn.items.size() < wanted && looked < kKeysATurn;) {
    std::vector<std::string> order_keys;
    const auto rows = collection_->store()->Scan(Table::kOrder, embed_cursor_, end);
    for (; rows->Valid() && order_keys.size() < kKeysAtOnce; rows->Next()) order_keys.emplace_back(rows->key());
    if (!rows->status().ok()) GiveBack(lease, &returned_);
    LC_RETURN_IF_ERROR(rows->status());
    if (order_keys.empty()) {
      if (turn.items.empty()) EndPass(now, between_passes, left);  // else the next call finds what became of them
      break;
    }
    looked += order_keys.size();
    const absl::Status taken = TakeKeys(order_keys, wanted, &turn, &lease);
    if (!taken.ok()) GiveBack(lease, &returned_);
    LC_RETURN_IF_ERROR(taken);
  }
  if (turn.items.empty()) return turn;
  turn.token = absl::StrCat(absl::Hex(nonce_), "-e", next_token_++);
  leases_.emplace(turn.token, std::move(lease));
  return turn;
}

absl::Status Backfill::TakeKeys(const std::vector<std::string>& order_keys, size_t wanted, EmbedTurn* turn,
                                OpenLease* lease) {
  std::vector<uint64_t> ids;
  for (const std::string& key : order_keys) {
    LC_ASSIGN_OR_RETURN(const keys::EmbeddingKey parsed, keys::ParseOrder(key));
    ids.push_back(parsed.internal_id);
  }
  LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> rows, collection_->CurrentRows(ids));
  WriteBatch gone;
  for (size_t i = 0; i < rows.size() && turn->items.size() < wanted; ++i) {
    embed_cursor_ = order_keys[i] + '\0';
    const ItemRecord& record = rows[i].record;
    if (!rows[i].found || !Waits(record)) {
      gone.Delete(Table::kOrder, order_keys[i]);
      aside_.erase(ids[i]);
      continue;
    }
    if (!record.has_input || aside_.contains(ids[i])) {
      ++passed_by_;
      continue;
    }
    if (!leased_.insert(ids[i]).second) continue;
    ++taken_;
    turn->items.push_back({std::move(rows[i].id), record.sequence, ids[i]});
    lease->items.push_back({order_keys[i], ids[i]});
  }
  // As in LeaseWorst: what is done only costs a look.
  return gone.empty() ? absl::OkStatus() : collection_->store()->Write(gone, Durability::kProcess);
}

// The order is through: what was leased meanwhile, or came since, is for the next pass. Once one has taken nothing,
// what is left and was not passed by is in no order.
void Backfill::EndPass(absl::Time now, absl::Duration between_passes, uint64_t left) {
  const bool others = taken_ == 0 && left > passed_by_;
  next_pass_ = now + (taken_ > 0 ? between_passes : kAfterNothing);
  embed_cursor_.clear();
  passed_by_ = taken_ = 0;
  if (others && leases_.empty() && collection_->published_sequence() > record_->ordered_sequence) StartOrdering();
}

void Backfill::BeginPasses() {
  embed_cursor_.clear();
  passed_by_ = taken_ = 0;
  next_pass_ = absl::InfinitePast();
}

bool Backfill::StillWanted(const EmbedTurn& turn) {
  absl::MutexLock lock(&mu_);
  const auto lease = leases_.find(turn.token);
  if (lease == leases_.end() || record_->paused || !Current(*record_)) return false;
  lease->second.ends = LeaseClock::now() + absl::ToChronoNanoseconds(kTurnMax);
  return true;
}

void Backfill::NoteEmbedding(const EmbedTurn& turn, absl::Status error, bool stop) {
  absl::MutexLock lock(&mu_);
  if (!leases_.contains(turn.token)) return;
  if (record_->embed_rate <= 0) return;  // nobody embeds here any more, so nothing is wrong with it
  embed_error_ = std::move(error);
  embed_stopped_ = stop;
}

bool Backfill::EmbeddingStopped() const {
  absl::MutexLock lock(&mu_);
  return embed_stopped_;
}

uint64_t Backfill::starts() const {
  absl::MutexLock lock(&mu_);
  return starts_;
}

void Backfill::FinishEmbedding(const EmbedTurn& turn, std::vector<AsideItem> failed) {
  absl::MutexLock lock(&mu_);
  const auto lease = leases_.find(turn.token);
  if (lease == leases_.end()) return;  // begun anew meanwhile, or given back
  for (const Leased& item : lease->second.items) {
    std::string key = Release(item);
    // Workers that passed by meanwhile, maybe by its key in a newer order, get what could not be embedded behind
    // everything else.
    const bool found = item.order_key.empty();  // then the scan has met the key that there is
    if (!key.empty() && (found || key < cursor_ || lease->second.order != orders_)) retry_.insert(std::move(key));
  }
  leases_.erase(lease);
  passed_by_ += failed.size();
  for (AsideItem& item : failed) aside_.insert_or_assign(item.internal_id, std::move(item));
}

}  // namespace lightcone::server
