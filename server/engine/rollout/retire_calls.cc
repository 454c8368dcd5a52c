#include "server/engine/rollout/retire_calls.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/embed/embedder.h"
#include "server/engine/jobs/job_calls.h"
#include "server/engine/rollout/generation_status.h"
#include "server/engine/services/operator_transaction.h"
#include "server/engine/write/writer.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kSweepItems = 1'000;  // items in one batch of the writer
constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr absl::Duration kBarrierMax = absl::Seconds(5);

struct Stranded {
  uint64_t only = 0;         // items that nobody else embedded
  uint64_t unreachable = 0;  // items whose other embeddings neither the active generation nor a canary reaches
};

Stranded CountStranded(const CollectionState& state, const ProgressRecord& progress, uint32_t generation) {
  const auto reached = [&](uint32_t serving, const std::vector<uint32_t>& generations) {
    const uint32_t head = HeadGeneration(generations, serving);
    return head <= serving && state.reach.To(serving, head).open();
  };
  const auto loses = [&](uint32_t serving, const std::vector<uint32_t>& now, const std::vector<uint32_t>& left) {
    return serving != 0 && reached(serving, now) && !reached(serving, left);
  };
  Stranded stranded;
  for (const auto& [generations, count] : progress.items) {
    if (!std::binary_search(generations.begin(), generations.end(), generation)) continue;
    // Whoever was retired a moment ago may still be on its way out of the items.
    std::vector<uint32_t> left = generations;
    std::erase_if(left, [&](uint32_t g) { return g == generation || state.generations[g - 1].retired; });
    if (left.empty()) {
      stranded.only += count;
    } else if (loses(state.record.active_generation, generations, left) ||
               loses(state.record.canary_generation, generations, left)) {
      stranded.unreachable += count;
    }
  }
  return stranded;
}

// Removes the adapters of the generation from the set, and from the store with the batch.
void DropAdaptersOf(uint32_t collection, uint32_t generation, AdapterSet* adapters, WriteBatch* batch) {
  std::erase_if(*adapters, [&](const auto& entry) {
    const auto& [from, to] = entry.first;
    if (from != generation && to != generation) return false;
    batch->Delete(Table::kGenerations, keys::Adapter(collection, from, to));
    return true;
  });
}

absl::StatusOr<WriteResult> Sweep(const Served& served, uint32_t generation, const std::vector<ResolvedRow>& items) {
  WriteJob job;
  job.drop_generation = generation;
  for (const ResolvedRow& item : items) {
    if (item.found) job.ids.push_back(item.id);
  }
  return served.writer->Submit(&job, {});
}

// After OK the generation takes no more writes.
absl::Status CheckRetirable(const Served& served, const CollectionState& state, uint32_t generation) {
  Collection& collection = *served.collection;
  LC_RETURN_IF_ERROR(state.ResolveAny(generation).status());
  if (state.record.canary_generation == generation) {
    return FailedPrecondition(StrCat("generation ", generation, " of collection '", state.record.name, "' serves ",
                                     state.record.canary_share, " of the searches as a canary; end that first"));
  }
  if (state.record.active_generation == generation) {
    return FailedPrecondition(StrCat("generation ", generation, " of collection '", state.record.name,
                                     "' serves; activate another one before you retire it"));
  }
  // No more writes by it; and those that were on their way when that was said have ended behind the empty one.
  collection.SetClosed(generation, true);
  WriteJob barrier;
  CallContext soon;  // a rollback waits for the operator's lock meanwhile, also where writes wait for room
  soon.deadline = absl::Now() + kBarrierMax;
  const absl::Status ended = served.writer->Submit(&barrier, soon).status();
  if (!ended.ok()) {
    collection.SetClosed(generation, false);
    if (!absl::IsDeadlineExceeded(ended)) return ended;
    return MakeStatus(
        absl::StatusCode::kDeadlineExceeded,
        StrCat("generation ", generation, " of collection '", state.record.name, "' is not retired: writes that ",
               "came before have waited for longer than ", absl::FormatDuration(kBarrierMax), "; try again"));
  }
  const Stranded stranded = CountStranded(state, collection.progress(), generation);
  if (stranded.only + stranded.unreachable == 0) return absl::OkStatus();
  collection.SetClosed(generation, false);
  return FailedPrecondition(StrCat(
      "without generation ", generation, " ", stranded.only + stranded.unreachable, " items of collection '",
      state.record.name, "' could not be reached any more: ", stranded.only, " are embedded by nothing else, and ",
      stranded.unreachable, " by nothing else that what serves reaches; embed them anew first"));
}

}  // namespace

absl::StatusOr<RetireAnswer> RetireCalls::Retire(const RetireCall& call) {
  LC_RETURN_IF_ERROR(CheckOperatorName(call.operator_name));
  const uint32_t generation = call.generation;
  if (generation == 0) return InvalidField("generation", "0", "the number of a generation");
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(context_, collection,
                                 {call.request_id, "RetireGeneration", StrCat(collection.number(), "|", generation)}));
  const CollectionState& state = change.before();
  if (change.earlier() != nullptr) return RetireAnswer{StatusOf(collection, state, generation), change.earlier()->job};
  if (const GenerationRecord* known = state.Find(generation); known != nullptr && known->retired) {
    // Again: the job that gives its space back, or a new one if that failed.
    LC_RETURN_IF_ERROR(context_.store->Sync());  // The disk may have refused the call that retired it.
    std::string job = context_.jobs->Find(kJob, collection.number(), generation);
    if (job.empty() && !known->removed) {
      LC_ASSIGN_OR_RETURN(job, BeginJob(*context_.jobs, change, kJob, generation));
    }
    return RetireAnswer{StatusOf(collection, state, generation), job};
  }
  LC_RETURN_IF_ERROR(CheckRetirable(*served, state, generation));
  std::erase(change.records().record().earlier_active, generation);
  change.records().generation(generation).retired = true;
  const absl::Status noted = change.Audit({.generation = generation,
                                           .previous_generation = state.record.active_generation,
                                           .reason = call.reason,
                                           .retired = true,
                                           .operator_name = call.operator_name});
  const absl::StatusOr<std::string> job = noted.ok() ? BeginJob(*context_.jobs, change, kJob, generation) : noted;
  if (!job.ok() && !collection.state()->Find(generation)->retired) collection.SetClosed(generation, false);
  LC_RETURN_IF_ERROR(job.status());
  return RetireAnswer{StatusOf(collection, *collection.state(), generation), *job};
}

absl::StatusOr<uint64_t> RetireCalls::SweepEmbeddings(const Served& served, uint32_t generation, const JobRun& run) {
  Collection& collection = *served.collection;
  const keys::Range range = keys::GenerationRange(collection.number(), generation);
  const uint64_t total = StatusOf(collection, *collection.state(), generation).items;
  uint64_t swept = 0;
  const auto rows = context_.store->Scan(Table::kEmbeddings, range.begin, range.end);
  while (rows->Valid()) {
    if (run.cancelled() || collection.dropped()) return absl::CancelledError("the retirement was interrupted");
    std::vector<uint64_t> internal_ids;
    for (; rows->Valid() && internal_ids.size() < kSweepItems; rows->Next()) {
      LC_ASSIGN_OR_RETURN(const keys::EmbeddingKey key, keys::ParseEmbedding(rows->key()));
      internal_ids.push_back(key.internal_id);
    }
    LC_ASSIGN_OR_RETURN(const std::vector<ResolvedRow> items, collection.CurrentRows(internal_ids));
    absl::StatusOr<WriteResult> written = Sweep(served, generation, items);
    // A full queue, or a full disk: there is time.
    while (absl::IsResourceExhausted(written.status()) && !run.cancelled() && !collection.dropped()) {
      run.report(swept, std::max(total, swept), MessageOf(written.status()));
      absl::SleepFor(kPause);
      written = Sweep(served, generation, items);
    }
    LC_RETURN_IF_ERROR(written.status());
    swept += written->items;
    run.report(swept, std::max(total, swept), "items");
  }
  LC_RETURN_IF_ERROR(rows->status());
  for (const auto& [generations, count] : collection.progress().items) {
    if (std::binary_search(generations.begin(), generations.end(), generation)) {
      return Internal(StrCat(count, " items still need generation ", generation, "; nothing is removed"));
    }
  }
  return swept;
}

absl::StatusOr<std::string> RetireCalls::RunJob(const JobRun& run) {
  const uint32_t generation = run.job.generation;
  LC_ASSIGN_OR_RETURN(const ServedPtr served,
                      context_.catalog.FindByNumber(run.job.collection_number, run.job.collection));
  Collection& collection = *served->collection;
  const uint32_t number = collection.number();
  // The index has the rows in files before their embeddings go: a start in between does not miss them.
  CallContext context;
  context.cancelled = run.cancelled;
  run.report(0, 0, "sealing segments");
  LC_RETURN_IF_ERROR(collection.Flush(context));
  LC_ASSIGN_OR_RETURN(const uint64_t swept, SweepEmbeddings(*served, generation, run));
  // Before the lock: a rollback must not wait for a look at all that was superseded.
  LC_RETURN_IF_ERROR(collection.PrepareDrop(generation, [&] { return run.cancelled() || collection.dropped(); }));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::Begin(context_, collection, {}));
  served->backfill->Halt();  // The backfill may be ordering items of this generation.
  const absl::Cleanup resume = [&] { served->backfill->Resume(); };
  LC_RETURN_IF_ERROR(collection.DropGeneration(generation));
  const keys::Range range = keys::GenerationRange(number, generation);
  for (const Table table : {Table::kEmbeddings, Table::kOrder}) {
    LC_RETURN_IF_ERROR(context_.store->DeleteRange(table, range.begin, range.end));
  }
  const std::string encoder = context_.folders.Encoder(number, generation);
  std::error_code error;
  std::filesystem::remove(encoder, error);
  if (error) return ErrnoStatus(error.value(), "remove", encoder);
  // The encoders of other generations load again.
  context_.embedder->Forget(number, generation);
  change.records().generation(generation).removed = true;
  // Only now: until it left the index, items may have been found by nothing but its rows and an adapter.
  DropAdaptersOf(number, generation, &change.records().adapters(), &change.batch());
  LC_RETURN_IF_ERROR(change.Commit());
  return Dump({{"items", swept}});
}

}  // namespace lightcone::server
