#include "server/engine/search/search_groups.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/collection/answer_bytes.h"
#include "server/engine/filter/field_values.h"
#include "server/engine/live/live_figures.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kGroupedHitsMin = 64;  // hits of the first search
constexpr int64_t kBroader = 4;          // times the hits of the search before

bool NamesGroup(const FilterValue& value) { return !std::holds_alternative<double>(value); }

}  // namespace

absl::Status CheckGroupBy(const SearchCall& call, const Limits& limits) {
  LC_DCHECK(call.group_by.has_value());
  const GroupBy& by = *call.group_by;
  LC_RETURN_IF_ERROR(ParsePayloadPath(by.field, "group_by.field").status());
  if (call.k != 0) return InvalidField("k", StrCat(call.k), "0 where group_by is given");
  if (call.offset != 0) return InvalidField("offset", StrCat(call.offset), "0 where group_by is given");
  if (by.groups < 1 || by.groups > limits.k_max) {
    return InvalidField("group_by.groups", StrCat(by.groups), StrCat("1 .. ", limits.k_max));
  }
  if (by.group_size < 1 || by.group_size > limits.k_max / by.groups) {
    return InvalidField("group_by.group_size", StrCat(by.group_size),
                        StrCat("1 .. ", limits.k_max / by.groups, " with ", by.groups, " groups"));
  }
  return absl::OkStatus();
}

GroupedSearch::GroupedSearch(Context& engine, const Served& served, const CollectionState& state, uint32_t generation,
                             const SearchCall& call, const Filter* filter, const CallContext& context)
    : engine_(engine),
      served_(served),
      state_(state),
      generation_(generation),
      call_(call),
      filter_(filter),
      context_(context),
      keys_(*ParsePayloadPath(call.group_by->field, "group_by.field")),
      view_(served.collection->Pin()) {}

absl::StatusOr<SearchAnswer> GroupedSearch::Search(const std::vector<BoundVector>& queries, int64_t k,
                                                   const Filter* filter) {
  SearchCall wide = call_;
  wide.group_by.reset();
  wide.k = k;
  wide.with_payload = true;
  wide.with_vector = false;
  wide.payload = {};
  CallContext context = context_;
  context.answer_bytes_max = 0;  // The hits of the groups are counted, not these.
  SearchRun run(served_.collection.get(), state_, generation_, wide, filter, &engine_.pool, context, view_.Again());
  run.UseBreadths(&served_.live->breadths());
  run.UseSamples(served_.samples.get());
  return run.Run(queries);
}

void GroupedSearch::AddHits(std::vector<EngineHit> hits, bool fixed, std::vector<HitGroup>* groups) const {
  for (EngineHit& hit : hits) {
    for (FilterValue& value : CountedValuesAt(hit.payload_json, keys_)) {
      if (!NamesGroup(value)) continue;
      auto group =
          std::find_if(groups->begin(), groups->end(), [&](const HitGroup& known) { return known.value == value; });
      if (group == groups->end()) {
        if (fixed || std::ssize(*groups) == call_.group_by->groups) continue;
        group = groups->insert(groups->end(), HitGroup{std::move(value), {}});
      }
      if (!IsFull(*group)) group->hits.push_back(hit);
    }
  }
}

absl::Status GroupedSearch::FindGroups(const std::vector<BoundVector>& queries, SearchAnswer* answer) {
  std::vector<size_t> open;  // queries whose groups are not all found
  for (size_t q = 0; q < queries.size(); ++q) open.push_back(q);
  int64_t k = std::max(kGroupedHitsMin, call_.group_by->groups * call_.group_by->group_size);
  for (bool first = true; !open.empty(); first = false) {
    std::vector<BoundVector> asked;
    for (const size_t q : open) asked.push_back(queries[q]);
    absl::StatusOr<SearchAnswer> found = Search(asked, k, filter_);
    if (!found.ok() && !first && absl::IsDeadlineExceeded(found.status())) {
      answer->partial = true;  // What is there by now is answered.
      return absl::OkStatus();
    }
    LC_RETURN_IF_ERROR(found.status());
    std::vector<QueryAnswer> results = std::move(found->results);
    if (first) {
      *answer = *std::move(found);
      answer->results.assign(queries.size(), {});
    }
    answer->partial = answer->partial || found->partial;
    std::vector<size_t> still_open;
    for (size_t i = 0; i < open.size(); ++i) {
      QueryAnswer& to = answer->results[open[i]];
      to.status = results[i].status;
      if (!to.status.ok()) continue;
      const bool ended = std::ssize(results[i].hits) < k;
      to.groups.clear();
      AddHits(std::move(results[i].hits), /*fixed=*/false, &to.groups);
      const bool all = std::ssize(to.groups) == call_.group_by->groups;
      if (!all && !ended && k < kGroupedHitsMax) still_open.push_back(open[i]);
      if (!all && !ended && k >= kGroupedHitsMax) answer->partial = true;
    }
    open = std::move(still_open);
    k = std::max(k, std::min(k * kBroader, kGroupedHitsMax));
  }
  return absl::OkStatus();
}

absl::Status GroupedSearch::FillGroups(const BoundVector& query, std::vector<HitGroup>* groups, bool* partial) {
  FilterNode of_groups;
  of_groups.kind = FilterNode::Kind::kIn;
  of_groups.field = PathText(keys_);
  for (const HitGroup& group : *groups) {
    if (!IsFull(group)) of_groups.values.push_back(group.value);
  }
  if (of_groups.values.empty()) return absl::OkStatus();
  FilterNode both = std::move(of_groups);
  if (filter_ != nullptr) {
    FilterNode branch;
    branch.kind = FilterNode::Kind::kAnd;
    branch.children = {std::move(both), filter_->root()};
    both = std::move(branch);
  }
  // A filter that is nested as deep as allowed has no room for this level: the error says so.
  absl::StatusOr<Filter> filter = Filter::Make(std::move(both));
  LC_RETURN_IF_ERROR(filter.status());
  int64_t k = std::max(kGroupedHitsMin, call_.group_by->groups * call_.group_by->group_size);
  while (true) {
    absl::StatusOr<SearchAnswer> found = Search({query}, k, &*filter);
    if (!found.ok() && !absl::IsDeadlineExceeded(found.status())) return found.status();
    if (!found.ok() || !found->results[0].status.ok()) {
      *partial = true;
      return absl::OkStatus();
    }
    *partial = *partial || found->partial;
    const bool ended = std::ssize(found->results[0].hits) < k;
    std::vector<HitGroup> filled;
    for (const HitGroup& group : *groups) filled.push_back(IsFull(group) ? group : HitGroup{group.value, {}});
    AddHits(std::move(found->results[0].hits), /*fixed=*/true, &filled);
    const bool full = std::all_of(filled.begin(), filled.end(), [this](const HitGroup& g) { return IsFull(g); });
    if (full || ended || k >= kGroupedHitsMax) {
      *partial = *partial || (!full && !ended);
      // A search by another plan may miss what the first one found.
      for (size_t i = 0; i < filled.size(); ++i) {
        if (filled[i].hits.size() >= (*groups)[i].hits.size()) (*groups)[i] = std::move(filled[i]);
      }
      return absl::OkStatus();
    }
    k = std::min(k * kBroader, kGroupedHitsMax);
  }
}

absl::Status GroupedSearch::FillParts(const PayloadSelector& selector, SearchAnswer* answer) const {
  AnswerBytes bytes(context_.answer_bytes_max);
  for (QueryAnswer& result : answer->results) {
    for (HitGroup& group : result.groups) {
      for (EngineHit& hit : group.hits) {
        hit.payload_json = call_.with_payload ? selector.Of(std::move(hit.payload_json)) : std::string();
        if (call_.with_vector) {
          const Collection& collection = *served_.collection;
          const auto stored = collection.store()->Get(
              Table::kEmbeddings, keys::Embedding(collection.number(), hit.generation, hit.internal_id));
          // The item was replaced since the view was pinned: the hit stands without a vector.
          if (!stored.ok() && !absl::IsNotFound(stored.status())) return stored.status();
          if (stored.ok()) {
            LC_ASSIGN_OR_RETURN(EmbeddingRecord record, DecodeEmbedding(*stored));
            hit.vector = std::move(record.z);
          }
        }
        LC_RETURN_IF_ERROR(bytes.Add(kHitBytes + BytesOf(hit.id) + static_cast<int64_t>(hit.payload_json.size()) +
                                     static_cast<int64_t>(hit.vector.size() * sizeof(float))));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchAnswer> GroupedSearch::Run(const std::vector<BoundVector>& queries,
                                                const PayloadSelector& selector) {
  SearchAnswer answer;
  LC_RETURN_IF_ERROR(FindGroups(queries, &answer));
  for (size_t q = 0; q < queries.size(); ++q) {
    if (!answer.results[q].status.ok() || answer.results[q].groups.empty()) continue;
    LC_RETURN_IF_ERROR(FillGroups(queries[q], &answer.results[q].groups, &answer.partial));
  }
  LC_RETURN_IF_ERROR(FillParts(selector, &answer));
  return answer;
}

}  // namespace lightcone::server
