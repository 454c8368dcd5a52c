#include "server/engine/backfill/embed_backfills.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "server/engine/embed/embed_inputs.h"
#include "server/engine/embed/make_worker.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int kEmbedNice = 10;  // as jobs; not less: it may lead the writer of a collection for others
constexpr int64_t kItemsATurnMin = 64, kItemsATurnMax = 16'384;
constexpr absl::Duration kTurnBeginsMax = absl::Seconds(10);  // time after which a turn begins no batch
constexpr absl::Duration kTurn = absl::Seconds(1);  // time that a turn should take; other collections wait for it
// The same for an encoder that works on several calls at once, where no other collection waits: at a turn's end all
// callers wait for the last.
constexpr absl::Duration kLongTurn = absl::Seconds(3);
constexpr absl::Duration kIdle = absl::Milliseconds(200);  // pause while there is nothing to embed
constexpr absl::Duration kBusy = absl::Milliseconds(5);    // pause until the rate allows more
constexpr absl::Duration kKeepIdle = absl::Minutes(1);     // an encoder that nothing came for: it may be large
constexpr absl::Duration kRetryMax = absl::Minutes(5);  // longest pause between tries of an encoder that does not start
constexpr int kDoublingsMax = 10;

// Whether items of the collection are to be embedded here now, and by what.
const GenerationRecord* EmbedsHere(const CollectionState& state, const Backfill& of,
                                   const std::optional<BackfillRecord>& backfill) {
  if (!backfill || backfill->embed_rate <= 0 || !of.IsWanted()) return nullptr;
  const GenerationRecord* const generation = state.Find(backfill->generation);
  return generation != nullptr && generation->has_encoder ? generation : nullptr;
}

// Of an encoder to start that will fail the next time as well: of its file, or of itself.
bool IsForEver(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

EmbedBackfills::EmbedBackfills(Context& context, WriteVectors write)
    : context_(context), write_(std::move(write)), thread_(kEmbedNice, kIdle, [this] { return EmbedAll(); }) {}

void EmbedBackfills::RefreshSides() {
  std::map<uint32_t, Side> kept;
  for (const ServedPtr& served : context_.catalog.All()) {
    const uint32_t number = served->collection->number();
    if (auto side = sides_.extract(number)) kept.insert(std::move(side));
    kept[number].served = served;
  }
  sides_ = std::move(kept);
}

absl::Duration EmbedBackfills::EmbedAll() {
  RefreshSides();
  absl::Duration pause = kIdle;
  auto busy = std::count_if(sides_.begin(), sides_.end(), [](const auto& side) { return side.second.busy; });
  for (auto& [number, side] : sides_) {
    if (side.busy) --busy;
    side.busy = EmbedSide(side, /*alone=*/busy == 0);
    if (!side.busy) continue;
    ++busy;
    pause = kBusy;
  }
  return pause;
}

bool EmbedBackfills::EmbedSide(Side& side, bool alone) {
  const ServedPtr served = side.served.lock();
  if (served == nullptr || MustWait(*served, side, absl::Now())) return false;
  const absl::StatusOr<bool> more = EmbedSafely(*served, side, alone);
  if (more.ok() || absl::IsCancelled(more.status())) return more.ok() && *more;
  spdlog::warn("collection '{}': embedding stored inputs anew failed: {}", served->collection->name(),
               MessageOf(more.status()));
  const int doublings = std::clamp(side.failures - 1, 0, kDoublingsMax);
  side.next_try = absl::Now() + std::min(kRetryMax, context_.options.embed_retry * (1 << doublings));
  return false;
}

bool EmbedBackfills::MustWait(const Served& served, Side& side, absl::Time now) {
  const uint64_t starts = served.backfill->starts();
  if (std::exchange(side.starts, starts) != starts) {
    side.failures = 0;
    side.next_try = absl::InfinitePast();
  }
  return now < side.next_try && side.next_try - now <= kRetryMax;
}

absl::StatusOr<bool> EmbedBackfills::EmbedSafely(const Served& served, Side& side, bool alone) {
  try {
    return EmbedSome(served, side, alone);
  } catch (...) {
    return StatusOfException();
  }
}

absl::StatusOr<bool> EmbedBackfills::EmbedSome(const Served& served, Side& side, bool alone) {
  const auto state = served.collection->state();
  const std::optional<BackfillRecord> backfill = served.backfill->record();
  const GenerationRecord* const generation = EmbedsHere(*state, *served.backfill, backfill);
  const absl::Time now = absl::Now();
  served.backfill->NoteProgress(now);
  const bool wanted_here = generation != nullptr && served.backfill->HasEmbeddable(now);
  if (generation == nullptr || (!wanted_here && now - side.embedded > kKeepIdle)) side.encoder.reset();
  if (!wanted_here) return false;
  const auto p99 = backfill->p99_ms_max > 0 ? served.search_times->P99(now) : std::nullopt;
  side.pace.Adapt(now, p99 && *p99 > absl::Milliseconds(backfill->p99_ms_max));
  if (side.encoder == nullptr || side.generation != generation->generation) {
    LC_ASSIGN_OR_RETURN(side.encoder, MakeInputsEncoder(context_, *served.collection, *generation, "backfill"));
    side.generation = generation->generation;
    side.rounds = 1;
  }
  const auto round = static_cast<int64_t>(side.encoder->inputs_at_once() * side.encoder->callers());
  const int64_t most = std::clamp(side.rounds * round, kItemsATurnMin, kItemsATurnMax);
  // Searches that may not become slow are looked at between turns.
  const bool several = side.encoder->requests() > 1;
  const absl::Duration turn_time = several && alone && backfill->p99_ms_max <= 0 ? kLongTurn : kTurn;
  // Several callers are busy with what comes in the time of a turn.
  const absl::Duration burst = side.encoder->callers() > 1 ? kTurn : Pace::kBurst;
  const int64_t wanted = side.pace.Take(now, backfill->embed_rate, most, burst);
  if (wanted == 0) return true;
  LC_ASSIGN_OR_RETURN(const EmbedTurn turn,
                      served.backfill->TakeEmbeddable(static_cast<size_t>(wanted), context_.options.embed_pass_pause));
  side.pace.GiveBack(wanted - static_cast<int64_t>(turn.items.size()));
  std::vector<AsideItem> failed;
  const absl::Cleanup finish = [&] { served.backfill->FinishEmbedding(turn, std::move(failed)); };
  // Unless another generation's backfill has begun meanwhile.
  if (turn.generation == generation->generation) {
    const absl::Status done = EmbedItems(served, side, *generation, turn, &failed);
    const bool full = static_cast<int64_t>(turn.items.size()) == most && most < kItemsATurnMax;
    side.AdaptRounds(absl::Now() - now, turn_time, done.ok(), full);
    LC_RETURN_IF_ERROR(done);
  }
  return !turn.items.empty();
}

void EmbedBackfills::Side::AdaptRounds(absl::Duration took, absl::Duration wanted, bool ok, bool may_grow) {
  if (!ok || took > 1.5 * wanted) {
    rounds = std::max<int64_t>(1, rounds / 2);
  } else if (took < wanted / 2 && may_grow) {
    rounds *= took < wanted / 4 ? 4 : 2;
  }
}

// The callers take batches of the turn until none is left. Then all wait for the last: that is why a turn has several
// batches for each.
absl::Status EmbedBackfills::EmbedItems(const Served& served, Side& side, const GenerationRecord& generation,
                                        const EmbedTurn& turn, std::vector<AsideItem>* failed) {
  const size_t at_once = side.encoder->inputs_at_once();
  const size_t batches = (turn.items.size() + at_once - 1) / at_once;
  const Work work{served, *side.encoder, generation, turn};
  std::atomic<size_t> taken{0};
  Outcome outcome;
  const absl::Time last_begin = absl::Now() + kTurnBeginsMax;
  const auto embed = [&] {
    for (size_t batch = taken++; batch < batches && absl::Now() < last_begin; batch = taken++) {
      const size_t begin = batch * at_once;
      if (!EmbedBatch(work, begin, std::min(turn.items.size(), begin + at_once), &outcome)) taken = batches;
    }
  };
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(batches, side.encoder->callers())) others.emplace_back(embed);
  embed();
  others.clear();
  absl::MutexLock lock(&outcome.mu);
  // Where others got their vectors it is these inputs at which the encoder fails.
  if (outcome.works) {
    std::move(outcome.doubtful.begin(), outcome.doubtful.end(), std::back_inserter(outcome.aside));
  } else {
    outcome.error.Update(outcome.doubt);
  }
  std::move(outcome.aside.begin(), outcome.aside.end(), std::back_inserter(*failed));
  if (outcome.encoder) {
    side.embedded = absl::Now();
    NoteEncoder(served, side, turn, *outcome.encoder, outcome.works);
  }
  return outcome.error;
}

bool EmbedBackfills::EmbedBatch(const Work& work, size_t begin, size_t end, Outcome* outcome) {
  absl::StatusOr<size_t> done = begin;
  try {
    while (done.ok() && *done < end) done = EmbedFrom(work, *done, end, outcome);
  } catch (...) {
    done = StatusOfException();
  }
  absl::MutexLock lock(&outcome->mu);
  outcome->error.Update(done.status());
  return done.ok();
}

absl::StatusOr<size_t> EmbedBackfills::EmbedFrom(const Work& work, size_t begin, size_t until, Outcome* outcome) {
  const Collection& collection = *work.served.collection;
  const auto set_aside = [outcome](const EmbedTurn::Item& item, const absl::Status& status) {
    absl::MutexLock lock(&outcome->mu);
    outcome->aside.push_back({item.id, item.internal_id, MessageOf(status)});
  };
  const size_t bytes_max = kInputBytesAtOnce / work.encoder.callers();
  std::vector<std::string> inputs;
  std::vector<size_t> places;
  size_t end = begin;
  for (size_t bytes = 0; end < until && bytes < bytes_max; ++end) {
    const EmbedTurn::Item& item = work.turn.items[end];
    const auto stored = context_.store->Get(Table::kInputs, keys::Input(collection.number(), item.internal_id));
    if (absl::IsNotFound(stored.status())) continue;  // deleted or replaced meanwhile
    if (!stored.ok() && !IsInputsFault(stored.status())) return stored.status();
    if (!stored.ok()) {
      set_aside(item, stored.status());
      continue;
    }
    bytes += stored->size();
    inputs.push_back(*stored);
    places.push_back(end);
  }
  if (inputs.empty()) return end;
  LC_ASSIGN_OR_RETURN(auto vectors, EmbedStored(work, inputs, outcome));
  UpsertBatch batch;
  batch.generation = work.generation.generation;
  batch.same_content = true;
  // What a power loss takes back is embedded once more.
  batch.durability = Durability::kProcess;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const EmbedTurn::Item& item = work.turn.items[places[i]];
    absl::Status status = vectors[i].status();
    if (status.ok()) status = CheckVector(work.generation.space, *vectors[i], "input embedded");
    if (absl::IsInternal(status)) {
      absl::MutexLock lock(&outcome->mu);
      outcome->doubt.Update(status);
      outcome->doubtful.push_back({item.id, item.internal_id, MessageOf(status)});
      continue;
    }
    if (!status.ok() && !IsInputsFault(status)) return status;
    if (!status.ok()) {
      set_aside(item, status);
      continue;
    }
    UpsertItem& to = batch.items.emplace_back();
    to.id = item.id;
    to.content = *std::move(vectors[i]);
    to.expected_sequence = item.sequence;
  }
  CallContext context;
  context.cancelled = [&] { return context_.ending.load() || collection.dropped(); };
  if (!batch.items.empty()) {
    {
      absl::MutexLock lock(&outcome->mu);
      outcome->works = true;
    }
    LC_RETURN_IF_ERROR(write_(work.served, work.generation, std::move(batch), context).status());
  }
  return end;
}

absl::StatusOr<EmbeddedInputs> EmbedBackfills::EmbedStored(const Work& work, const std::vector<std::string>& inputs,
                                                           Outcome* outcome) const {
  const auto cancelled = [&] {
    return context_.ending.load() || work.served.collection->dropped() || !work.served.backfill->StillWanted(work.turn);
  };
  absl::StatusOr<EmbeddedInputs> vectors = work.encoder.Embed(inputs, cancelled);
  if (absl::IsCancelled(vectors.status())) return vectors;
  absl::MutexLock lock(&outcome->mu);
  if (!outcome->encoder) outcome->encoder = absl::OkStatus();
  outcome->encoder->Update(vectors.status());
  return vectors;
}

// Each failure is shown; what need not be the encoder's for ever is tried again, ever later.
void EmbedBackfills::NoteEncoder(const Served& served, Side& side, const EmbedTurn& turn, const absl::Status& outcome,
                                 bool works) {
  if (outcome.ok()) {
    served.backfill->NoteEmbedding(turn, absl::OkStatus());
    side.failures = 0;
    return;
  }
  const bool stop = IsForEver(outcome);
  if (!stop) side.failures = works ? 1 : side.failures + 1;
  const std::string then =
      stop ? "embedding here has stopped until the backfill is started again" : "embedding here is tried again soon";
  served.backfill->NoteEmbedding(turn, MakeStatus(outcome.code(), StrCat(then, ": ", MessageOf(outcome))), stop);
  if (!stop) return;
  side.failures = 0;
  side.encoder.reset();
}

}  // namespace lightcone::server
