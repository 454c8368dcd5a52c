// Deterministic random vectors for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "geometry/metric.h"
#include "geometry/row_factors.h"

namespace lightcone::test {

inline std::vector<float> RandomVector(std::mt19937_64& random, int dimension, double norm) {
  std::normal_distribution<double> normal;
  std::vector<float> z(dimension);
  double squares = 0;
  for (float& x : z) {
    x = static_cast<float>(normal(random));
    squares += static_cast<double>(x) * x;
  }
  const double factor = squares > 0 ? norm / std::sqrt(squares) : 0;
  for (float& x : z) x = static_cast<float>(x * factor);
  return z;
}

// One space a metric; Lorentz several times, with curvatures and clips from mild to the extreme allowed.
inline std::vector<Space> SpacesOf(int dimension) {
  std::vector<Space> spaces;
  for (double curvature : {0.001, 0.1, 1.0, 1.5, 1000.0}) {
    for (double scaled_clip : {0.5, 1.2, kScaledClipRadiusMax}) {
      spaces.push_back({Metric::kLorentz, dimension, curvature, scaled_clip / std::sqrt(curvature) * (1 - 1e-12)});
    }
  }
  for (Metric metric : {Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    spaces.push_back({metric, dimension, 1.0, 1.0});
  }
  return spaces;
}

// Norms from tiny to beyond the clip.
inline double RandomNorm(std::mt19937_64& random) {
  return std::pow(10.0, std::uniform_real_distribution<double>(-3, 1.5)(random));
}

// `count` rows `stride` floats apart, starting `offset` floats into an allocation that ends with the last row, so that
// an address sanitizer sees a read past it. Floats between rows are NaN: no kernel may let them in.
struct RowBlock {
  RowBlock(std::mt19937_64& random, const Space& space, std::size_t count, std::size_t stride, std::size_t offset)
      : stride(stride), offset(offset) {
    const std::size_t d = static_cast<std::size_t>(space.dimension);
    values.assign(offset + (count - 1) * stride + d, std::nanf(""));
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back(RandomVector(random, space.dimension, RandomNorm(random)));
      std::copy(rows.back().begin(), rows.back().end(), values.begin() + offset + i * stride);
      factors.push_back(FactorsOf(space, rows.back()));
    }
  }
  const float* data() const { return values.data() + offset; }
  std::size_t size() const { return rows.size(); }

  std::size_t stride, offset;
  std::vector<float> values;
  std::vector<std::vector<float>> rows;
  std::vector<RowFactors> factors;
};

}  // namespace lightcone::test
