#include "geometry/kernels.h"

// Arrays of vectors do not exist for the sizeless vectors of SVE and RVV; NEON serves those ARM machines.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "geometry/kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

// After foreach_target.h, which includes this file once for each instruction set.
#include "base/dcheck.h"
#include "geometry/batch_kernels-inl.h"
#include "geometry/kernels-inl.h"
#include "geometry/kernels_scalar-inl.h"

#if HWY_ONCE
namespace lightcone {

HWY_EXPORT(ScoreRowsImpl);
HWY_EXPORT(ScoreRowsGatheredImpl);
HWY_EXPORT(ScoreRowsBatchImpl);
HWY_EXPORT(ScanRowsBatchImpl);
HWY_EXPORT(DotImpl);
HWY_EXPORT(SquaredGapImpl);
HWY_EXPORT(GeodesicRowsImpl);
HWY_EXPORT(TargetImpl);

void ScoreRows(const BoundQuery& query, const float* rows, std::size_t stride, const RowFactors* factors, std::size_t n,
               float* scores) {
  HWY_DYNAMIC_DISPATCH(ScoreRowsImpl)(query, rows, stride, factors, n, scores);
}

void ScoreRowsGathered(const BoundQuery& query, const float* rows, std::size_t stride, const RowFactors* factors,
                       const std::uint32_t* ids, std::size_t n, float* scores) {
  HWY_DYNAMIC_DISPATCH(ScoreRowsGatheredImpl)(query, rows, stride, factors, ids, n, scores);
}

void ScoreRowsBatch(const QueryBatch& queries, const float* rows, std::size_t stride, const RowFactors* factors,
                    std::size_t n, float* scores, std::size_t score_stride) {
  LC_DCHECK(score_stride >= n);
  HWY_DYNAMIC_DISPATCH(ScoreRowsBatchImpl)(queries, rows, stride, factors, n, scores, score_stride);
}

void ScanRowsBatch(const QueryBatch& queries, const float* rows, std::size_t stride, const RowFactors* factors,
                   std::size_t n, const float* floors, RowHit* hits, std::size_t* found) {
  HWY_DYNAMIC_DISPATCH(ScanRowsBatchImpl)(queries, rows, stride, factors, n, floors, hits, found);
}

float Dot(const float* x, const float* y, std::size_t n) { return HWY_DYNAMIC_DISPATCH(DotImpl)(x, y, n); }

float SquaredGap(const float* x, const float* y, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(SquaredGapImpl)(x, y, n);
}

void GeodesicRows(double curvature, const float* x_space, std::size_t dimension, const float* rows, std::size_t stride,
                  std::size_t n, float* distances) {
  HWY_DYNAMIC_DISPATCH(GeodesicRowsImpl)
  (static_cast<float>(curvature), x_space, dimension, rows, stride, n, distances);
}

std::vector<std::int64_t> KernelTargets() { return hwy::SupportedAndGeneratedTargets(); }

std::string_view KernelTargetName(std::int64_t target) { return hwy::TargetName(target); }

std::int64_t ActiveKernelTarget() { return HWY_DYNAMIC_DISPATCH(TargetImpl)(); }

void ForceKernelTarget(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace lightcone
#endif  // HWY_ONCE
