#include "geometry/query_batch.h"

#include "base/dcheck.h"

namespace lightcone {

QueryBatch::QueryBatch(std::span<const BoundQuery* const> queries) : queries_(queries.begin(), queries.end()) {
  if (queries_.empty()) return;
  for (const BoundQuery* query : queries_) LC_DCHECK(query->dimension() == queries_[0]->dimension());
  dimension_ = static_cast<std::size_t>(queries_[0]->dimension());
  grouped_ = queries_.size() % kGroup > kAloneMax ? queries_.size() : queries_.size() / kGroup * kGroup;
  a_ = AlignedFloats(groups() * dimension_ * kGroup);
  b_ = AlignedFloats(groups() * kGroup);
  c_ = AlignedFloats(groups() * kGroup);
  for (std::size_t q = 0; q < grouped_; ++q) {
    float* const to = a_.data() + q / kGroup * dimension_ * kGroup + q % kGroup;
    for (std::size_t k = 0; k < dimension_; ++k) to[k * kGroup] = queries_[q]->a()[k];
    b_[q] = queries_[q]->b();
    c_[q] = queries_[q]->c();
  }
}

}  // namespace lightcone
