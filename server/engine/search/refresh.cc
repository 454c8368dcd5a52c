#include "server/engine/search/refresh.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/embed_inputs.h"
#include "server/engine/embed/embed_worker.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kRefreshTopMax = 1'000;   // candidates of one query
constexpr int64_t kCandidatesMax = 10'000;  // candidates of one call
constexpr int kSearchesMax = 4;             // searches that embed at once: they hold threads that others search on
constexpr size_t kPieceMax = 64;            // inputs for an encoder in a process: they share its bounds with queries
constexpr double kTriedAgain = 0.8;         // of a pace too slow for a search, for the next one
constexpr double kShareOfTime = 0.5;        // part of the time left that a piece may take, by the rate so far
constexpr double kShareForRanking = 0.05;   // part of the time left that is kept for the answer
constexpr absl::Duration kLeastForRanking = absl::Milliseconds(5);
constexpr absl::Duration kLongest = absl::Minutes(1);  // time for embedding where the call sets no deadline

// What the search that ranks at last needs: twice as long as the first one, for the writes come before it.
absl::Duration KeptForRanking(absl::Time deadline, absl::Time began, absl::Time now) {
  if (deadline == absl::InfiniteFuture()) return absl::ZeroDuration();
  return std::max({2 * (now - began), kShareForRanking * (deadline - now), kLeastForRanking});
}

void CountFailure(const absl::Status& status, int64_t items, SearchRefresh* refresh) {
  if (absl::IsDeadlineExceeded(status)) {
    refresh->late += items;
    return;
  }
  refresh->failed += items;
  if (refresh->error.empty()) refresh->error = MessageOf(status);
}

}  // namespace

absl::Status CheckRefresh(const SearchCall& call, const std::string& collection, const GenerationRecord& generation,
                          const EngineOptions& options, const CallContext& context) {
  const std::string given = StrCat(call.refresh_top);
  if (call.refresh_top < 0 || call.refresh_top > std::min(kRefreshTopMax, options.limits.k_max)) {
    return InvalidField("refresh_top", given, StrCat("0 .. ", std::min(kRefreshTopMax, options.limits.k_max)));
  }
  if (call.refresh_top == 0) return absl::OkStatus();
  if (call.refresh_top * static_cast<int64_t>(call.queries.size()) > kCandidatesMax) {
    return InvalidField("refresh_top", StrCat(given, " for ", call.queries.size(), " queries"),
                        StrCat("at most ", kCandidatesMax, " candidates of all queries"));
  }
  if (call.group_by) return InvalidField("refresh_top", given, "left out where 'group_by' is given");
  if (!call.evaluate_generations.empty()) {
    return InvalidField("refresh_top", given, "left out where 'evaluate_generations' is given");
  }
  if (context.may_write && !context.may_write(collection)) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      StrCat("refresh_top writes embeddings: '", context.caller,
                             "' needs the scope write for collection '", collection, "'"));
  }
  if (!generation.has_encoder) {
    return FailedPrecondition(StrCat("refresh_top: generation ", generation.generation, " of collection '", collection,
                                     "' has no encoder that could embed candidates"));
  }
  if (options.refresh_items_per_second_max == 0) {
    return FailedPrecondition("refresh_top: this server lets no search embed (encoder.refresh_items_per_second_max)");
  }
  return absl::OkStatus();
}

SearchCall CandidateSearch(const SearchCall& call) {
  SearchCall first = call;
  first.k = call.refresh_top;
  first.offset = 0;
  first.with_payload = first.with_vector = first.profile = false;
  first.payload = {};
  // Whom the bounds leave out as yet, they may let in by the new embedding.
  first.score_threshold.reset();
  first.distance_max.reset();
  first.relevance_min.reset();
  return first;
}

struct RefreshCalls::Run {
  const Served& served;
  const GenerationRecord& generation;
  CallContext embedding, writing;  // each ends before the call does
  uint64_t sequence = 0;           // of the last write
  bool write_failed = false;
};

size_t RefreshCalls::NextPiece(const Run& run, size_t left, absl::Time now) {
  if (!run.generation.endpoint) left = std::min(left, kPieceMax);
  absl::MutexLock lock(&mu_);
  const auto known = seconds_.find({run.served.collection->number(), run.generation.generation});
  if (known == seconds_.end()) return 1;
  const double time_left = absl::ToDoubleSeconds(run.embedding.deadline - now);
  if (known->second > time_left) {  // It would be late. A pace that was measured too slow is tried again in the end.
    known->second *= kTriedAgain;
    return 0;
  }
  const double items = kShareOfTime * time_left / std::max(known->second, 1e-6);
  return std::min(left, std::max<size_t>(1, static_cast<size_t>(std::min(items, 1e6))));
}

void RefreshCalls::NotePiece(const Run& run, size_t items, absl::Duration took, bool late) {
  const double seconds = absl::ToDoubleSeconds(took) / static_cast<double>(items);
  absl::MutexLock lock(&mu_);
  double& known = seconds_[{run.served.collection->number(), run.generation.generation}];
  // Of a piece that was late nobody knows how much of it was done.
  known = late ? std::max(known, 2 * seconds) : seconds;
}

int64_t RefreshCalls::TakeBudget(int64_t most) {
  absl::MutexLock lock(&mu_);
  return pace_.Take(absl::Now(), static_cast<double>(context_.options.refresh_items_per_second_max), most);
}

absl::StatusOr<std::vector<RefreshCalls::Due>> RefreshCalls::FindDue(const Run& run, const SearchAnswer& found,
                                                                     SearchRefresh* refresh) const {
  std::vector<uint64_t> ids;
  absl::flat_hash_set<uint64_t> seen;
  for (size_t rank = 0, hits = 1; hits > 0; ++rank) {
    hits = 0;
    for (const QueryAnswer& answer : found.results) {
      if (rank >= answer.hits.size()) continue;
      ++hits;
      const EngineHit& hit = answer.hits[rank];
      if (hit.generation < run.generation.generation && seen.insert(hit.internal_id).second) {
        ids.push_back(hit.internal_id);
      }
    }
  }
  refresh->candidates = std::ssize(ids);
  LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> rows, run.served.collection->CurrentRows(ids));
  std::vector<Due> due;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ItemRecord& record = rows[i].record;
    const auto& by = record.generations;
    // What a newer generation embedded, too, takes no embedding by this one any more.
    if (!rows[i].found || (!by.empty() && by.back() >= run.generation.generation)) {
      ++refresh->changed;
    } else if (!record.has_input) {
      ++refresh->without_input;
    } else {
      due.push_back({std::move(rows[i].id), ids[i], record.sequence});
    }
  }
  return due;
}

absl::StatusOr<size_t> RefreshCalls::ReadInputs(const Run& run, std::span<const Due> due, std::vector<Input>* inputs,
                                                SearchRefresh* refresh) const {
  size_t end = 0;
  for (size_t bytes = 0; end < due.size() && bytes < kInputBytesAtOnce; ++end) {
    const std::string key = keys::Input(run.served.collection->number(), due[end].internal_id);
    const absl::StatusOr<std::string> stored = context_.store->Get(Table::kInputs, key);
    if (absl::IsNotFound(stored.status())) {
      ++refresh->changed;
      continue;
    }
    absl::StatusOr<RawInput> input = stored.ok() ? DecodeInput(*stored) : stored.status();
    if (!input.ok() && !absl::IsDataLoss(input.status())) return input.status();
    if (!input.ok()) {
      CountFailure(input.status(), 1, refresh);
      continue;
    }
    bytes += stored->size();
    inputs->push_back({*std::move(input), &due[end]});
  }
  return end;
}

absl::Status RefreshCalls::EmbedAndWrite(Run& run, std::span<const Input> inputs, SearchRefresh* refresh) {
  std::vector<const RawInput*> pointers;
  for (const Input& input : inputs) pointers.push_back(&input.content);
  const auto field_of = [&](size_t i) { return StrCat("stored input of item ", ToString(inputs[i].item->id)); };
  absl::StatusOr<EmbeddedInputs> vectors = EmbedInputs(context_, *run.served.collection, run.generation, pointers,
                                                       EmbedRole::kDocument, field_of, run.embedding);
  if (absl::IsResourceExhausted(vectors.status()) && inputs.size() > 1) {  // Fewer of them may fit in.
    const size_t half = inputs.size() / 2;
    const absl::Status first = EmbedAndWrite(run, inputs.first(half), refresh);
    if (absl::IsCancelled(first) || run.write_failed) return first;
    return EmbedAndWrite(run, inputs.subspan(half), refresh);
  }
  if (!vectors.ok()) vectors = EmbeddedInputs(inputs.size(), vectors.status());
  UpsertBatch batch;
  batch.generation = run.generation.generation;
  batch.same_content = true;
  // What a power loss takes back is embedded once more.
  batch.durability = Durability::kProcess;
  absl::Status first_error;
  for (size_t i = 0; i < vectors->size(); ++i) {
    absl::StatusOr<std::vector<float>>& vector = (*vectors)[i];
    if (!vector.ok()) {
      CountFailure(vector.status(), 1, refresh);
      first_error.Update(vector.status());
      continue;
    }
    UpsertItem& to = batch.items.emplace_back();
    to.id = inputs[i].item->id;
    to.content = *std::move(vector);
    to.expected_sequence = inputs[i].item->sequence;
  }
  if (batch.items.empty()) return first_error;
  const auto items = std::ssize(batch.items);
  const absl::StatusOr<WriteResult> written =
      writes_.WriteVectors(run.served, run.generation, std::move(batch), run.writing);
  if (!written.ok()) {
    run.write_failed = true;
    CountFailure(written.status(), items, refresh);
    return written.status();
  }
  run.sequence = std::max(run.sequence, written->sequence);
  refresh->changed += std::ssize(written->outdated);
  refresh->refreshed += items - std::ssize(written->outdated);
  return absl::OkStatus();
}

absl::StatusOr<SearchRefresh> RefreshCalls::Refresh(const ServedPtr& served, const GenerationRecord& generation,
                                                    const SearchAnswer& found, absl::Time began,
                                                    const CallContext& context) {
  Run run{*served, generation, context, context};
  const absl::Duration kept = KeptForRanking(context.deadline, began, absl::Now());
  run.embedding.deadline = std::min(context.deadline - kept, absl::Now() + kLongest);
  run.writing.deadline = run.embedding.deadline + kept / 2;
  SearchRefresh refresh;
  LC_ASSIGN_OR_RETURN(const std::vector<Due> due, FindDue(run, found, &refresh));
  const absl::Cleanup end = [this] { searches_.fetch_sub(1); };
  if (searches_.fetch_add(1) >= kSearchesMax) {
    refresh.over_budget += std::ssize(due);
  } else {
    LC_RETURN_IF_ERROR(EmbedDue(run, due, context, &refresh));
  }
  if (run.sequence == 0) return refresh;
  // Where views are late, the search ranks what they show.
  const absl::Status visible = served->collection->WaitVisible(run.sequence, run.writing);
  if (!visible.ok() && !absl::IsDeadlineExceeded(visible)) return visible;
  return refresh;
}

absl::Status RefreshCalls::EmbedDue(Run& run, std::span<const Due> due, const CallContext& context,
                                    SearchRefresh* refresh) {
  for (size_t done = 0; done < due.size();) {
    LC_RETURN_IF_ERROR(CheckAlive(context, "search"));
    const auto left = due.subspan(done);
    const absl::Time now = absl::Now();
    if (now >= run.embedding.deadline) {
      refresh->late += std::ssize(left);
      break;
    }
    const size_t piece = NextPiece(run, left.size(), now);
    if (piece == 0) {
      refresh->late += std::ssize(left);
      break;
    }
    const auto granted = static_cast<size_t>(TakeBudget(static_cast<int64_t>(piece)));
    if (granted == 0) {
      refresh->over_budget += std::ssize(left);
      break;
    }
    std::vector<Input> inputs;
    LC_ASSIGN_OR_RETURN(const size_t read, ReadInputs(run, left.first(granted), &inputs, refresh));
    done += read;
    if (inputs.empty()) continue;
    const absl::Status embedded = EmbedAndWrite(run, inputs, refresh);
    if (absl::IsCancelled(embedded)) return embedded;
    if (embedded.ok() || absl::IsDeadlineExceeded(embedded)) {
      NotePiece(run, inputs.size(), absl::Now() - now, /*late=*/!embedded.ok());
    }
    if (!embedded.ok() && (run.write_failed || !IsInputsFault(embedded))) {
      // The encoder or the store serves nobody now: the rest is not asked for.
      CountFailure(embedded, std::ssize(due) - static_cast<std::ptrdiff_t>(done), refresh);
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace lightcone::server
