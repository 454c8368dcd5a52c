// Rows of a generation that stand for all of them: what a query's distances to them are like, a search or a validation
// learns from its distances to these.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "geometry/bound_query.h"
#include "index/api/collection_index.h"
#include "server/engine/collection/adapters.h"
#include "stats/distance_fusion.h"
#include "stats/query_likeness.h"
#include "store/store.h"

namespace lightcone::server {

// Threads: immutable once its rows are set; const methods are safe from any thread.
struct RowSample {
  // A row is empty where an adapter makes no vector of it.
  std::vector<std::vector<float>> rows;

  // Distances of the query to the rows, infinite to an empty one. REQUIRES: it is bound to the rows' space.
  std::vector<double> DistancesTo(const BoundQuery& query) const;

  // Made at the first call. nullptr where the rows are too few or all alike.
  const LikenessKernel* likeness() const;

 private:
  mutable absl::once_flag made_;
  mutable std::optional<LikenessKernel> likeness_;
};
using RowSamplePtr = std::shared_ptr<const RowSample>;

// Rows that tell how distances to an older generation's rows compare with those to a newer one's: items that both
// embedded, so that it does not matter which these are. Where there are fewer than 32, rows of each.
struct ScaleSample {
  RowSamplePtr older;
  RowSamplePtr carried;  // `older` as the item adapter between the two carries them; nullptr: there is none
  RowSamplePtr newer;
  std::vector<float> features;  // features of `older` by the kernel of its generation's own sample; empty: none

  // Whether there are enough rows on both sides, as far as numbers say.
  bool TellsScale() const { return std::min(older->rows.size(), newer->rows.size()) >= DistanceScale::kRowsMin; }
};
using ScaleSamplePtr = std::shared_ptr<const ScaleSample>;

// Internal ids of up to `wanted` rows, evenly spread over those of the generations that a view of `view_generation`
// serves, also where most rows were superseded. Fewer where there are fewer, or a row among sixty-four is served.
std::vector<uint64_t> SpreadRows(const IndexView& view, std::span<const uint32_t> generations, uint32_t view_generation,
                                 int64_t wanted);

// The samples of one collection, each kept until a quarter of its generation's rows is new.
// Threads: every method is safe from any thread.
class RowSamples {
 public:
  static constexpr int64_t kRowsMax = 512;  // rows of a sample

  RowSamples(const Store* store, uint32_t collection) : store_(store), collection_(collection) {}

  // At most kRowsMax rows of `generation`, evenly spread over those that its own view serves; all where there are no
  // more. Errors of the store.
  absl::StatusOr<RowSamplePtr> Of(const IndexView& view, uint32_t generation);
  // Vectors of runs of rows whose contents were written one after the other, from evenly spread rows on, in that order.
  // Nothing is kept. Errors of the store.
  absl::StatusOr<std::vector<std::vector<float>>> Runs(const IndexView& view, uint32_t generation, int64_t runs,
                                                       int64_t rows_a_run) const;
  // The same rows as the item adapter carries them. REQUIRES: `plain` is of the generation that it carries from.
  RowSamplePtr CarriedOf(const RowSamplePtr& plain, const ServedAdapter& adapter);
  // What puts distances to rows of `older` on the scale of those to rows of `newer`. Of the items that both embedded,
  // those are taken that the fits of `adapters`, all between the two, held out, where that is known and they are
  // enough: a map is better on its own pairs than elsewhere. REQUIRES: `rows` is the older generation's sample.
  absl::StatusOr<ScaleSamplePtr> ScaleOf(const IndexView& view, uint32_t older, uint32_t newer,
                                         const RowSamplePtr& rows, std::span<const ServedAdapter* const> adapters);

 private:
  struct Kept {
    RowSamplePtr sample;
    RowSamplePtr from;      // carried sample: that which was carried
    uint64_t version = 0;   // adapter that carried it; 0: none
    int64_t rows = 0;       // rows of the generation when it was drawn
    uint64_t sequence = 0;  // sequence of the view that it was drawn from
  };
  struct KeptScale {
    ScaleSamplePtr sample;
    RowSamplePtr from;               // the older generation's sample when it was drawn
    std::vector<uint64_t> versions;  // versions of the adapters
    int64_t rows = 0;                // rows of the newer generation, as in Kept
    uint64_t sequence = 0;
  };
  absl::StatusOr<RowSamplePtr> Draw(const IndexView& view, uint32_t generation) const;
  // By id; empty where the item was replaced, or never embedded by that generation.
  absl::StatusOr<std::vector<std::vector<float>>> Read(std::span<const uint64_t> ids, uint32_t generation) const;
  absl::StatusOr<ScaleSamplePtr> DrawScale(const IndexView& view, uint32_t older, uint32_t newer,
                                           const RowSamplePtr& rows, std::span<const ServedAdapter* const> adapters);
  // Rows of both by the same items, at most kRowsMax; nullptr where there are too few.
  struct CommonRows {
    RowSamplePtr older, newer;
  };
  absl::StatusOr<CommonRows> DrawCommon(const IndexView& view, uint32_t older, uint32_t newer,
                                        std::span<const ServedAdapter* const> adapters) const;
  static bool StillStands(int64_t rows_then, uint64_t sequence_then, int64_t rows, uint64_t sequence);

  const Store* const store_;
  const uint32_t collection_;
  absl::Mutex mu_;
  // By generation and the one that an adapter carries to; 0: plain.
  std::map<std::pair<uint32_t, uint32_t>, Kept> kept_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<uint32_t, uint32_t>, KeptScale> scales_
      ABSL_GUARDED_BY(mu_);  // scales by older and newer generation
};

}  // namespace lightcone::server
