#include "geometry/code_query_batch.h"

#include <cstring>

#include "base/dcheck.h"

namespace lightcone {

CodeQueryBatch::CodeQueryBatch(std::span<const CodeQuery* const> queries) : queries_(queries.begin(), queries.end()) {
  for (const CodeQuery* query : queries_) LC_DCHECK(query->dimension() == queries_[0]->dimension());
  if (queries_.empty() || queries_[0]->kind() != CodeKind::kInt8) return;
  grouped_ = queries_.size() % kGroup > kAloneMax ? queries_.size() : queries_.size() / kGroup * kGroup;
  steps_ = CodeFactorsAt(CodeKind::kInt8, queries_[0]->dimension()) / 4;
  parts_ = AlignedFloats(groups() * steps_ * kStepBytes / sizeof(float));
  factors_.resize(groups());
  for (std::size_t q = 0; q < grouped_; ++q) {
    const CodeQuery& query = *queries_[q];
    char* const to = reinterpret_cast<char*>(parts_.data()) + q / kGroup * steps_ * kStepBytes + q % kGroup * 4;
    for (std::size_t step = 0; step < steps_; ++step) {
      std::memcpy(to + step * kStepBytes, query.high() + 4 * step, 4);
      std::memcpy(to + step * kStepBytes + 4 * kGroup, query.low() + 4 * step, 4);
    }
    Factors& factors = factors_[q / kGroup];
    factors.sigma[q % kGroup] = query.sigma();
    factors.b[q % kGroup] = query.b();
    factors.c[q % kGroup] = query.c();
    factors.slack[q % kGroup] = query.slack();
    factors.a_norm[q % kGroup] = query.a_norm();
    factors.offset[q % kGroup] = query.offset();
  }
}

}  // namespace lightcone
