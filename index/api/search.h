// A search of one generation's rows, and its answer.
// Threads: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "geometry/adapter.h"
#include "geometry/bound_query.h"

namespace lightcone {

class AdaptedRows;
class CarriedSegments;
struct IdFilter;

// Share of the true nearest rows that a search finds which names no breadth.
inline constexpr double kDefaultRecall = 0.95;

struct SearchRequest {
  // Not 0: requests of one call with the same number are legs of one query. The k nearest rows of all legs are surely
  // among their hits; farther rows need not be. That makes legs cheaper than searches of their own.
  uint32_t query_number = 0;
  const BoundQuery* query = nullptr;  // bound to the generation's space; may be null with an adapter
  uint32_t generation = 0;            // the generation whose rows are searched
  uint32_t view_generation = 0;       // a row is visible if its superseded_by is 0 or greater
  int64_t k = 10;
  bool exact = false;  // Scan everything: results provably equal brute force in double precision.
  int ef = 0;          // breadth of the candidate queue in graph walks; 0: the settings' default
  // Lists read in an IVF segment; 0: the settings' default. A provisional segment (architecture, Background builds) is
  // read at least as broadly as it was measured to need.
  int nprobe = 0;
  // Above 0 it replaces `ef` and `nprobe`: each segment uses the least breadth that was measured to reach this recall
  // with its own rows as queries. A segment without such a breadth is scanned. At most 1.
  double target_recall = 0;
  // Factor of the breadth of a search that names none, for rows that live searches found too few of. At least 1.
  double breadth_factor = 1;
  // Optional pre-filter: only rows of these ids. Cheap to ask, so that each segment can be searched by it
  // (plan_cost.h).
  const IdFilter* ids = nullptr;
  // Optional filter: true keeps the row. It is called with live, visible rows of `ids` only, and must be safe from
  // several threads. Expensive: searches ask it as late as possible.
  std::function<bool(uint64_t internal_id, float uncertainty)> keep;
  double keep_share = 1.0;  // share of all rows that `keep` is expected to pass; 1: unknown or all
  bool profile = false;     // fill SearchResult::segments
  // Optional item adapter: ranks rows by their distance in the adapter's target space. `query` then only finds the
  // max(4 k, 200, ef) candidates that are adapted. Without `query`, and with `exact`, every row is adapted. A row that
  // the adapter makes no vector of its target space (a norm out of range) is left out.
  const Adapter* adapter = nullptr;           // takes rows of the generation's space
  const BoundQuery* adapted_query = nullptr;  // bound to adapter->target(); required with an adapter
  AdaptedRows* adapted_rows = nullptr;        // optional cache of adapted rows for later searches
  // Optional segments that the adapter has carried over. They are searched as rows of the target space are, along their
  // graph where they have one, by the adapted query alone.
  const CarriedSegments* carried = nullptr;
  absl::Time deadline = absl::InfiniteFuture();
  const std::function<bool()>* cancelled = nullptr;
};

// The least number of candidates that a search with an item adapter ranks. Pilot of spec 13: from 50 candidates on
// CMC@1 is that of the full scan; mAP gains up to 1,000.
inline constexpr int64_t kAdaptedCandidatesMin = 200;

struct SearchHit {
  uint64_t internal_id = 0;
  double distance = 0;  // exact: double precision from the stored (with an adapter: the adapted) float32 vector
  float uncertainty = 0;
  std::string_view segment = {};  // kind of the segment that holds the row; lives as long as the view searched
};

// How a segment was searched; plan_cost.h says which plan is chosen when.
enum class SearchPlan { kScan, kPassingScan, kWalk, kPassingWalk, kPostFilter, kProbe };

// Why a segment was searched by the breadth that it was.
enum class BreadthReason {
  kExact,      // The search asked for everything, or nothing but a scan searches the segment.
  kAsked,      // The search named the breadth.
  kTarget,     // The search named a recall, and this is the least breadth measured to reach it.
  kSettings,   // The collection's settings name the breadth, and it was measured to find enough.
  kMeasured,   // More than the settings say, because that was measured to find too little.
  kWidened,    // More than that, because live searches found too little.
  kUnreached,  // A scan: no measured breadth finds enough.
  kCheaper     // A scan, which costs less than this breadth.
};

// What a search did in one segment.
struct SegmentProfile {
  uint64_t id = 0;
  SearchPlan plan = SearchPlan::kScan;
  int64_t rows = 0;
  double passing_share = 1;  // share of the rows that was expected to pass
  bool fell_back = false;    // The plan found too few rows, and a scan followed.
  int64_t breadth = 0;       // `ef` of a walk, or lists probed
  BreadthReason reason = BreadthReason::kExact;
};

struct SearchResult {
  std::vector<SearchHit> hits;           // ascending distance, ties by internal id
  int64_t rows_scored = 0;               // kernel evaluations of codes or vectors
  int64_t rows_refined = 0;              // vectors scored again after their codes
  int64_t rows_reranked = 0;             // exact distances
  int64_t rows_adapted = 0;              // rows adapted for this search alone
  std::vector<SegmentProfile> segments;  // profile of each segment, if asked for
};

}  // namespace lightcone
