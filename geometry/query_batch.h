// Queries laid side by side for kernels.h: a vector register holds one number of several queries, so that rows are
// read as they are stored and no sum runs across a register.
// Threads: const methods are safe concurrently.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "geometry/aligned.h"
#include "geometry/bound_query.h"

namespace lightcone {

class QueryBatch {
 public:
  static constexpr std::size_t kGroup = 16;    // queries of a group, the lanes of the widest register
  static constexpr std::size_t kAloneMax = 4;  // queries outside full groups that are faster alone

  // REQUIRES: the queries outlive this; all of one dimension.
  explicit QueryBatch(std::span<const BoundQuery* const> queries);
  explicit QueryBatch(std::span<const BoundQuery> queries)
      : QueryBatch(std::span<const BoundQuery* const>(PointersTo(queries))) {}

  std::size_t size() const { return queries_.size(); }
  std::size_t dimension() const { return dimension_; }
  const BoundQuery& operator[](std::size_t i) const { return *queries_[i]; }

  // The first grouped() queries lie in groups, the last of which is padded with zeros; the others do not.
  std::size_t grouped() const { return grouped_; }
  std::size_t groups() const { return (grouped_ + kGroup - 1) / kGroup; }
  // Number k of the queries of group g, kGroup floats: a() + (g * dimension() + k) * kGroup.
  const float* a() const { return a_.data(); }
  const float* b() const { return b_.data(); }  // groups() * kGroup queries
  const float* c() const { return c_.data(); }

 private:
  static std::vector<const BoundQuery*> PointersTo(std::span<const BoundQuery> queries) {
    std::vector<const BoundQuery*> pointers;
    for (const BoundQuery& query : queries) pointers.push_back(&query);
    return pointers;
  }

  std::vector<const BoundQuery*> queries_;
  std::size_t dimension_ = 0, grouped_ = 0;
  AlignedFloats a_, b_, c_;
};

}  // namespace lightcone
