#include "server/engine/search/search.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/trace.h"
#include "geometry/bound_query.h"
#include "server/engine/collection/checks.h"
#include "server/engine/search/fused_leg.h"
#include "server/engine/search/leg_spans.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

std::string Listed(const std::vector<uint32_t>& generations) {
  std::string list;
  for (const uint32_t g : generations) list += StrCat(list.empty() ? "" : ", ", g);
  return list;
}

std::string SpaceText(const Space& space) {
  std::string text = StrCat(MetricName(space.metric), " with ", space.dimension, " dimensions");
  if (space.metric == Metric::kLorentz) text += StrCat(" and curvature ", space.curvature);
  return text;
}

// What the adapter makes of a vector. INVALID_ARGUMENT when that is no vector of its target.
absl::StatusOr<std::vector<float>> Carried(const ServedAdapter& by, const std::vector<float>& z) {
  std::vector<float> out(static_cast<size_t>(by.adapter.output_dimension()));
  by.adapter.ApplyOne(z, out);
  const std::string step = StrCat("carried by adapter ", by.status.from, " -> ", by.status.to);
  LC_RETURN_IF_ERROR(Annotate(CheckVector(by.adapter.target(), out, "vector"), step));
  return out;
}

constexpr size_t kGroupsAThread = 2;
constexpr size_t kQueriesATile = 4;  // queries that scoring takes at once
constexpr size_t kQueriesAGroupMax = 32;
constexpr size_t kIndexSpansMax = 8;  // number of a run; its legs and the store need places, too

// Of the time that is left when a search begins, for what comes after its legs.
constexpr int64_t kReserveParts = 10;
constexpr absl::Duration kReserveMax = absl::Milliseconds(20);

// More groups than threads, since queries differ in length; and so few in one that a late call still stops soon.
size_t QueriesAGroup(size_t queries, int threads) {
  const size_t groups_wanted = static_cast<size_t>(threads) * kGroupsAThread;
  const size_t share = (queries + groups_wanted - 1) / groups_wanted;
  return std::min((share + kQueriesATile - 1) / kQueriesATile * kQueriesATile, kQueriesAGroupMax);
}

bool RanOut(const absl::Status& status) { return absl::IsDeadlineExceeded(status); }

CallContext LegsContext(CallContext context) {
  context.deadline = LegsDeadline(context.deadline, absl::Now());
  return context;
}

}  // namespace

absl::Time LegsDeadline(absl::Time deadline, absl::Time now) {
  if (deadline == absl::InfiniteFuture()) return deadline;
  return deadline - std::clamp((deadline - now) / kReserveParts, absl::ZeroDuration(), kReserveMax);
}

absl::Status CarryQuery(const CollectionState& state, uint32_t generation, AdapterMode mode, BoundVector* query) {
  const ServedAdapter* by = state.reach.Between(query->generation, generation, mode);
  if (by == nullptr) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(query->z, Carried(*by, query->z));
  query->generation = generation;
  query->carried = true;
  return absl::OkStatus();
}

SearchRun::SearchRun(Collection* collection, const CollectionState& state, uint32_t generation, const SearchCall& call,
                     const Filter* filter, ThreadPool* pool, const CallContext& context)
    : SearchRun(collection, state, generation, call, filter, pool, context, collection->Pin()) {}

SearchRun::SearchRun(Collection* collection, const CollectionState& state, uint32_t generation, const SearchCall& call,
                     const Filter* filter, ThreadPool* pool, const CallContext& context, PinnedView view)
    : collection_(collection),
      state_(state),
      generation_(generation),
      call_(call),
      scale_generation_(call.scale_generation != 0 ? call.scale_generation : state.record.scale_generation),
      filter_(filter),
      pool_(pool),
      context_(LegsContext(context)),
      view_(std::move(view)),
      rows_(collection, filter, context_),
      found_(context.answer_bytes_max),
      filled_(context.answer_bytes_max) {}

absl::Status SearchRun::CheckOverride(const std::vector<BoundVector>& queries) const {
  const GenerationRecord& query = *state_.Find(generation_);
  for (size_t i = 0; i < call_.evaluate_generations.size(); ++i) {
    const GenerationRecord* other = state_.Find(call_.evaluate_generations[i]);
    if (other == nullptr) {
      return NotFound(StrCat("evaluate_generations[", i, "]: no generation ", call_.evaluate_generations[i],
                             " in collection '", state_.record.name, "'; there are: 1 .. ", state_.generations.size()));
    }
    const Route route = state_.reach.To(generation_, other->generation, call_.adapter_mode);
    const auto has_older = [&](const BoundVector& q) { return OlderOf(q, other->generation) != nullptr; };
    if (std::all_of(queries.begin(), queries.end(), has_older)) continue;
    if (!route.open() && !SameSpace(query.space, other->space)) {
      return FailedPrecondition(StrCat("evaluate_generations[", i, "]: generation ", generation_, " is ",
                                       SpaceText(query.space), " and generation ", other->generation, " is ",
                                       SpaceText(other->space), "; they cannot be compared"));
    }
  }
  return absl::OkStatus();
}

absl::Status SearchRun::ChooseGenerations(const std::vector<BoundVector>& queries) {
  if (!call_.evaluate_generations.empty()) {
    LC_RETURN_IF_ERROR(CheckOverride(queries));
    // As a view that served the newest of them would have it.
    view_generation_ = *std::max_element(call_.evaluate_generations.begin(), call_.evaluate_generations.end());
    generations_ = call_.evaluate_generations;
    std::sort(generations_.begin(), generations_.end());
    generations_.erase(std::unique(generations_.begin(), generations_.end()), generations_.end());
    return absl::OkStatus();
  }
  view_generation_ = generation_;
  for (const uint32_t g : view_->Generations(view_generation_)) {
    if (g <= view_generation_) generations_.push_back(g);
  }
  const auto reached = [&](uint32_t g) {
    return state_.reach.To(generation_, g, call_.adapter_mode).open() ||
           std::any_of(queries.begin(), queries.end(), [g](const BoundVector& q) { return OlderOf(q, g) != nullptr; });
  };
  if (std::any_of(generations_.begin(), generations_.end(), reached)) return absl::OkStatus();
  const std::vector<uint32_t> present = view_->Generations(state_.record.last_generation);
  if (present.empty()) return absl::OkStatus();  // an empty collection
  // Queries that failed say why themselves.
  if (std::none_of(queries.begin(), queries.end(), [](const BoundVector& q) { return q.status.ok(); })) {
    return absl::OkStatus();
  }
  return FailedPrecondition(StrCat(
      "queries of generation ", generation_, " cannot be compared with the items of ", "collection '",
      state_.record.name, "', which generation ", Listed(present), " embedded: out of reach",
      call_.adapter_mode == AdapterMode::kDefault ? "" : "; field 'adapter_mode' leaves adapters out of this search"));
}

Route SearchRun::RouteOf(const BoundVector& query, uint32_t item_generation) const {
  Route route = state_.reach.To(query.generation, item_generation, call_.adapter_mode);
  // A calibration was learnt from what the generation's own encoder makes of queries.
  if (query.carried) route.calibration.reset();
  if (route.open()) return route;
  const bool overridden = !call_.evaluate_generations.empty();
  // Compatible training compares both ways; a stored item of an older generation may ask for newer ones.
  const bool turned = query.left_out && state_.reach.To(item_generation, query.generation, AdapterMode::kNone).native;
  route.native =
      (overridden || turned) && SameSpace(state_.Find(query.generation)->space, state_.Find(item_generation)->space);
  return route;
}

std::vector<std::span<SearchRun::Leg>> SearchRun::Grouped(std::vector<Leg>& legs, size_t queries, int threads) {
  const size_t most = QueriesAGroup(queries, threads);
  std::vector<std::span<Leg>> groups;
  for (size_t begin = 0; begin < legs.size();) {
    size_t end = begin, queries_here = 0;
    while (end < legs.size()) {
      const bool next_query = end == begin || legs[end].query != legs[end - 1].query;
      if (next_query && ++queries_here > most) break;
      ++end;
    }
    groups.emplace_back(legs.data() + begin, end - begin);
    begin = end;
  }
  return groups;
}

std::vector<SearchRun::Leg> SearchRun::MakeLegs(const std::vector<BoundVector>& queries, SearchAnswer* answer) const {
  int64_t all = 0, reached = 0;
  for (const uint32_t g : view_->Generations(state_.record.last_generation)) {
    all += view_->VisibleRows(g, state_.record.last_generation);
  }
  for (const uint32_t g : generations_) {
    const Route route = state_.reach.To(generation_, g, call_.adapter_mode);
    if (route.open()) reached += view_->VisibleRows(g, view_generation_);
  }
  std::vector<Leg> legs;
  bool any = false;
  int64_t least = all;  // rows that every query reaches
  for (size_t q = 0; q < queries.size(); ++q) {
    if (!queries[q].status.ok()) continue;
    int64_t met = 0, beyond = 0;
    for (const uint32_t g : generations_) {
      const int64_t rows = view_->VisibleRows(g, view_generation_);
      if (rows == 0) continue;
      Leg leg = LegOf(queries, q, g);
      const bool open = leg.route.open() || leg.older != nullptr;
      if (open) leg.scaled = SetScale(queries[q], &leg);
      // An override asks for this very comparison: the leg says why it cannot be.
      if (!answer->reach_overridden && !open) continue;
      met += rows;
      if (leg.older != nullptr && !state_.reach.To(generation_, g, call_.adapter_mode).open()) beyond += rows;
      legs.push_back(std::move(leg));
    }
    // A stored item may reach less than queries of the generation asked for, or turn round and reach more.
    least = std::min({least, met, reached + beyond});
    any = true;
  }
  if (!any) least = reached;
  if (!answer->reach_overridden) answer->out_of_reach = static_cast<uint64_t>(std::max<int64_t>(0, all - least));
  return legs;
}

absl::StatusOr<SearchAnswer> SearchRun::Run(const std::vector<BoundVector>& queries) {
  LC_RETURN_IF_ERROR(CheckIsGeneration(state_, scale_generation_));
  LeaveExpiredOut(queries);
  LC_RETURN_IF_ERROR(ChooseGenerations(queries));
  SearchAnswer answer;
  answer.serving_generation = generation_;
  answer.reach_overridden = !call_.evaluate_generations.empty();
  answer.sequence = view_->sequence();
  std::vector<Leg> legs = MakeLegs(queries, &answer);
  {
    const Span filter(filter_ == nullptr ? nullptr : context_.trace, "filter");
    LC_RETURN_IF_ERROR(CompileFilter());
  }
  answer.filter_share = PassingShare();
  const int64_t legs_began = context_.trace == nullptr ? 0 : SteadyNanos();
  const std::vector<std::span<Leg>> groups = Grouped(legs, queries.size(), pool_->threads());
  const auto run = [&](int64_t i) { SearchLegs(queries, groups[static_cast<size_t>(i)]); };
  if (queries.size() == 1) {
    for (size_t i = 0; i < groups.size(); ++i) run(static_cast<int64_t>(i));
  } else {
    LC_RETURN_IF_ERROR(pool_->ParallelFor(static_cast<int64_t>(groups.size()), run));
  }
  LC_RETURN_IF_ERROR(rows_.status());
  LC_RETURN_IF_ERROR(found_.status());
  const bool profiled = call_.profile || profile_;
  std::optional<SearchProfile> profile;
  if (profiled || context_.trace != nullptr) profile = ProfileOf(legs);
  if (context_.trace != nullptr) AddLegSpans(*profile, legs_began, context_.trace);
  TellScales(legs, &answer);
  if (profiled) answer.profile = std::move(profile);

  const Span store(context_.trace, "store");
  std::vector<std::vector<Leg*>> legs_of(queries.size());
  for (Leg& leg : legs) legs_of[leg.query].push_back(&leg);
  answer.results.resize(queries.size());
  size_t out_of_time = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    bool finished = true;
    answer.results[q] = Merge(queries[q], legs_of[q], &finished);
    LC_RETURN_IF_ERROR(filled_.status());
    for (Leg* leg : legs_of[q]) leg->result = SearchResult();  // The answer has the status.
    answer.partial = answer.partial || !finished;
    out_of_time += RanOut(answer.results[q].status);
    if (absl::IsCancelled(answer.results[q].status)) return answer.results[q].status;
  }
  if (out_of_time == queries.size()) return answer.results[0].status;
  answer.partial = answer.partial || out_of_time > 0;
  return answer;
}

absl::Status SearchRun::Bind(const BoundVector& query, const Leg& leg, BoundLeg* bound) {
  const Route& route = leg.route;
  const uint32_t generation = leg.generation;
  const Space& query_space = state_.Find(query.generation)->space;
  const Space& item_space = state_.Find(generation)->space;
  if (!route.open()) {
    return FailedPrecondition(StrCat("the item's embedding is by generation ", query.generation, ", ",
                                     SpaceText(query_space), ", and generation ", generation, " is ",
                                     SpaceText(item_space), "; they cannot be compared"));
  }
  SearchRequest& request = bound->request;
  if (route.query != nullptr) {
    LC_ASSIGN_OR_RETURN(const std::vector<float> carried, Carried(*route.query, query.z));
    LC_ASSIGN_OR_RETURN(bound->query, BoundQuery::Make(item_space, item_space, carried));
  } else if (route.native) {
    // A longer vector of a newer generation compares by its leading numbers.
    const Space leading = LeadingSpace(query_space, item_space.dimension);
    const auto numbers = std::span<const float>(query.z).first(static_cast<size_t>(item_space.dimension));
    auto made = BoundQuery::Make(leading, item_space, numbers);
    if (!made.ok() && item_space.dimension < query_space.dimension) {
      return Annotate(made.status(), StrCat("the first ", item_space.dimension,
                                            " numbers, which compare with generation ", generation));
    }
    LC_ASSIGN_OR_RETURN(bound->query, std::move(made));
  }
  if (bound->query) request.query = &*bound->query;
  if (route.item != nullptr) {
    LC_ASSIGN_OR_RETURN(bound->adapted_query, BoundQuery::Make(query_space, query_space, query.z));
    request.adapter = &route.item->adapter;
    request.adapted_query = &*bound->adapted_query;
    request.adapted_rows = route.item->rows.get();
    request.carried = route.item->carried.get();
  }
  SetRequest(generation, leg.fused() ? bound->hits_asked : HitsRanked() + (query.left_out ? 1 : 0), &request);
  return absl::OkStatus();
}

void SearchRun::SetRequest(uint32_t generation, int64_t k, SearchRequest* request) {
  request->generation = generation;
  request->view_generation = view_generation_;
  request->k = k + expired_beside_;
  request->exact = call_.exact;
  request->ef = call_.ef;
  request->nprobe = call_.nprobe;
  request->target_recall = call_.target_recall;
  if (breadths_ != nullptr) request->breadth_factor = breadths_->FactorOf(view_generation_, generation);
  request->profile = call_.profile || profile_;
  SetFilter(generation, request);
  request->deadline = context_.deadline;
  if (context_.cancelled) request->cancelled = &context_.cancelled;
}

void SearchRun::SearchLegs(const std::vector<BoundVector>& queries, std::span<Leg> legs) {
  if (!found_.status().ok()) return;
  std::vector<BoundLeg> bound(legs.size());  // requests point into it
  std::vector<SearchRequest> requests;
  std::vector<std::pair<size_t, size_t>> asking;  // leg, and its first request
  for (size_t i = 0; i < legs.size(); ++i) {
    Leg& leg = legs[i];
    absl::Status status = leg.scaled;
    if (!status.ok()) {
      leg.result = std::move(status);
      continue;
    }
    if (leg.fused()) bound[i].hits_asked = HitsAsked(leg, legs.size());
    if (leg.older != nullptr) status = BindOlder(leg, &bound[i]);
    const bool by_route = leg.older == nullptr || leg.route.open();
    if (status.ok() && by_route) status = Bind(queries[leg.query], leg, &bound[i]);
    if (!status.ok()) {
      leg.result = status;
      continue;
    }
    asking.emplace_back(i, requests.size());
    if (leg.older != nullptr) requests.push_back(bound[i].older_request);
    if (!by_route) continue;
    // Legs that share a number leave out what the others' plain distances put behind the k nearest: calibrated ones and
    // those of two vectors are ordered by others, and each leg has its own bound.
    const bool bounded = leg.distance_max || call_.relevance_min;
    const bool plain = !leg.route.calibration && leg.older == nullptr && !bounded;
    if (plain) bound[i].request.query_number = static_cast<uint32_t>(leg.query) + 1;
    requests.push_back(std::move(bound[i].request));
  }
  std::vector<absl::StatusOr<SearchResult>> results;
  {
    // Every group but the last has so many queries: only the first groups begin before this one.
    const bool told = legs.front().query < kIndexSpansMax * QueriesAGroup(queries.size(), pool_->threads());
    Span index(told ? context_.trace : nullptr, "index");
    index.Set("requests", requests.size());
    results = view_->SearchTogether(requests);
  }
  for (absl::StatusOr<SearchResult>& result : results) {
    if (!result.ok() || expired_beside_ == 0) continue;
    std::erase_if(result->hits, [this](const SearchHit& hit) { return view_.expired()->Contains(hit.internal_id); });
  }
  FeaturesByGeneration features;
  for (const auto& [i, first] : asking) {
    Leg& leg = legs[i];
    if (leg.older == nullptr) {
      leg.result = std::move(results[first]);
      continue;
    }
    const size_t count = leg.fused() ? 2 : 1;
    leg.result = FinishOlder(queries[leg.query], bound[i], &leg, std::span(requests).subspan(first, count),
                             std::span(results).subspan(first, count), &features);
  }
  CountHits(legs);
}

void SearchRun::CountHits(std::span<const Leg> legs) {
  int64_t hits = 0, of_query = 0;
  for (size_t i = 0; i < legs.size(); ++i) {
    if (i > 0 && legs[i].query != legs[i - 1].query) hits += std::exchange(of_query, 0);
    if (!legs[i].result.ok()) continue;
    const int64_t found = static_cast<int64_t>(legs[i].result->hits.size()) - call_.offset;
    of_query = std::max(of_query, std::min(call_.k, found));
  }
  (void)found_.Add((hits + of_query) * kHitBytes);  // Run looks at the status.
}

void SearchRun::KeepNewest(std::vector<Candidate>* candidates) {
  absl::flat_hash_map<uint64_t, uint32_t> newest;
  newest.reserve(candidates->size());
  for (const Candidate& c : *candidates) {
    uint32_t& generation = newest[c.hit.internal_id];
    generation = std::max(generation, c.generation);
  }
  if (newest.size() == candidates->size()) return;
  std::erase_if(*candidates, [&](const Candidate& c) { return newest[c.hit.internal_id] != c.generation; });
}

bool SearchRun::IsWithinBounds(const Candidate& candidate) const {
  const Leg& leg = *candidate.leg;
  const double measured = leg.Measured(candidate.hit);
  if (call_.relevance_min && !(leg.scale.RelevanceAt(measured) >= *call_.relevance_min)) return false;
  if (scale_generation_ != 0) return !leg.distance_max || measured <= *leg.distance_max;
  if (call_.distance_max && !(candidate.hit.distance <= *call_.distance_max)) return false;
  return !call_.score_threshold || -candidate.ranked >= *call_.score_threshold;
}

QueryAnswer SearchRun::Merge(const BoundVector& query, std::vector<Leg*> legs, bool* finished) {
  QueryAnswer answer;
  answer.status = query.status;
  if (!answer.status.ok()) return answer;
  std::vector<Candidate> candidates;
  absl::Status late;
  bool any = legs.empty();
  for (const Leg* leg : legs) {
    if (RanOut(leg->result.status())) {
      late = leg->result.status();
      continue;
    }
    if (!leg->result.ok()) {
      answer.status = leg->result.status();
      return answer;
    }
    any = true;
    for (const SearchHit& hit : leg->result->hits) {
      candidates.push_back({hit, leg->generation,
                            leg->route.calibration ? leg->route.calibration->Of(hit.distance) : hit.distance, leg});
    }
  }
  if (!any) {
    answer.status = late;
    return answer;
  }
  *finished = late.ok();
  if (legs.size() > 1) KeepNewest(&candidates);
  std::erase_if(candidates, [this](const Candidate& c) { return !IsWithinBounds(c); });
  // A calibration may round two distances of its leg to one: the leg's own order stands then.
  const auto place = [](const Candidate& c) { return std::tuple(c.ranked, c.hit.distance, c.hit.internal_id); };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return place(a) < place(b); });
  const auto keep = std::min(candidates.size(), static_cast<size_t>(HitsRanked() + (query.left_out ? 1 : 0)));
  candidates.resize(keep);
  answer.status = Fill(candidates, query, &answer.hits);
  if (!answer.status.ok()) answer.hits.clear();
  return answer;
}

absl::Status SearchRun::Fill(const std::vector<Candidate>& candidates, const BoundVector& query,
                             std::vector<EngineHit>* hits) {
  std::vector<uint64_t> ids;
  for (const Candidate& c : candidates) ids.push_back(c.hit.internal_id);
  LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> rows, Resolve(ids, query));
  // By item: while one is replaced or embedded anew, a view may hold both contents, or both embeddings.
  absl::flat_hash_map<ItemId, std::pair<uint64_t, uint32_t>> newest;
  newest.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].found) continue;
    auto& row = newest[rows[i].id];
    row = std::max(row, std::pair(ids[i], candidates[i].generation));
  }
  std::vector<Candidate> kept;
  int64_t left_out = 0;  // hits before the offset
  for (size_t i = 0; i < rows.size() && hits->size() < static_cast<size_t>(call_.k); ++i) {
    ResolvedRow& row = rows[i];
    if (!row.found || newest[row.id] != std::pair(ids[i], candidates[i].generation)) continue;
    if (query.left_out && *query.left_out == row.id) continue;
    if (left_out < call_.offset) {
      ++left_out;
      continue;
    }
    const Candidate& c = candidates[i];
    kept.push_back(c);
    hits->push_back({std::move(row.id),
                     c.hit.distance,
                     -c.ranked,
                     c.generation,
                     c.hit.uncertainty,
                     std::move(row.record.payload_json),
                     {},
                     std::string(c.hit.segment),
                     c.hit.internal_id,
                     c.leg->scale.RelevanceAt(c.leg->Measured(c.hit)),
                     c.leg->scale.ScaledDistance(c.leg->Measured(c.hit))});
  }
  return call_.with_vector ? FillVectors(kept, hits) : absl::OkStatus();
}

absl::StatusOr<std::vector<ResolvedRow>> SearchRun::Resolve(std::span<const uint64_t> ids, const BoundVector& query) {
  std::vector<ResolvedRow> rows;
  rows.reserve(ids.size());
  ReadSize size;
  int64_t before = call_.offset, hits_left = call_.k;
  while (!ids.empty()) {
    const std::span<const uint64_t> now = ids.first(call_.with_payload ? size.Of(ids.size()) : ids.size());
    ids = ids.subspan(now.size());
    LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> some, collection_->ResolveRows(now, call_.with_payload));
    int64_t bytes = 0;
    for (ResolvedRow& row : some) {
      const bool ranked = row.found && !(query.left_out && *query.left_out == row.id);
      const bool hit = ranked && before == 0 && hits_left > 0;
      before -= ranked && before > 0;
      hits_left -= hit;
      if (hit && selector_ != nullptr) row.record.payload_json = selector_->Of(std::move(row.record.payload_json));
      if (hit) bytes += BytesOf(row.id) + static_cast<int64_t>(row.record.payload_json.size());
      rows.push_back(std::move(row));
    }
    LC_RETURN_IF_ERROR(filled_.Add(bytes));
    size.Note(bytes);
  }
  return rows;
}

absl::Status SearchRun::FillVectors(const std::vector<Candidate>& candidates, std::vector<EngineHit>* hits) {
  ReadSize size;
  for (size_t begin = 0, count = 0; begin < candidates.size(); begin += count) {
    count = size.Of(candidates.size() - begin);
    std::vector<std::string> embedding_keys;
    for (const Candidate& c : std::span(candidates).subspan(begin, count)) {
      embedding_keys.push_back(keys::Embedding(collection_->number(), c.generation, c.hit.internal_id));
    }
    const auto embeddings = collection_->store()->MultiGet(Table::kEmbeddings, embedding_keys);
    int64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      // The item was replaced or deleted since the view was pinned: its vector is gone, the hit stands without one.
      if (absl::IsNotFound(embeddings[i].status())) continue;
      LC_RETURN_IF_ERROR(embeddings[i].status());
      LC_ASSIGN_OR_RETURN(EmbeddingRecord record, DecodeEmbedding(*embeddings[i]));
      bytes += static_cast<int64_t>(record.z.size() * sizeof(float));
      (*hits)[begin + i].vector = std::move(record.z);
    }
    LC_RETURN_IF_ERROR(filled_.Add(bytes));
    size.Note(bytes);
  }
  return absl::OkStatus();
}

}  // namespace lightcone::server
