// Clustered vectors on whose neighbourhoods recall is neither trivial nor hopeless. Deterministic from the seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace lightcone::bench {

// n x dimension: `clusters` centres of norm 1 with Gaussian spread (per vector, not per coordinate) around them.
inline std::vector<float> ClusteredVectors(int64_t n, int dimension, int clusters, double spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> centres(static_cast<size_t>(clusters) * dimension);
  for (int c = 0; c < clusters; ++c) {
    double norm = 0;
    for (int i = 0; i < dimension; ++i) {
      float& x = centres[static_cast<size_t>(c) * dimension + i];
      x = normal(random);
      norm += static_cast<double>(x) * x;
    }
    for (int i = 0; i < dimension; ++i) {
      centres[static_cast<size_t>(c) * dimension + i] /= static_cast<float>(std::sqrt(norm));
    }
  }
  const float scale = static_cast<float>(spread / std::sqrt(static_cast<double>(dimension)));
  std::vector<float> rows(static_cast<size_t>(n) * dimension);
  for (int64_t r = 0; r < n; ++r) {
    const float* centre = &centres[(random() % static_cast<uint64_t>(clusters)) * dimension];
    for (int i = 0; i < dimension; ++i) {
      rows[static_cast<size_t>(r) * dimension + i] = centre[i] + scale * normal(random);
    }
  }
  return rows;
}

// Uniform in 32 dimensions, turned into `dimension`: no clusters to hold on to.
inline std::vector<float> UniformVectors(int64_t n, int dimension, uint64_t seed) {
  constexpr int kInner = 32;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> map(static_cast<size_t>(kInner) * static_cast<size_t>(dimension));
  for (float& x : map) x = normal(random) / std::sqrt(static_cast<float>(dimension));
  std::vector<float> rows(static_cast<size_t>(n) * static_cast<size_t>(dimension), 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    float* row = &rows[static_cast<size_t>(i) * static_cast<size_t>(dimension)];
    for (int h = 0; h < kInner; ++h) {
      const float x = uniform(random) / 4;
      const float* to = &map[static_cast<size_t>(h) * static_cast<size_t>(dimension)];
      for (int j = 0; j < dimension; ++j) row[j] += x * to[j];
    }
  }
  return rows;
}

}  // namespace lightcone::bench
