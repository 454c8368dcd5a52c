#include "geometry/code_kernels.h"

#include "base/dcheck.h"
#include "geometry/code_kernels_vnni.h"
#include "geometry/kernels.h"

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "geometry/code_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

// After foreach_target.h, which includes this file once for each instruction set.
#include "geometry/code_kernels-inl.h"

#if HWY_ONCE
namespace lightcone {

HWY_EXPORT(ScanCodesImpl);
HWY_EXPORT(ScoreCodesGatheredImpl);
HWY_EXPORT(DotCodesGatheredImpl);
HWY_EXPORT(EncodeInt8Impl);

namespace {

// A machine that was told to run an older instruction set (ForceKernelTarget) must not run this one.
bool UseVnni(CodeKind kind = CodeKind::kInt8) {
  if (kind != CodeKind::kInt8) return false;
#if HWY_ARCH_X86_64
  return HaveVnni() && ActiveKernelTarget() <= HWY_AVX3;  // lower is better
#else
  return false;
#endif
}

}  // namespace

std::size_t ScanCodes(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride, std::size_t n, float floor,
                      CodeHit* hits) {
  if (UseVnni(query.kind())) return ScanCodesVnni(query, rows, stride, n, floor, hits);
  return HWY_DYNAMIC_DISPATCH(ScanCodesImpl)(query, rows, stride, n, floor, hits);
}

void ScanCodesBatch(const CodeQueryBatch& queries, const std::uint8_t* rows, std::size_t stride, std::size_t n,
                    const float* floors, CodeHit* hits, std::size_t* found) {
  std::size_t q = 0;
  if (queries.grouped() > 0 && UseVnni()) {
    ScanCodesBatchVnni(queries, rows, stride, n, floors, hits, found);
    q = queries.grouped();
  }
  for (; q < queries.size(); ++q) found[q] = ScanCodes(queries[q], rows, stride, n, floors[q], hits + q * n);
}

bool BatchesCodes(CodeKind kind) { return UseVnni(kind); }

void ScoreCodesGathered(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride, const std::uint32_t* ids,
                        std::size_t n, float* scores) {
  if (UseVnni(query.kind())) return ScoreCodesGatheredVnni(query, rows, stride, ids, n, scores);
  HWY_DYNAMIC_DISPATCH(ScoreCodesGatheredImpl)(query, rows, stride, ids, n, scores);
}

void DotCodesGathered(CodeKind kind, const std::uint8_t* x, const std::uint8_t* rows, std::size_t stride, int dimension,
                      const std::uint32_t* ids, std::size_t n, float* dots) {
  LC_DCHECK(dimension <= 1 << 16);
  if (UseVnni(kind)) return DotCodesGatheredVnni(x, rows, stride, dimension, ids, n, dots);
  HWY_DYNAMIC_DISPATCH(DotCodesGatheredImpl)(kind, x, rows, stride, dimension, ids, n, dots);
}

RowCoding EncodeInt8(double scale, const float* z, const float* centre, std::size_t n, std::uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(EncodeInt8Impl)(scale, z, centre, n, out);
}

std::string_view CodeKernelName() { return UseVnni() ? "vnni" : "int16"; }

}  // namespace lightcone
#endif  // HWY_ONCE
