#include "geometry/exact_kernels.h"

// As in kernels.cc.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "geometry/exact_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

// After foreach_target.h, which includes this file once for each instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lightcone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kChains = 8;
using Doubles = hn::CappedTag<double, kChains>;
using Floats = hn::Rebind<float, Doubles>;
using W = hn::Vec<Doubles>;

// Chain i % 8 adds term i, in order. `terms(i)` makes a vector of terms i, i + 1, ..., `term(i)` one.
template <typename Terms, typename Term>
HWY_INLINE double SumInChains(size_t n, Terms terms, Term term) {
  const Doubles d;
  constexpr size_t kLanes = hn::MaxLanes(Doubles());
  constexpr size_t kVectors = kChains / kLanes;
  W sums[kVectors];
  for (W& sum : sums) sum = hn::Zero(d);
  size_t i = 0;
  for (; i + kChains <= n; i += kChains) {
    for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], terms(i + v * kLanes));
  }
  double chains[kChains];
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, chains + v * kLanes);
  for (size_t j = 0; i < n; ++i, ++j) chains[j] += term(i);
  return ((chains[0] + chains[1]) + (chains[2] + chains[3])) + ((chains[4] + chains[5]) + (chains[6] + chains[7]));
}

HWY_INLINE W Promoted(const float* x) { return hn::PromoteTo(Doubles(), hn::LoadU(Floats(), x)); }

double ExactSquaresImpl(const float* x, size_t n) {
  return SumInChains(
      n,
      [x](size_t i) HWY_ATTR {
        const W value = Promoted(x + i);
        return hn::Mul(value, value);
      },
      [x](size_t i) { return static_cast<double>(x[i]) * x[i]; });
}

double ExactSquaredGapImpl(const double* q, const float* x, double scale, size_t n) {
  const W factor = hn::Set(Doubles(), scale);
  return SumInChains(
      n,
      [=](size_t i) HWY_ATTR {
        const W gap = hn::Sub(hn::LoadU(Doubles(), q + i), hn::Mul(Promoted(x + i), factor));
        return hn::Mul(gap, gap);
      },
      [=](size_t i) {
        const double gap = q[i] - x[i] * scale;
        return gap * gap;
      });
}

double ExactDotImpl(const double* q, const float* x, size_t n) {
  return SumInChains(
      n, [=](size_t i) HWY_ATTR { return hn::Mul(hn::LoadU(Doubles(), q + i), Promoted(x + i)); },
      [=](size_t i) { return q[i] * x[i]; });
}

}  // namespace HWY_NAMESPACE
}  // namespace lightcone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lightcone {

HWY_EXPORT(ExactSquaresImpl);
HWY_EXPORT(ExactSquaredGapImpl);
HWY_EXPORT(ExactDotImpl);

double ExactSquares(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(ExactSquaresImpl)(x, n); }

double ExactSquaredGap(const double* q, const float* x, double scale, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(ExactSquaredGapImpl)(q, x, scale, n);
}

double ExactDot(const double* q, const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(ExactDotImpl)(q, x, n); }

}  // namespace lightcone
#endif  // HWY_ONCE
