// The thread that embeds galleries anew from their stored inputs: a few items at a time, at the lowest priority and
// with encoders in processes of their own, so that queries neither wait behind it nor end with it.

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/files.h"
#include "base/priority.h"
#include "base/status.h"
#include "server/engine/core/engine_impl.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int kEmbedNice = 10;  // as jobs; not less: it may lead the writer of a collection for others
constexpr int kBehindJobs = 4;  // how much further than jobs an encoder's process stands back: nobody waits for it
constexpr int64_t kItemsATurn = 64;
constexpr absl::Duration kIdle = absl::Milliseconds(200);  // between looks while there is nothing to embed
constexpr absl::Duration kBusy = absl::Milliseconds(5);    // until the rate allows more
constexpr absl::Duration kKeepIdle = absl::Minutes(1);     // an encoder that nothing came for: it may be large
constexpr absl::Duration kRetryMax = absl::Minutes(5);     // between tries of an encoder that does not start
constexpr int kDoublingsMax = 10;

// Whether items of the collection are to be embedded here now, and by what.
const GenerationRecord* EmbedsHere(const CollectionState& state, const std::optional<BackfillRecord>& backfill) {
  if (!backfill || backfill->embed_rate <= 0 || backfill->paused) return nullptr;
  if (state.record.active_generation != backfill->generation) return nullptr;
  const GenerationRecord* const generation = state.Find(backfill->generation);
  return generation != nullptr && generation->has_encoder ? generation : nullptr;
}

// Of an input that will be no other the next time: all else is an error of the moment.
bool IsInputsFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) || !PartsOf(status).field.empty();
}

// Of an encoder to start that will fail the next time as well: of its file, or of itself.
bool IsForEver(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

// Whether a try that failed is to be followed by none yet. What a start changed is tried at once; a clock that was set
// back makes nobody wait longer.
bool MustWait(Served* served, absl::Time now) {
  const uint64_t starts = served->backfill.starts();
  if (std::exchange(served->embed_starts, starts) != starts) {
    served->embed_failures = 0;
    served->embed_after = absl::InfinitePast();
  }
  return now < served->embed_after && served->embed_after - now <= kRetryMax;
}

}  // namespace

void EngineImpl::EmbedBackfills() {
  StandBack(kEmbedNice);
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
      if (served == nullptr || MustWait(served.get(), absl::Now())) continue;
      const absl::StatusOr<bool> more = EmbedSafely(*served);
      if (more.ok() && *more) wait = kBusy;
      if (more.ok() || absl::IsCancelled(more.status())) continue;
      spdlog::warn("collection '{}': embedding stored inputs anew failed: {}", served->collection->name(),
                   MessageOf(more.status()));
      const int doublings = std::clamp(served->embed_failures - 1, 0, kDoublingsMax);
      served->embed_after = absl::Now() + std::min(kRetryMax, options_.embed_retry * (1 << doublings));
    }
  }
}

absl::StatusOr<bool> EngineImpl::EmbedSafely(Served& served) {
  try {
    return EmbedSome(served);
  } catch (...) {
    return StatusOfException();
  }
}

absl::StatusOr<bool> EngineImpl::EmbedSome(Served& served) {
  const auto state = served.collection->state();
  const std::optional<BackfillRecord> backfill = served.backfill.record();
  const GenerationRecord* const generation = EmbedsHere(*state, backfill);
  const absl::Time now = absl::Now();
  served.backfill.NoteProgress(now);
  const bool wanted_here = generation != nullptr && served.backfill.HasEmbeddable(now);
  if (generation == nullptr || (!wanted_here && now - served.embedded > kKeepIdle)) served.embed_worker.reset();
  if (!wanted_here) return false;
  const auto p99 = backfill->p99_ms_max > 0 ? served.search_times.P99(now) : std::nullopt;
  served.embed_pace.Adapt(now, p99 && *p99 > absl::Milliseconds(backfill->p99_ms_max));
  const int64_t wanted = served.embed_pace.Take(now, backfill->embed_rate, kItemsATurn);
  if (wanted == 0) return true;
  LC_ASSIGN_OR_RETURN(const EmbedTurn turn,
                      served.backfill.TakeEmbeddable(static_cast<size_t>(wanted), options_.embed_pass_pause));
  std::vector<AsideItem> failed;
  const absl::Cleanup finish = [&] { served.backfill.FinishEmbedding(turn, std::move(failed)); };
  // Unless another generation's backfill has begun meanwhile.
  if (turn.generation == generation->generation) {
    for (size_t begin = 0; begin < turn.items.size();) {
      LC_ASSIGN_OR_RETURN(begin, EmbedFrom(served, *generation, turn, begin, &failed));
    }
  }
  return !turn.items.empty();
}

absl::StatusOr<size_t> EngineImpl::EmbedFrom(Served& served, const GenerationRecord& generation, const EmbedTurn& turn,
                                             size_t begin, std::vector<AsideItem>* failed) {
  Collection& collection = *served.collection;
  const auto set_aside = [&](const EmbedTurn::Item& item, const absl::Status& status) {
    failed->push_back({item.id, item.internal_id, MessageOf(status)});
  };
  std::vector<std::string> inputs;
  std::vector<size_t> places;
  size_t end = begin;
  for (size_t bytes = 0; end < turn.items.size() && bytes < kInputBytesAtOnce; ++end) {
    const EmbedTurn::Item& item = turn.items[end];
    const auto stored = store_->Get(Table::kInputs, keys::Input(collection.number(), item.internal_id));
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
  LC_ASSIGN_OR_RETURN(auto vectors, EmbedStored(served, generation, turn, inputs));
  UpsertBatch batch;
  batch.generation = generation.generation;
  batch.same_content = true;
  // What a power loss takes back is embedded once more.
  batch.durability = Durability::kProcess;
  // Where the network gives others their vectors it is this input at which it fails.
  const bool works = std::any_of(vectors.begin(), vectors.end(), [](const auto& one) { return one.ok(); });
  for (size_t i = 0; i < vectors.size(); ++i) {
    const EmbedTurn::Item& item = turn.items[places[i]];
    absl::Status status = vectors[i].status();
    if (status.ok()) status = CheckVector(generation.space, *vectors[i], "input embedded");
    if (!status.ok() && !IsInputsFault(status) && !(works && absl::IsInternal(status))) return status;
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
  context.cancelled = [&] { return ending_.load() || collection.dropped(); };
  if (!batch.items.empty()) LC_RETURN_IF_ERROR(WriteVectors(served, generation, std::move(batch), context).status());
  return end;
}

absl::StatusOr<EmbeddedInputs> EngineImpl::EmbedStored(Served& served, const GenerationRecord& generation,
                                                       const EmbedTurn& turn, const std::vector<std::string>& inputs) {
  const Collection& collection = *served.collection;
  CallContext context;
  context.cancelled = [&] { return ending_.load() || collection.dropped() || !served.backfill.StillWanted(turn); };
  const std::string path = EncoderPath(collection.number(), generation.generation);
  if (options_.helper_program.empty()) {
    const std::vector<std::string_view> stored(inputs.begin(), inputs.end());
    return background_embedder_.EmbedStored({collection.number(), generation.generation}, path,
                                            generation.manifest_json, stored, context);
  }
  if (served.embed_worker == nullptr || served.embed_worker->encoder_path() != path) {
    LC_ASSIGN_OR_RETURN(served.embed_worker, WorkerFor(collection, generation, "backfill"));
  }
  absl::StatusOr<EmbeddedInputs> vectors = served.embed_worker->Embed(inputs, context.cancelled);
  served.embedded = absl::Now();
  if (!absl::IsCancelled(vectors.status())) NoteEncoder(served, turn, vectors.status());
  return vectors;
}

absl::StatusOr<std::unique_ptr<EmbedWorker>> EngineImpl::WorkerFor(const Collection& collection,
                                                                   const GenerationRecord& generation,
                                                                   std::string_view purpose) const {
  LC_RETURN_IF_ERROR(MakeFolders(JobsFolder()));
  const std::string threads = StrCat(options_.helper_threads);
  EmbedWorkerOptions options;
  options.program.words = {options_.helper_program, "embed-worker"};
  options.program.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads,
                                 "MKL_NUM_THREADS=" + threads};
  options.program.output = StrCat(JobsFolder(), "/", purpose, "-", collection.number(), ".txt");
  options.program.niceness = std::min(19, options_.helper_niceness + kBehindJobs);
  options.program.memory_bytes_max = options_.helper_memory_bytes_max;
  options.setup = {EncoderPath(collection.number(), generation.generation),
                   generation.manifest_json,
                   generation.generation,
                   options_.helper_threads,
                   options_.encoder_batch_max,
                   options_.limits.input_bytes_max};
  options.dimension = static_cast<size_t>(generation.space.dimension);
  options.time_max = options_.helper_embed_time_max;
  return std::make_unique<EmbedWorker>(std::move(options));
}

// Each failure is shown at once; what need not be the encoder's for ever is tried again, ever later.
void EngineImpl::NoteEncoder(Served& served, const EmbedTurn& turn, const absl::Status& outcome) {
  if (outcome.ok()) {
    served.backfill.NoteEmbedding(turn, absl::OkStatus());
    served.embed_failures = 0;
    return;
  }
  const bool stop = IsForEver(outcome);
  if (!stop) ++served.embed_failures;
  const std::string then =
      stop ? "embedding here has stopped until the backfill is started again" : "embedding here is tried again soon";
  served.backfill.NoteEmbedding(turn, MakeStatus(outcome.code(), StrCat(then, ": ", MessageOf(outcome))), stop);
  if (!stop) return;
  served.embed_failures = 0;
  served.embed_worker.reset();
}

}  // namespace lightcone::server
