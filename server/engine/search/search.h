// One Search call against one collection: legs, their parallel run, merging, and filling of hits.
// Threads: a SearchRun belongs to the call's thread; its legs run on the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/thread_pool.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/answer_bytes.h"
#include "server/engine/collection/collection.h"
#include "server/engine/collection/row_samples.h"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/payload_index.h"
#include "server/engine/live/live_breadths.h"
#include "server/engine/search/leg_scale.h"

namespace lightcone::server {

class RowFeatures;
using FeaturesByGeneration = std::map<uint32_t, RowFeatures>;

// A filter as the rows of one call meet it: payloads come from the store, answers are remembered.
// Threads: Keeps is safe from any thread.
class RowFilter {
 public:
  // All must outlive it.
  RowFilter(const Collection* collection, const Filter* filter, const CallContext& context)
      : collection_(collection), filter_(filter), context_(context) {}

  // False, and status() set, when the row's payload cannot be read.
  bool Keeps(uint64_t internal_id, uint32_t generation, float uncertainty);

  // The share of the collection's items that passes, from a sample; small when unsure, so that legs scan then.
  // `next_internal_id` bounds the ids in use.
  double EstimateShare(uint64_t next_internal_id, uint32_t view_generation);
  // The same of the rows of these generations that the view serves, for a filter that looks at more than payloads.
  double EstimateShareOfRows(const IndexView& view, std::span<const uint32_t> generations, uint32_t view_generation);

  // No more than so many items will be asked about.
  void Expect(uint64_t items) { expected_ = items; }
  int64_t payloads_read() const { return read_.load(std::memory_order_relaxed); }

  absl::Status status() const;

 private:
  // Answers for all items in one walk over the store, which costs less than asking for many of them one by one.
  void LoadAll();

  const Collection* const collection_;
  const Filter* const filter_;
  const CallContext& context_;
  uint64_t expected_ = UINT64_MAX;
  std::atomic<int64_t> asked_{0};  // number of rows looked up one by one
  std::atomic<int64_t> read_{0};
  absl::Mutex load_mu_;
  bool loaded_ ABSL_GUARDED_BY(load_mu_) = false;
  mutable absl::Mutex mu_;
  // By internal id: a view serves one embedding of each.
  absl::flat_hash_map<uint64_t, bool> known_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// A query after its content has been looked up: a vector of some generation's space, or why there is none.
struct BoundVector {
  absl::Status status;
  std::vector<float> z;
  uint32_t generation = 0;         // generation whose space z lies in
  std::optional<ItemId> left_out;  // "more like this": the item itself
  bool carried = false;            // z is what an adapter made of another generation's vector
  std::vector<OlderVector> older;  // the same query by older generations, each once
};

// Carries the embedding of an item by another generation into the space of `generation`, if an adapter that the mode
// allows leads there; else leaves it as it is. INVALID_ARGUMENT when the adapter makes no vector of it.
absl::Status CarryQuery(const CollectionState& state, uint32_t generation, AdapterMode mode, BoundVector* query);

// The internal ids that the filter's conditions on ids stand for, in views that are pinned already.
absl::StatusOr<IdsOfConditions> FindIdsOfConditions(const Collection& collection, const Filter& filter);

// When the legs of a search that begins now give up: so long before the call's deadline that what is there by then
// still reaches the caller.
absl::Time LegsDeadline(absl::Time deadline, absl::Time now);

class SearchRun {
 public:
  // All must outlive the run. `generation` is the query generation, which is also that of the view.
  SearchRun(Collection* collection, const CollectionState& state, uint32_t generation, const SearchCall& call,
            const Filter* filter, ThreadPool* pool, const CallContext& context);
  // On a view that the caller has pinned.
  SearchRun(Collection* collection, const CollectionState& state, uint32_t generation, const SearchCall& call,
            const Filter* filter, ThreadPool* pool, const CallContext& context, PinnedView view);

  // Factors for legs of searches that name no breadth. They must outlive the run.
  void UseBreadths(const LiveBreadths* breadths) { breadths_ = breadths; }
  // Rows that searches with older vectors learn from. It must outlive the run. Needed for queries with any.
  void UseSamples(RowSamples* samples) { samples_ = samples; }
  // Selects fields of the hits' payloads. It must outlive the run.
  void UseSelector(const PayloadSelector* selector) { selector_ = selector; }

  // The answer gets its profile, whether the call asks for it or not.
  void CollectProfile() { profile_ = true; }

  // `queries`: one a query of the call.
  absl::StatusOr<SearchAnswer> Run(const std::vector<BoundVector>& queries);

 private:
  struct Leg {
    size_t query = 0;
    uint32_t generation = 0;
    Route route;                         // way of the query's own vector, with the calibration of the leg's distances
    const OlderVector* older = nullptr;  // vector by the leg's generation, beside that or, where it is closed, alone
    OlderShare share = {0, false};       // what it counts for
    LegScale scale;                      // meaning of the leg's distances
    std::optional<double> distance_max;  // bound on them, where the call's are on the scale of a generation
    absl::Status scaled;                 // reason why the call's bounds cannot be told in them
    DistanceCalibration rescaled;        // change of them since, in a leg by the older vector alone
    absl::StatusOr<SearchResult> result;

    bool fused() const { return older != nullptr && route.open(); }
    bool by_older() const { return older != nullptr && !route.open(); }
    // A hit's distance as it was measured, which the scale is about.
    double Measured(const SearchHit& hit) const { return (hit.distance - rescaled.offset) / rescaled.slope; }
    bool conditioned() const { return fused() && share.conditioned; }
  };
  struct BoundLeg {
    std::optional<BoundQuery> query, adapted_query, older_query;
    SearchRequest request;        // request that refers to the first two
    SearchRequest older_request;  // request of the older vector
    int64_t hits_asked = 0;       // hits that either request of a fused leg asks for
  };
  struct Candidate {
    SearchHit hit;
    uint32_t generation = 0;
    double ranked = 0;  // the distance, calibrated where its leg is
    const Leg* leg = nullptr;
  };

  void LeaveExpiredOut(const std::vector<BoundVector>& queries);
  absl::Status ChooseGenerations(const std::vector<BoundVector>& queries);
  // The filter as bitmaps and tests, for rows of each generation, which are chosen before.
  absl::Status CompileFilter();
  // Of the collection's items, about: those that these let through, and that payloads do besides. 1 without a filter.
  double PassingShare() const;
  // What of the filter a leg's request has to say.
  void SetFilter(uint32_t generation, SearchRequest* request);
  SearchProfile ProfileOf(std::span<const Leg> legs) const;
  absl::Status CheckOverride(const std::vector<BoundVector>& queries) const;
  // Closed when the leg is out of the query's reach.
  Route RouteOf(const BoundVector& query, uint32_t item_generation) const;
  // The query's vector by that generation, older than the one that is asked; nullptr: none.
  static const OlderVector* OlderOf(const BoundVector& query, uint32_t item_generation);
  // The leg of a query on the rows of a generation, before it is searched.
  Leg LegOf(const std::vector<BoundVector>& queries, size_t query, uint32_t generation) const;
  // What the leg's distances mean. An error of it where the call's bounds cannot be told in them.
  absl::Status SetScale(const BoundVector& query, Leg* leg) const;
  absl::Status SetBound(Leg* leg) const;
  // The same where the leg goes another way than the one that was measured.
  absl::Status ForgetScale(Leg* leg) const;
  // Says in the answer what the bounds became, and which legs have no scale.
  void TellScales(std::span<const Leg> legs, SearchAnswer* answer) const;
  // The legs of all queries. Says in the answer what they leave out.
  std::vector<Leg> MakeLegs(const std::vector<BoundVector>& queries, SearchAnswer* answer) const;
  absl::Status Bind(const BoundVector& query, const Leg& leg, BoundLeg* bound);
  absl::Status BindOlder(const Leg& leg, BoundLeg* bound);
  // What each request of a fused leg looks for, which is searched beside so many others.
  int64_t HitsAsked(const Leg& leg, size_t legs) const;
  // What requests say of a leg, whatever vector they bind.
  void SetRequest(uint32_t generation, int64_t k, SearchRequest* request);
  // The leg's answer from those of its requests: the older vector's, and, if there is another way, that one's.
  absl::StatusOr<SearchResult> FinishOlder(const BoundVector& query, const BoundLeg& bound, Leg* to,
                                           std::span<const SearchRequest> requests,
                                           std::span<absl::StatusOr<SearchResult>> results,
                                           FeaturesByGeneration* features);
  // Legs of some queries, side by side; rows that several of them scan are read once.
  void SearchLegs(const std::vector<BoundVector>& queries, std::span<Leg> legs);
  // The legs, which are ordered by query, in as many groups as keep all threads busy; those of one query in one group.
  static std::vector<std::span<Leg>> Grouped(std::vector<Leg>& legs, size_t queries, int threads);
  // Hits that are ranked: those of the answer, and those before them that it leaves out.
  int64_t HitsRanked() const { return call_.k + call_.offset; }
  // Whether the call's bounds on distance and score let the candidate through.
  bool IsWithinBounds(const Candidate& candidate) const;
  // Of an item that was embedded anew while it was searched for, legs may find two embeddings: the newest stays.
  static void KeepNewest(std::vector<Candidate>* candidates);
  // The hits that the legs' queries will have at least, for legs that found them.
  void CountHits(std::span<const Leg> legs);
  QueryAnswer Merge(const BoundVector& query, std::vector<Leg*> legs, bool* finished);
  absl::Status Fill(const std::vector<Candidate>& candidates, const BoundVector& query, std::vector<EngineHit>* hits);
  // What the rows stand for, a part of them after the other.
  absl::StatusOr<std::vector<ResolvedRow>> Resolve(std::span<const uint64_t> ids, const BoundVector& query);
  absl::Status FillVectors(const std::vector<Candidate>& candidates, std::vector<EngineHit>* hits);

  const LiveBreadths* breadths_ = nullptr;
  RowSamples* samples_ = nullptr;
  const PayloadSelector* selector_ = nullptr;
  bool profile_ = false;  // collected although the call may not ask for it
  Collection* const collection_;
  const CollectionState& state_;
  const uint32_t generation_;
  const SearchCall& call_;
  const uint32_t scale_generation_;  // the call's, or else the collection's; 0: none
  const Filter* const filter_;
  ThreadPool* const pool_;
  const CallContext context_;  // context of the legs
  PinnedView view_;
  // A few expired items are asked for beside the others, and left out of what comes back. Many of them are a filter.
  int64_t expired_beside_ = 0;
  IdFilter unexpired_{.ids = {}, .others = true, .tests = {}};  // all ids, but many that have expired
  RowFilter rows_;
  AnswerBytes found_, filled_;  // least size of the hits found; size of the hits filled
  uint32_t view_generation_ = 0;
  std::vector<uint32_t> generations_;  // generations with visible rows in this view
  // By generation, or all under 0 where the filter does not tell generations apart. Searches refer to them.
  std::map<uint32_t, CompiledFilter> compiled_;
  absl::Duration compile_time_;
  double keep_share_ = 1;      // share of the rows, where payloads have to be read
  absl::Mutex large_legs_mu_;  // FusedLeg
};

}  // namespace lightcone::server
