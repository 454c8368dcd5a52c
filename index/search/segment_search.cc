#include "index/search/segment_search.h"

#include <deque>

#include "index/search/adapted_ranking.h"
#include "index/search/leg_search.h"

namespace lightcone {

std::vector<absl::StatusOr<SearchResult>> SearchSegments(std::span<const ScopedRequest> requests) {
  std::vector<absl::StatusOr<SearchResult>> answers(requests.size(), SearchResult());
  std::deque<LegSearch> legs;
  std::vector<size_t> leg_requests, adapting;  // numbers of the requests
  for (size_t i = 0; i < requests.size(); ++i) {
    LC_DCHECK(requests[i].request->k >= 1 && requests[i].request->ef >= 0);
    if (const absl::Status status = requests[i].Interrupted(); !status.ok()) {
      answers[i] = status;
    } else if (AdaptsEveryRow(*requests[i].request)) {
      adapting.push_back(i);
    } else {
      legs.emplace_back(requests[i]);
      leg_requests.push_back(i);
    }
  }
  std::vector<LegSearch*> walking;
  for (LegSearch& leg : legs) {
    leg.Begin();
    if (leg.ok()) walking.push_back(&leg);
  }
  WalkLegs(std::move(walking));
  ScanLegs(legs);
  for (size_t i = 0; i < legs.size(); ++i) answers[leg_requests[i]] = legs[i].Finish();
  // Last: adapting every row takes the longest, and the other legs must not be late for it.
  for (const size_t i : adapting) answers[i] = RankEveryRow(requests[i]);
  return answers;
}

}  // namespace lightcone
