// How queries of one generation come to the embeddings of another: by compatible training, or carried by adapters. The
// one place that decides it.
// Threads: immutable values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "geometry/metric.h"
#include "server/engine/api/types.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/collection/meta.h"
#include "stats/distance_calibration.h"
#include "stats/relevance_curve.h"

namespace lightcone::server {

// The ways that are open; several may be. Without any the embeddings are out of reach.
struct Route {
  bool native = false;                   // the leading numbers of the query compare with the embeddings as they are
  const ServedAdapter* query = nullptr;  // carries the query into the embeddings' space
  const ServedAdapter* item = nullptr;   // carries the embeddings into the query's space; where another way is open
                                         // as well, that one finds the candidates
  // Puts the distances on the scale of the query generation's own items. Empty: they are ranked as they are.
  std::optional<DistanceCalibration> calibration;
  bool open() const { return native || query != nullptr || item != nullptr; }
};

// How queries that carry a vector of the items' own generation come to them beside the older vector.
struct FusedRoute {
  Route route;  // closed: the older vector alone leads there
  OlderShare older;
};

class Reach {
 public:
  Reach() = default;
  // By compatible training: a generation, and the ancestors that it was trained to be compatible with in turn, as long
  // as metric and curvature stay the same, and a parent's dimension is that which the child compares with older ones
  // (its compatible_prefix, else its own). An ancestor's vectors then compare with as many leading numbers of a query
  // as they have. By adapters: the pairs that have one.
  Reach(const std::vector<GenerationRecord>& generations, AdapterSet adapters);

  // No way is open between numbers that are no generations. By default a pair that passed a validation goes the way
  // that it found best, ranked by the calibration that won there, as long as the adapters are those that it saw; any
  // other takes all, and plain distances. An item adapter that passed carries every item, also where it is asked for by
  // its mode, if the validation saw that the candidates of the other ways miss too much.
  Route To(uint32_t query_generation, uint32_t item_generation, AdapterMode mode = AdapterMode::kDefault) const;
  // The same beside a vector of the older generation. By default a pair that was validated goes the way that it found
  // best beside that vector, with the weight of that, whether or not it passed; their distances need no calibration.
  FusedRoute FusedTo(uint32_t query_generation, uint32_t item_generation, AdapterMode mode) const;
  // What the distances of a leg say: of queries of `query_generation` that come to items of the other by this route,
  // with `older` beside the older generation's own queries with that share. nullptr: no validation saw enough that is
  // relevant by this way with these adapters.
  const RelevanceCurve* RelevanceOf(uint32_t query_generation, uint32_t item_generation, const Route& route,
                                    const std::optional<OlderShare>& older) const;
  // The same of a generation's own queries on its own items: as the first later generation's validation saw them, or
  // else its own; where that saw too few of its items, as its queries come to older ones in its own space.
  const RelevanceCurve* OwnRelevance(uint32_t generation) const;
  // Generations, ascending, that queries of this one reach with all adapters. REQUIRES: it is one.
  const std::vector<uint32_t>& Of(uint32_t query_generation) const {
    LC_DCHECK(query_generation >= 1 && query_generation <= all_.size());
    return all_[query_generation - 1];
  }

  // Whether compatible training leads there. REQUIRES: both are generations.
  bool IsNative(uint32_t query_generation, uint32_t item_generation) const;

  // The adapter that makes a vector of `from` one of `to`, if the mode allows its direction; else nullptr.
  const ServedAdapter* Between(uint32_t from, uint32_t to, AdapterMode mode) const;
  // Those between the two, in either direction.
  std::vector<const ServedAdapter*> Adapters(uint32_t a, uint32_t b) const;
  const AdapterSet& adapters() const { return adapters_; }
  // Of those between this generation and older ones: what a validation of it has to have seen.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> VersionsOf(uint32_t generation) const;
  // Whether they still are those that a validation saw: but for generations that have been retired since.
  bool Saw(uint32_t generation, const std::map<std::pair<uint32_t, uint32_t>, uint64_t>& seen) const;

 private:
  struct Both {
    AdapterMode beside = AdapterMode::kNone;
    OlderShare older;
  };

  void TakeBest(const GenerationRecord& g);
  void TakeBoth(const GenerationRecord& g);
  void TakeRelevance(const GenerationRecord& g);

  std::vector<std::vector<uint32_t>> native_, all_;  // [i]: of generation i + 1
  std::vector<bool> retired_;                        // the same
  AdapterSet adapters_;
  // By query and item generation. kItem: every item is carried, and no other way finds candidates.
  std::map<std::pair<uint32_t, uint32_t>, AdapterMode> best_;
  std::map<std::pair<uint32_t, uint32_t>, DistanceCalibration> calibrations_;
  std::map<std::pair<uint32_t, uint32_t>, Both> both_;
  // All point into the report of a validation, which they keep.
  using CurvePtr = std::shared_ptr<const RelevanceCurve>;
  std::map<uint32_t, CurvePtr> own_relevance_, older_relevance_;  // curve by its own validation; by a later one
  // By query generation, item generation, way and whether it is beside the older generation's queries.
  std::map<std::tuple<uint32_t, uint32_t, AdapterMode, bool>, CurvePtr> relevance_;
};

// Whether distances between vectors of the two mean something at all, whatever a training did.
bool SameSpace(const Space& a, const Space& b);

// The space of the first `dimension` numbers of a vector. REQUIRES: 1 <= dimension <= space.dimension.
inline Space LeadingSpace(Space space, int dimension) {
  LC_DCHECK(dimension >= 1 && dimension <= space.dimension);
  space.dimension = dimension;
  return space;
}

}  // namespace lightcone::server
