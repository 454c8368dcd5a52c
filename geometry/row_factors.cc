#include "geometry/row_factors.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "geometry/lorentz.h"

namespace lightcone {

RowFactors FactorsOf(const Space& space, std::span<const float> z) {
  LC_DCHECK(z.size() == static_cast<std::size_t>(space.dimension));
  const double norm = NormOf(z);
  switch (space.metric) {
    case Metric::kLorentz: {
      const double k = std::sqrt(space.curvature);
      const double radius = std::min(norm, space.clip_radius);
      const double clip = norm > 0 ? radius / norm : 1.0;
      return {static_cast<float>(clip * lorentz::SinhRatio(k * radius)), static_cast<float>(std::cosh(k * radius) / k)};
    }
    case Metric::kCosine:
      return {static_cast<float>(1.0 / norm), 0.0f};
    case Metric::kInnerProduct:
      return {1.0f, static_cast<float>(norm)};
    case Metric::kEuclidean:
      return {1.0f, static_cast<float>(norm * norm)};
  }
  return {};
}

}  // namespace lightcone
