#include "server/engine/search/search_calls.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "base/utf8.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/backfill/pace.h"
#include "server/engine/collection/answer_bytes.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/item_reader.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/live/live_figures.h"
#include "server/engine/rollout/canary.h"
#include "server/engine/search/query_inputs.h"
#include "server/engine/search/search.h"
#include "server/engine/search/search_groups.h"
#include "server/engine/search/slow_search.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr size_t kKeyBytesMax = 256;

absl::Status CheckSearch(const SearchCall& call, const Limits& limits) {
  LC_RETURN_IF_ERROR(CheckCount(call.queries.size(), limits.queries_max, "queries"));
  if (call.group_by) {
    LC_RETURN_IF_ERROR(CheckGroupBy(call, limits));
  } else if (call.k < 1 || call.k > limits.k_max) {
    return InvalidField("k", StrCat(call.k), StrCat("1 .. ", limits.k_max));
  }
  if (call.offset < 0 || call.offset > limits.k_max - call.k) {
    return InvalidField("offset", StrCat(call.offset), StrCat("0 .. ", limits.k_max - call.k, " with k = ", call.k));
  }
  if (call.score_threshold && !std::isfinite(*call.score_threshold)) {
    return InvalidField("score_threshold", StrCat(*call.score_threshold), "a finite number");
  }
  if (call.distance_max && !std::isfinite(*call.distance_max)) {
    return InvalidField("distance_max", StrCat(*call.distance_max), "a finite number");
  }
  if (call.relevance_min && !(*call.relevance_min >= 0 && *call.relevance_min <= 1)) {
    return InvalidField("relevance_min", StrCat(*call.relevance_min), "0 .. 1");
  }
  if (!call.with_payload && !call.payload.all()) {
    return InvalidField("payload", "given", "left out where with_payload is not set");
  }
  if (call.ef < 0 || call.ef > limits.ef_max) {
    return InvalidField("ef", StrCat(call.ef), StrCat("0 (the collection's setting) .. ", limits.ef_max));
  }
  if (call.nprobe < 0) return InvalidField("nprobe", StrCat(call.nprobe), "0 (the collection's setting) or more");
  return absl::OkStatus();
}

// "More like this": the item's embedding by the query generation, or else the one that its view serves.
absl::Status LookUpItem(const Collection& collection, uint32_t generation, const ItemId& id, const std::string& field,
                        const Limits& limits, BoundVector* out) {
  LC_RETURN_IF_ERROR(CheckItemId(id, limits.id_bytes_max, field));
  const ItemReader reader(&collection);
  LC_ASSIGN_OR_RETURN(std::vector<ItemReader::Read> read, reader.ReadItems({&id, 1}, generation, /*exactly=*/false));
  if (!read[0].found)
    return NotFound(StrCat(field, ": no item ", ToString(id), " in collection '", collection.name(), "'"));
  out->z = std::move(read[0].embedding.z);
  out->generation = read[0].generation;
  out->left_out = id;
  return absl::OkStatus();
}

// Fills in what the query carries of older generations.
absl::Status BindOlder(const CollectionState& state, const GenerationRecord& generation, const Query& query,
                       const std::string& field, BoundVector* bound) {
  if (query.older_vectors.empty()) return absl::OkStatus();
  if (!std::holds_alternative<std::vector<float>>(query.content)) {
    return InvalidField(field + ".older_vectors", "given", "left out where there is no vector");
  }
  std::set<uint32_t> seen;
  for (size_t j = 0; j < query.older_vectors.size(); ++j) {
    const OlderVector& older = query.older_vectors[j];
    const std::string name = StrCat(field, ".older_vectors[", j, "]");
    const std::string number = StrCat(older.generation);
    const GenerationRecord* record = state.Find(older.generation);
    // Beside a canary's vector the one of the generation that serves is for the canary alone.
    const bool for_canary = older.generation == generation.generation && !query.canary_vector.empty();
    if (record == nullptr || (older.generation >= generation.generation && !for_canary)) {
      const std::string allowed = generation.generation == 1
                                      ? "left out: generation 1 is the oldest"
                                      : StrCat("1 .. ", generation.generation - 1, ", older than the query's");
      return InvalidField(name + ".generation", number, allowed);
    }
    if (!seen.insert(older.generation).second) {
      return InvalidField(name + ".generation", number + ", given before", "each generation once");
    }
    LC_RETURN_IF_ERROR(CheckVector(record->space, older.z, name + ".vector"));
    if (!for_canary) bound->older.push_back(older);
  }
  return absl::OkStatus();
}

// Fills in the vector of a query that is a vector or an item, or the reason why there is none.
void BindQuery(const Collection& collection, const CollectionState& state, const GenerationRecord& generation,
               const SearchCall& call, size_t i, const Limits& limits, BoundVector* bound) {
  const Query& query = call.queries[i];
  bound->status = query.error;
  bound->generation = generation.generation;
  if (!bound->status.ok()) return;
  const std::string field = StrCat("queries[", i, "]");
  bound->status = BindOlder(state, generation, query, field, bound);
  if (!bound->status.ok() || std::holds_alternative<RawInput>(query.content)) return;
  if (const auto* vector = std::get_if<std::vector<float>>(&query.content)) {
    bound->status =
        CheckVector(generation.space, *vector, field + (query.is_canary_vector ? ".canary_vector" : ".vector"));
    if (bound->status.ok()) bound->z = *vector;
    return;
  }
  const ItemId& item = std::get<QueryByItem>(query.content).id;
  bound->status = LookUpItem(collection, generation.generation, item, field + ".item", limits, bound);
  if (bound->status.ok() && state.Find(bound->generation) == nullptr) {
    bound->status = Aborted(StrCat(field, ".item: embedded by a generation that is being registered; try again"));
  }
  if (bound->status.ok()) bound->status = CarryQuery(state, generation.generation, call.adapter_mode, bound);
}

void MeterHits(const SearchAnswer& answer, CallMeter* meter) {
  int64_t rows = 0, bytes = 0;
  const auto add = [&](const std::vector<EngineHit>& hits) {
    rows += static_cast<int64_t>(hits.size());
    for (const EngineHit& hit : hits) {
      bytes += BytesOf(hit.id) + static_cast<int64_t>(hit.payload_json.size() + hit.vector.size() * sizeof(float));
    }
  };
  for (const QueryAnswer& result : answer.results) {
    add(result.hits);
    for (const HitGroup& group : result.groups) add(group.hits);
  }
  meter->CountRead(rows, bytes);
}

// Whether a generation could be asked every query of the call.
bool CanAsk(const GenerationRecord& generation, const SearchCall& call) {
  if (call.refresh_top > 0 && !generation.has_encoder) return false;
  return std::all_of(call.queries.begin(), call.queries.end(), [&](const Query& query) {
    if (!query.error.ok() || std::holds_alternative<QueryByItem>(query.content)) return true;
    if (std::holds_alternative<RawInput>(query.content)) return generation.has_encoder;
    return !query.canary_vector.empty();
  });
}

}  // namespace

absl::StatusOr<SearchAnswer> SearchCalls::Search(const SearchCall& call, const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckAlive(context, "search"));
  if (context.meter != nullptr) LC_RETURN_IF_ERROR(context.meter->BeginRead());
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  LC_ASSIGN_OR_RETURN(SearchAnswer answer, call.canary_key.empty() ? SearchServed(served, call, context)
                                                                   : SearchByKey(served, call, context));
  if (context.meter != nullptr) MeterHits(answer, context.meter.get());
  return answer;
}

absl::StatusOr<SearchAnswer> SearchCalls::SearchServed(const ServedPtr& served, const SearchCall& call,
                                                       const CallContext& context) {
  Collection& collection = *served->collection;
  const auto asked = collection.state();
  LC_RETURN_IF_ERROR(CheckLimits(asked->record, context_.options.limits,
                                 [&call](const Limits& limits) { return CheckSearch(call, limits); }));
  LC_RETURN_IF_ERROR(CheckStrictSearch(asked->record, call));
  LC_ASSIGN_OR_RETURN(const PayloadSelector selector, PayloadSelector::Make(call.payload, "payload"));
  std::optional<Filter> filter;
  if (call.filter) {
    LC_ASSIGN_OR_RETURN(filter, Filter::Make(*call.filter));
  }
  const Filter* const where = filter ? &*filter : nullptr;
  LC_RETURN_IF_ERROR(CheckStrictFilter(asked->record, where, /*writes=*/false));
  if (call.wait_for_sequence > 0) LC_RETURN_IF_ERROR(collection.WaitVisible(call.wait_for_sequence, context));
  const auto state = collection.state();
  LC_ASSIGN_OR_RETURN(const GenerationRecord* generation, state->Resolve(call.generation));
  LC_RETURN_IF_ERROR(CheckModel(*generation, call.model));
  LC_RETURN_IF_ERROR(CheckRefresh(call, collection.name(), *generation, context_.options, context));
  std::vector<BoundVector> queries(call.queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    BindQuery(collection, *state, *generation, call, i, context_.options.limits, &queries[i]);
  }
  LC_RETURN_IF_ERROR(EmbedQueries(context_, collection, *generation, call, context, &queries));
  std::string older_error;
  if (call.embed_older) {
    LC_ASSIGN_OR_RETURN(older_error, EmbedOlder(context_, collection, *state, *generation, call, context, &queries));
  }
  std::vector<std::string> warnings = WatchModels(*served, *generation, call, &queries);
  std::optional<SearchRefresh> refresh;
  if (call.refresh_top > 0) {
    LC_ASSIGN_OR_RETURN(refresh, Refresh(served, *state, *generation, call, where, queries, context));
  }
  const absl::Time began = absl::Now();  // What embeds, and a wait for writes, does not count as a slow search.
  if (call.group_by) {
    GroupedSearch grouped(context_, *served, *state, generation->generation, call, where, context);
    absl::StatusOr<SearchAnswer> answer = grouped.Run(queries, selector);
    const absl::Time ended = absl::Now();
    served->search_times->Note(ended, ended - began);
    if (answer.ok()) answer->older_error = std::move(older_error);
    if (answer.ok()) answer->warnings = std::move(warnings);
    return answer;
  }
  SearchRun run(&collection, *state, generation->generation, call, where, &context_.pool, context);
  run.UseBreadths(&served->live->breadths());
  run.UseSamples(served->samples.get());
  run.UseSelector(&selector);
  const absl::Duration slow = absl::Milliseconds(context_.options.slow_search_ms);
  if (slow > absl::ZeroDuration()) run.CollectProfile();
  absl::StatusOr<SearchAnswer> answer = run.Run(queries);
  const absl::Time ended = absl::Now();
  served->search_times->Note(ended, ended - began);
  if (!answer.ok() && !older_error.empty()) return Annotate(answer.status(), older_error);
  if (answer.ok()) {
    answer->refresh = std::move(refresh);
    answer->older_error = std::move(older_error);
    answer->warnings = std::move(warnings);
  }
  if (slow > absl::ZeroDuration() && answer.ok()) {
    if (ended - began >= slow) spdlog::warn("{}", SlowSearchLine(call, *answer, ended - began, context.trace_id));
    if (!call.profile) answer->profile.reset();
  }
  // Exact searches are taken for an evaluation, too: their hits say nothing of what applications look at.
  if (answer.ok() && !call.exact && call.evaluate_generations.empty()) {
    served->backfill->RecordReturnedItems(*answer);
    live_recall_.Sample(served, call, queries, *answer);
  }
  return answer;
}

absl::StatusOr<SearchRefresh> SearchCalls::Refresh(const ServedPtr& served, const CollectionState& state,
                                                   const GenerationRecord& generation, const SearchCall& call,
                                                   const Filter* filter, const std::vector<BoundVector>& queries,
                                                   const CallContext& context) {
  const absl::Time began = absl::Now();
  CallContext part = context;  // The search that ranks at last needs time, too.
  if (context.deadline != absl::InfiniteFuture()) part.deadline = began + (context.deadline - began) / 3;
  const SearchCall first = CandidateSearch(call);
  absl::StatusOr<SearchAnswer> found;
  {
    SearchRun run(served->collection.get(), state, generation.generation, first, filter, &context_.pool, part);
    run.UseBreadths(&served->live->breadths());
    run.UseSamples(served->samples.get());
    found = run.Run(queries);
  }  // Its view ends before anything is embedded.
  if (absl::IsDeadlineExceeded(found.status())) return SearchRefresh();
  LC_RETURN_IF_ERROR(found.status());
  return refreshes_.Refresh(served, generation, *found, began, context);
}

absl::StatusOr<SearchAnswer> SearchCalls::SearchByKey(const ServedPtr& served, const SearchCall& call,
                                                      const CallContext& context) {
  if (call.canary_key.size() > kKeyBytesMax || !IsUtf8(call.canary_key)) {
    return InvalidField("canary_key", StrCat(call.canary_key.size(), " bytes long, or not UTF-8"),
                        StrCat("at most ", kKeyBytesMax, " bytes of UTF-8"));
  }
  if (call.generation != 0) {
    return InvalidField("canary_key", "given", StrCat("empty where generation is ", call.generation));
  }
  const auto state = served->collection->state();
  const uint32_t canary = state->record.canary_generation;
  if (canary == 0) return SearchServed(served, call, context);
  const bool chosen = CanaryHas(call.canary_key, served->collection->number(), canary, state->record.canary_share);
  const bool able = chosen && CanAsk(*state->Find(canary), call);
  if (chosen && !able) served->canary->NoteUnroutable();
  const absl::Time began = absl::Now();
  absl::StatusOr<SearchAnswer> answer;
  if (able) {
    LC_ASSIGN_OR_RETURN(const GenerationRecord* active, state->Resolve(0));
    LC_RETURN_IF_ERROR(CheckModel(*active, call.model));
    SearchCall routed = call;
    routed.model.clear();  // It is the model of the active generation's vectors.
    routed.generation = canary;
    for (Query& query : routed.queries) {
      if (!std::holds_alternative<std::vector<float>>(query.content)) continue;
      query.content = std::move(query.canary_vector);
      query.is_canary_vector = true;
    }
    answer = SearchServed(served, routed, context);
    if (answer.ok()) {
      answer->canary = true;
    } else if (served->collection->state()->record.canary_generation != canary) {
      return SearchServed(served, call, context);  // The canary ended meanwhile, and may be retired by now.
    }
  } else {
    answer = SearchServed(served, call, context);
  }
  served->canary->Note(able, absl::Now() - began, answer);
  return answer;
}

}  // namespace lightcone::server
