// Rows of a generation that stand for all of them: what a query's distances to them are like, a search or a validation
// learns from its distances to these.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "geometry/bound_query.h"
#include "index/api/collection_index.h"
#include "server/engine/collection/adapters.h"
#include "stats/query_likeness.h"
#include "store/store.h"

namespace lightcone::server {

// What tells how like a query is to the rows of a sample.
struct SampleLikeness {
  LikenessKernel kernel;
  std::vector<float> features;  // of the sample's rows, by row; zeros of an empty one
};

// Threads: immutable once its rows are set; const methods are safe from any thread.
struct RowSample {
  // A row is empty where an adapter makes no vector of it.
  std::vector<std::vector<float>> rows;

  // Distances of the query to the rows, infinite to an empty one. REQUIRES: it is bound to the rows' space.
  std::vector<double> DistancesTo(const BoundQuery& query) const;

  // Made at the first call. nullptr where the rows are too few or all alike.
  const SampleLikeness* likeness() const;

 private:
  mutable absl::once_flag made_;
  mutable std::optional<SampleLikeness> likeness_;
};
using RowSamplePtr = std::shared_ptr<const RowSample>;

// The samples of one collection, each kept until a quarter of its generation's rows is new.
// Threads: every method is safe from any thread.
class RowSamples {
 public:
  static constexpr int64_t kRowsMax = 512;  // rows of a sample

  RowSamples(const Store* store, uint32_t collection) : store_(store), collection_(collection) {}

  // At most kRowsMax rows of `generation`, evenly spread over those that its own view serves; all where there are no
  // more. Errors of the store.
  absl::StatusOr<RowSamplePtr> Of(const IndexView& view, uint32_t generation);
  // The same rows as the item adapter carries them. REQUIRES: `plain` is of the generation that it carries from.
  RowSamplePtr CarriedOf(const RowSamplePtr& plain, const ServedAdapter& adapter);

 private:
  struct Kept {
    RowSamplePtr sample;
    RowSamplePtr from;      // carried sample: that which was carried
    uint64_t version = 0;   // adapter that carried it; 0: none
    int64_t rows = 0;       // rows of the generation when it was drawn
    uint64_t sequence = 0;  // sequence of the view that it was drawn from
  };
  absl::StatusOr<RowSamplePtr> Draw(const IndexView& view, uint32_t generation) const;
  static bool StillStands(const Kept& kept, int64_t rows, uint64_t sequence);

  const Store* const store_;
  const uint32_t collection_;
  absl::Mutex mu_;
  // By generation and the one that an adapter carries to; 0: plain.
  std::map<std::pair<uint32_t, uint32_t>, Kept> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::server
