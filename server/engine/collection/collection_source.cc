// How a collection's index gets rows back from the store: replay at a start, rebuilding of segments, trimming of the
// log.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "server/engine/collection/collection.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr uint64_t kRowsACheck = 256;                   // rows between two looks at whether they are still wanted
constexpr absl::Duration kRoomPoll = absl::Seconds(1);  // time between two such looks while a replay waits
constexpr uint64_t kTrimMin = 1024;                     // changes; each trim leaves one range tombstone behind

}  // namespace

absl::Status OpeningCaller::CheckWanted() const {
  absl::MutexLock lock(&mu_);
  if (!given_up_ || !given_up_()) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kCancelled, "nobody waits for it any more");
}

void OpeningCaller::Set(std::function<bool()> given_up) {
  absl::MutexLock lock(&mu_);
  given_up_ = std::move(given_up);
}

absl::Status Collection::Replay(uint64_t last_sequence) {
  // 0: the index has rebuilt at least one generation from the embeddings themselves, and the log may begin later.
  const uint64_t after = index_->replay_after();
  const auto changes =
      store_->Scan(Table::kChanges, keys::Change(number_, after + 1), keys::CollectionRange(number_).end);
  uint64_t expected = after + 1;
  bool bounded = true;
  for (; changes->Valid(); changes->Next()) {
    LC_ASSIGN_OR_RETURN(const uint64_t sequence, keys::ParseChange(changes->key()));
    if (sequence != expected && after > 0) {
      return DataLoss(StrCat("the change log misses ", expected, " .. ", sequence - 1));
    }
    expected = sequence + 1;
    LC_ASSIGN_OR_RETURN(const ChangeRecord record, DecodeChange(changes->value()));
    LC_RETURN_IF_ERROR(ReplayOne(sequence, record));
    // A long log's rows are sealed as they come. While that fails they have no place but memory, as before the start.
    absl::StatusOr<bool> room = false;
    while (room.ok() && !*room) {
      LC_RETURN_IF_ERROR(opening_.CheckWanted());
      room = AwaitRoom(absl::Now() + kRoomPoll);
    }
    if (!room.ok() && bounded) spdlog::warn("replay goes on: {}", MessageOf(room.status()));
    bounded = room.ok();
  }
  LC_RETURN_IF_ERROR(changes->status());
  if (expected <= last_sequence && after > 0) {
    return DataLoss(StrCat("the change log ends at ", expected - 1, " but the store at ", last_sequence));
  }
  return Apply(last_sequence, {});
}

absl::Status Collection::ReplayOne(uint64_t sequence, const ChangeRecord& record) {
  // Not those that files hold: one generation may be far behind the others.
  const auto wanted = [&](const ChangeRecord::Entry& entry) {
    return entry.kind == ChangeRecord::Kind::kAdd && index_->WantsRows(entry.generation, sequence);
  };
  std::vector<std::string> embedding_keys;
  for (const auto& entry : record.entries) {
    if (wanted(entry)) embedding_keys.push_back(keys::Embedding(number_, entry.generation, entry.internal_id));
  }
  const auto embeddings = store_->MultiGet(Table::kEmbeddings, embedding_keys);
  std::vector<EmbeddingRecord> rows(embedding_keys.size());
  std::vector<RowChange> applied;
  size_t next = 0;
  for (const auto& entry : record.entries) {
    RowChange change;
    change.internal_id = entry.internal_id;
    if (entry.kind == ChangeRecord::Kind::kDelete) {
      change.kind = RowChange::Kind::kDelete;
    } else {
      change.generation = entry.generation;
      change.supersedes = entry.supersedes;
      if (wanted(entry)) {
        const auto& embedding = embeddings[next];
        EmbeddingRecord& row = rows[next++];
        // Gone: a later change, which is in the log too, deletes it.
        if (absl::IsNotFound(embedding.status())) continue;
        if (!embedding.ok()) return embedding.status();
        LC_ASSIGN_OR_RETURN(row, DecodeEmbedding(*embedding));
        change.z = row.z;
        change.uncertainty = row.uncertainty;
      }
    }
    applied.push_back(std::move(change));
  }
  return Apply(sequence, applied);
}

absl::Status Collection::ForEachEmbedding(
    uint32_t generation,
    const std::function<absl::Status(uint64_t internal_id, std::span<const float> z, float uncertainty)>& row) {
  const keys::Range range = keys::GenerationRange(number_, generation);
  const auto embeddings = store_->Scan(Table::kEmbeddings, range.begin, range.end);
  for (uint64_t seen = 0; embeddings->Valid(); embeddings->Next()) {
    if (seen++ % kRowsACheck == 0) LC_RETURN_IF_ERROR(opening_.CheckWanted());
    LC_ASSIGN_OR_RETURN(const keys::EmbeddingKey key, keys::ParseEmbedding(embeddings->key()));
    LC_ASSIGN_OR_RETURN(const EmbeddingRecord record, DecodeEmbedding(embeddings->value()));
    LC_RETURN_IF_ERROR(row(key.internal_id, record.z, record.uncertainty));
  }
  return embeddings->status();
}

absl::StatusOr<std::vector<uint32_t>> Collection::GenerationsOf(uint64_t internal_id) {
  const uint64_t ids[] = {internal_id};
  LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> rows, ResolveRows(ids, /*with_record=*/true));
  if (!rows[0].found) return std::vector<uint32_t>();
  // A retired one is replaced in the store already, though the index may not know yet.
  const auto id = store_->Get(Table::kItems, keys::InternalId(number_, internal_id));
  if (absl::IsNotFound(id.status())) return std::vector<uint32_t>();
  LC_RETURN_IF_ERROR(id.status());
  return std::move(rows[0].record.generations);
}

absl::Status Collection::AdaptGalleries(const std::function<bool()>& cancelled) {
  const auto now = state();
  const std::shared_ptr<const IndexView> view = index_->View();
  // How what serves, or is tried on some of the queries, reaches items by this very adapter, if it does.
  const auto route = [](const CollectionState& in, uint32_t items, const ServedAdapter* by) {
    for (const uint32_t serving : {in.record.active_generation, in.record.canary_generation}) {
      if (const Route way = in.reach.To(serving, items); way.item == by) return way;
    }
    return Route{};
  };
  // In memory, where a search carries more of them than its candidates (exact ones aside, which carry every row).
  const auto needs_rows = [](const Route& by, const ServedAdapter* adapter) {
    return by.item == adapter && !by.native && by.query == nullptr;
  };
  std::vector<uint64_t> versions;
  // First, for the budget is one: what no gallery in service needs any more makes room for what it does.
  for (const auto& [pair, adapter] : now->reach.adapters()) {
    if (adapter->rows == nullptr) continue;
    versions.push_back(adapter->status.version);
    if (!needs_rows(route(*now, pair.first, adapter.get()), adapter.get())) adapter->rows->Clear();
  }
  // What was carried into files stays as long as its adapter: a rollback of a rollback finds it.
  absl::Status status = KeepOnlyVersions(CarriedFolder(index_folder_), versions);
  for (const auto& [pair, adapter] : now->reach.adapters()) {
    const Route by = route(*now, pair.first, adapter.get());
    if (by.item != adapter.get()) {
      if (adapter->carried != nullptr) status.Update(view->KeepCarried(pair.first, adapter->carried.get()));
      continue;
    }
    const auto in_vain = [&, served = adapter.get(), items = pair.first] {
      if (cancelled() || dropped()) return true;
      const auto later = state();
      return later != now && route(*later, items, served).item != served;
    };
    AdaptedRows* const rows = needs_rows(by, adapter.get()) ? adapter->rows.get() : nullptr;
    const absl::Status one = view->Adapt(pair.first, rows, adapter->carried.get(), now->record.index, in_vain);
    if (absl::IsCancelled(one)) return one;
    status.Update(one);
  }
  return status;
}

absl::Status Collection::TrimChanges() {
  const uint64_t sealed = index_->Stats().sealed_sequence;
  if (sealed < trimmed_sequence_ + kTrimMin) return absl::OkStatus();
  LC_RETURN_IF_ERROR(store_->DeleteRange(Table::kChanges, keys::Change(number_, 0), keys::Change(number_, sealed + 1)));
  trimmed_sequence_ = sealed;
  return absl::OkStatus();
}

}  // namespace lightcone::server
