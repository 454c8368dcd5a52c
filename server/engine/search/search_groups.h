// Groups of the best hits that share a value of a payload field: searches that become broader until the groups are
// full. Threads: a GroupedSearch belongs to the call's thread.
#pragma once

#include <iterator>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/filter/payload_path.h"
#include "server/engine/search/search.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// Nearest hits of a query among which groups are looked for. Where more would have to be, the answer is partial.
inline constexpr int64_t kGroupedHitsMax = 16'384;

// INVALID_ARGUMENT names `k`, `offset` or a field of `group_by`. REQUIRES: the call has group_by.
absl::Status CheckGroupBy(const SearchCall& call, const Limits& limits);

class GroupedSearch {
 public:
  // All must outlive it. REQUIRES: CheckGroupBy accepts the call.
  GroupedSearch(Context& engine, const Served& served, const CollectionState& state, uint32_t generation,
                const SearchCall& call, const Filter* filter, const CallContext& context);

  // `queries`: one a query of the call.
  absl::StatusOr<SearchAnswer> Run(const std::vector<BoundVector>& queries, const PayloadSelector& selector);

 private:
  absl::StatusOr<SearchAnswer> Search(const std::vector<BoundVector>& queries, int64_t k, const Filter* filter);
  // Finds the groups of all queries.
  absl::Status FindGroups(const std::vector<BoundVector>& queries, SearchAnswer* answer);
  // Fills groups that lack hits by searches among the rows of their values.
  absl::Status FillGroups(const BoundVector& query, std::vector<HitGroup>* groups, bool* partial);
  // Puts hits into groups, best first. With `fixed`, no group is added.
  void AddHits(std::vector<EngineHit> hits, bool fixed, std::vector<HitGroup>* groups) const;
  bool IsFull(const HitGroup& group) const { return std::ssize(group.hits) >= call_.group_by->group_size; }
  // Gives the hits the parts that the call asks for.
  absl::Status FillParts(const PayloadSelector& selector, SearchAnswer* answer) const;

  Context& engine_;
  const Served& served_;
  const CollectionState& state_;
  const uint32_t generation_;
  const SearchCall& call_;
  const Filter* const filter_;
  const CallContext& context_;
  const PathKeys keys_;
  const PinnedView view_;
};

}  // namespace lightcone::server
