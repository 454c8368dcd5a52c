#include "server/engine/backfill/backfill.h"

#include "absl/time/clock.h"
#include "base/status.h"

namespace lightcone::server {

Backfill::Backfill(Collection* collection)
    : collection_(collection),
      leases_(collection, &scan_mu_),
      embedding_(collection, &scan_mu_, &leases_),
      order_(collection, &scan_mu_, [this] {
        leases_.BeginOrder();
        embedding_.BeginPasses();
      }) {}

void Backfill::Begin(BackfillRecord record, std::optional<FailureHeadFile> head) {
  absl::MutexLock scan(&scan_mu_);
  leases_.Clear();
  embedding_.Clear();
  order_.Begin(record, std::move(head));
}

void Backfill::Resume() {
  absl::MutexLock scan(&scan_mu_);
  order_.Resume();
}

absl::Status Backfill::SetPaused(bool paused, absl::FunctionRef<OperatorWrite(const WriteBatch&)> write,
                                 WriteBatch also, const StartBackfillCall* pace) {
  absl::MutexLock scan(&scan_mu_);
  const OperatorWrite written = order_.SetPaused(paused, write, std::move(also), pace);
  if (written.in_store && !paused) {
    leases_.ForgetTried();
    embedding_.Retry();
  }
  return written.status;
}

BackfillStatus Backfill::Status() const {
  BackfillStatus status = order_.Status();
  embedding_.AddTo(&status);  // Before the leases: a turn ends before its failed items are set aside.
  status.items_leased = leases_.CountHeldItems();
  status.embedded_total = embedded_.load();
  return status;
}

absl::StatusOr<LeaseAnswer> Backfill::Lease(const LeaseCall& call) {
  absl::MutexLock scan(&scan_mu_);
  const std::optional<BackfillOrder::Snapshot> now = order_.TakeSnapshot();
  if (!now) {
    return FailedPrecondition(StrCat("no backfill of collection '", collection_->name(), "' was started; start one"));
  }
  leases_.TakeBack(call.finished_token, now->record.generation);
  LeaseAnswer answer;
  answer.generation = now->record.generation;
  answer.state = now->state;
  answer.expires = absl::Now() + call.timeout;
  if (!call.renew_token.empty()) {
    LC_RETURN_IF_ERROR(leases_.Renew(call.renew_token, call.timeout));
    answer.token = call.renew_token;
    return answer;
  }
  if (answer.state != BackfillState::kRunning) return answer;
  std::vector<uint64_t> done;
  const absl::StatusOr<bool> through = leases_.LeaseWorst(call, &answer, &done);
  embedding_.ForgetAside(done);
  LC_RETURN_IF_ERROR(through.status());
  if (*through && leases_.HasUnordered(now->record)) {
    order_.Start();
    if (answer.items.empty()) answer.state = BackfillState::kOrdering;
  }
  return answer;
}

void Backfill::RecordReturnedItems(const SearchAnswer& answer) {
  const uint32_t generation = order_.embedding_generation();
  if (generation == 0) return;
  leases_.RecordReturnedItems(answer, generation);
  embedding_.RecordReturnedItems(answer, generation);
}

bool Backfill::HasEmbeddable(absl::Time now) const {
  if (!embedding_.IsReady(now)) return false;
  const std::optional<BackfillOrder::Snapshot> seen = order_.TakeSnapshot();
  return seen && seen->state == BackfillState::kRunning;
}

absl::StatusOr<EmbedTurn> Backfill::TakeEmbeddable(size_t wanted, absl::Duration between_passes) {
  absl::MutexLock scan(&scan_mu_);
  const std::optional<BackfillOrder::Snapshot> now = order_.TakeSnapshot();
  if (!now) return EmbedTurn();
  leases_.TakeBack("", now->record.generation);
  if (now->state != BackfillState::kRunning) return EmbedTurn();
  bool unordered = false;
  LC_ASSIGN_OR_RETURN(EmbedTurn turn,
                      embedding_.TakeTurn(wanted, between_passes, now->record.generation, now->left, &unordered));
  if (unordered && leases_.HasNoLease() && collection_->published_sequence() > now->record.ordered_sequence) {
    order_.Start();
  }
  return turn;
}

bool Backfill::StillWanted(const EmbedTurn& turn) { return order_.IsWanted() && leases_.ExtendTurn(turn.token); }

void Backfill::FinishEmbedding(const EmbedTurn& turn, std::vector<AsideItem> failed) {
  absl::MutexLock scan(&scan_mu_);
  embedding_.FinishTurn(turn, std::move(failed));
}

void Backfill::NoteEmbedding(const EmbedTurn& turn, absl::Status error, bool stop) {
  absl::MutexLock scan(&scan_mu_);  // A start in between would be told of an error from before.
  if (!leases_.HasTurn(turn.token)) return;
  const std::optional<BackfillRecord> record = order_.record();
  if (record && record->embed_rate > 0) embedding_.SetError(std::move(error), stop);
}

}  // namespace lightcone::server
