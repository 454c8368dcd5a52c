// Which ids have a place where: places by the cells of a grid that splits in four again and again, each cell beside
// those that it was split with (Morton 1966). What lies in a region is a few hundred runs of that order.
// Threads: none of its own; const methods are safe together.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/engine/filter/geo.h"
#include "server/engine/filter/value_index.h"

namespace lightcone::server {

class PlaceIndex {
 public:
  // Adding a pair again, and removing one that is not there, changes nothing. Places less than 0.02 m apart may be one.
  // REQUIRES: it is a place.
  void Add(const GeoPoint& place, uint64_t id);
  void Remove(const GeoPoint& place, uint64_t id);

  // `all`: the ids whose places are in rectangles that meet the condition as a whole. `part`: ids whose place lies so
  // near to the region's edge that it has to be read.
  void Collect(absl::FunctionRef<GeoOverlap(const GeoRect&)> overlap, IdPieces* all, std::vector<uint64_t>* part) const;

  size_t bytes() const { return codes_.bytes(); }

 private:
  ValueIndex<int64_t> codes_;
};

}  // namespace lightcone::server
