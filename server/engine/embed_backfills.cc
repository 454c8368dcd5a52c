// The thread that embeds galleries anew from their stored inputs: a few items at a time, at the lowest priority and
// with encoders of its own, so that queries never wait behind it.
#include <sys/resource.h>

#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "server/engine/engine_impl.h"
#include "server/engine/raw_input.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int kNice = 19;
constexpr int64_t kItemsATurn = 64;
constexpr absl::Duration kIdle = absl::Milliseconds(200);  // between looks while there is nothing to embed
constexpr absl::Duration kBusy = absl::Milliseconds(5);    // until the rate allows more
constexpr absl::Duration kAfterError = absl::Seconds(5);

// Whether items of the collection are to be embedded here now, and by what.
const GenerationRecord* EmbedsHere(const CollectionState& state, const std::optional<BackfillRecord>& backfill) {
  if (!backfill || backfill->embed_rate <= 0 || backfill->paused) return nullptr;
  if (state.record.active_generation != backfill->generation) return nullptr;
  const GenerationRecord* const generation = state.Find(backfill->generation);
  return generation != nullptr && generation->has_encoder ? generation : nullptr;
}

}  // namespace

void EngineImpl::EmbedBackfills() {
  ::setpriority(PRIO_PROCESS, 0, kNice);  // Linux: of the calling thread alone
  const auto stopping = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; };
  absl::Duration wait = kIdle;
  while (true) {
    {
      absl::MutexLock lock(&maintain_mu_);
      if (maintain_mu_.AwaitWithTimeout(absl::Condition(&stopping), wait)) return;
    }
    std::vector<std::weak_ptr<Served>> all;
    {
      absl::ReaderMutexLock catalog(&catalog_mu_);
      for (const auto& [name, served] : collections_) all.push_back(served);
    }
    wait = kIdle;
    for (const auto& one : all) {
      const ServedPtr served = one.lock();
      if (served == nullptr) continue;
      served->backfill.NoteProgress(absl::Now());
      const absl::StatusOr<bool> more = EmbedSome(*served);
      if (more.ok() && *more) wait = std::min(wait, kBusy);
      if (more.ok() || absl::IsCancelled(more.status())) continue;
      spdlog::warn("collection '{}': embedding stored inputs anew, tried again soon: {}", served->collection->name(),
                   MessageOf(more.status()));
      wait = kAfterError;
    }
  }
}

absl::StatusOr<bool> EngineImpl::EmbedSome(Served& served) {
  Collection& collection = *served.collection;
  const auto state = collection.state();
  const std::optional<BackfillRecord> backfill = served.backfill.record();
  const GenerationRecord* const generation = EmbedsHere(*state, backfill);
  if (generation == nullptr) return false;
  const absl::Time now = absl::Now();
  if (backfill->p99_ms_max > 0) {
    const auto p99 = served.search_times.P99(now);
    served.embed_pace.Adapt(now, p99 && *p99 > absl::Milliseconds(backfill->p99_ms_max));
  }
  const int64_t wanted = served.embed_pace.Take(now, backfill->embed_rate, kItemsATurn);
  if (wanted == 0) return true;
  LC_ASSIGN_OR_RETURN(const EmbedTurn turn, served.backfill.TakeEmbeddable(static_cast<size_t>(wanted)));
  if (turn.items.empty()) return false;
  std::vector<AsideItem> failed;
  const absl::Status done = EmbedTurnOf(served, *generation, turn, &failed);
  served.backfill.FinishEmbedding(turn, std::move(failed));
  LC_RETURN_IF_ERROR(done);
  return true;
}

absl::Status EngineImpl::EmbedTurnOf(Served& served, const GenerationRecord& generation, const EmbedTurn& turn,
                                     std::vector<AsideItem>* failed) {
  Collection& collection = *served.collection;
  std::vector<std::string> input_keys;
  for (const EmbedTurn::Item& item : turn.items)
    input_keys.push_back(keys::Input(collection.number(), item.internal_id));
  const auto stored = store_->MultiGet(Table::kInputs, input_keys);
  std::vector<RawInput> inputs;
  std::vector<size_t> places;
  for (size_t i = 0; i < turn.items.size(); ++i) {
    if (absl::IsNotFound(stored[i].status())) continue;  // deleted or replaced meanwhile
    absl::StatusOr<RawInput> input = stored[i].ok() ? DecodeInput(*stored[i]) : stored[i].status();
    if (!input.ok()) {
      failed->push_back({turn.items[i].id, turn.items[i].internal_id, MessageOf(input.status())});
      continue;
    }
    inputs.push_back(*std::move(input));
    places.push_back(i);
  }
  if (inputs.empty()) return absl::OkStatus();
  std::vector<const RawInput*> pointers;
  for (const RawInput& input : inputs) pointers.push_back(&input);
  CallContext context;
  context.cancelled = [&] { return ending_.load() || collection.dropped(); };
  LC_ASSIGN_OR_RETURN(
      auto vectors,
      background_embedder_.Embed(
          {collection.number(), generation.generation}, EncoderPath(collection.number(), generation.generation),
          generation.manifest_json, pointers, [](size_t) { return std::string("input"); }, context));
  UpsertBatch batch;
  batch.generation = generation.generation;
  batch.same_content = true;
  // What a power loss takes back is embedded once more.
  batch.durability = Durability::kProcess;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const EmbedTurn::Item& item = turn.items[places[i]];
    absl::Status status = vectors[i].status();
    if (status.ok()) status = CheckVector(generation.space, *vectors[i], "input embedded");
    if (!status.ok()) {
      failed->push_back({item.id, item.internal_id, MessageOf(status)});
      continue;
    }
    UpsertItem& to = batch.items.emplace_back();
    to.id = item.id;
    to.content = *std::move(vectors[i]);
    to.expected_sequence = item.sequence;
  }
  if (batch.items.empty()) return absl::OkStatus();
  return WriteVectors(served, generation, std::move(batch), context).status();
}

}  // namespace lightcone::server
