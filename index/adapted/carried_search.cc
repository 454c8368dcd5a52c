#include "index/adapted/carried_search.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "index/adapted/carried_segments.h"
#include "index/search/adapted_ranking.h"

namespace lightcone {
namespace {

struct Parts {
  std::vector<PinnedSegment> carried, others;
  std::vector<std::shared_ptr<const AdaptedSegment>> adapted;  // the segments of `carried`
};

// A graph of the old space finds candidates sooner than a scan of carried rows finds the nearest.
bool Serves(const Segment& carried, const Segment& segment, const SearchRequest& request) {
  return carried.graph() != nullptr || segment.graph() == nullptr || AdaptsEveryRow(request);
}

Parts PartsOf(const SearchScope& scope, const SearchRequest& request) {
  Parts parts;
  for (const PinnedSegment& pinned : *scope.segments) {
    auto carried = request.carried->Find(pinned.segment);
    if (carried == nullptr || !Serves(*carried, *pinned.segment, request)) {
      parts.others.push_back(pinned);
      continue;
    }
    parts.carried.push_back({carried, pinned.rows, carried->bias_max(), pinned.counts, carried->PinCodes()});
    parts.adapted.push_back(std::move(carried));
  }
  return parts;
}

bool AnyDamaged(const Parts& parts) {
  bool any = false;
  for (const auto& adapted : parts.adapted) any |= adapted->files_damaged();
  return any;
}

SearchRequest InTarget(SearchRequest request) {
  request.query = std::exchange(request.adapted_query, nullptr);
  request.adapter = nullptr;
  request.adapted_rows = nullptr;
  request.carried = nullptr;
  return request;
}

void Merge(absl::StatusOr<SearchResult>& into, absl::StatusOr<SearchResult> other, int64_t k) {
  if (!into.ok()) return;
  if (!other.ok()) {
    into = std::move(other);
    return;
  }
  TopHits top(k);
  for (const SearchResult* result : {&*into, &*other}) {
    for (const SearchHit& hit : result->hits) top.Add(hit);
  }
  into->hits = top.Take();
  into->rows_scored += other->rows_scored;
  into->rows_refined += other->rows_refined;
  into->rows_reranked += other->rows_reranked;
  into->rows_adapted += other->rows_adapted;
  into->segments.insert(into->segments.end(), other->segments.begin(), other->segments.end());
}

}  // namespace

std::vector<absl::StatusOr<SearchResult>> SearchLegs(std::span<const ScopedRequest> legs) {
  std::deque<Parts> split;  // segments that `asked` refers to
  std::deque<SearchRequest> in_target;
  std::vector<ScopedRequest> asked;
  std::vector<size_t> leg_of;
  std::vector<const Parts*> part_of(legs.size(), nullptr);
  const auto ask = [&](size_t leg, const std::vector<PinnedSegment>& segments, const SearchRequest& request) {
    asked.push_back(legs[leg]);
    asked.back().scope.segments = &segments;
    asked.back().request = &request;
    leg_of.push_back(leg);
  };
  for (size_t i = 0; i < legs.size(); ++i) {
    const SearchRequest& request = *legs[i].request;
    if (request.carried == nullptr) {
      ask(i, *legs[i].scope.segments, request);
      continue;
    }
    const Parts& parts = split.emplace_back(PartsOf(legs[i].scope, request));
    part_of[i] = &parts;
    if (!parts.carried.empty()) ask(i, parts.carried, in_target.emplace_back(InTarget(request)));
    if (!parts.others.empty() || parts.carried.empty()) ask(i, parts.others, request);
  }
  auto found = SearchSegments(asked);
  std::vector<absl::StatusOr<SearchResult>> answers;
  for (size_t i = 0; i < found.size(); ++i) {
    if (leg_of[i] < answers.size()) {
      Merge(answers[leg_of[i]], std::move(found[i]), legs[leg_of[i]].request->k);
    } else {
      answers.push_back(std::move(found[i]));
    }
  }
  // Damaged files may give any score, and legs of one query share the distance that is near enough. So all legs of the
  // query are searched again, and the search itself carries their rows.
  absl::flat_hash_set<uint32_t> damaged;
  std::vector<size_t> again;
  for (size_t i = 0; i < legs.size(); ++i) {
    if (part_of[i] == nullptr || !AnyDamaged(*part_of[i])) continue;
    again.push_back(i);
    damaged.insert(legs[i].request->query_number);
  }
  for (size_t i = 0; i < legs.size() && !damaged.empty(); ++i) {
    const uint32_t query = legs[i].request->query_number;
    if (query != 0 && damaged.contains(query) && std::find(again.begin(), again.end(), i) == again.end()) {
      again.push_back(i);
    }
  }
  for (const size_t i : again) answers[i] = std::move(SearchSegments(legs.subspan(i, 1))[0]);
  return answers;
}

}  // namespace lightcone
