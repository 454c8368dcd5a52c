// Embeddings of the same items by two models that share no axes: a small world for tests of adapters.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "geometry/metric.h"

namespace lightcone {

struct TwoModels {
  std::vector<float> old_z, new_z;  // items x dimension
  std::vector<int32_t> labels;
  Space old_space, new_space;
};

// Items of `classes` classes around centres of a hidden space of six dimensions. The new model sees it linearly, the
// old one bent and with noise. `seed` draws the items only: every world of one shape has the same models and classes.
inline TwoModels MakeTwoModels(int items, int classes, int old_dimension, int new_dimension, Metric metric,
                               uint64_t seed) {
  constexpr int kHidden = 6;
  const auto matrix = [](int rows, uint64_t which) {
    Rng rng(MixSeed({which, 0x3a7u}));
    std::vector<double> values(static_cast<size_t>(rows) * kHidden);
    for (double& value : values) value = rng.Normal() / std::sqrt(static_cast<double>(rows));
    return values;
  };
  const std::vector<double> centres = matrix(classes, 1), old_map = matrix(old_dimension, 2),
                            new_map = matrix(new_dimension, 3);
  TwoModels world;
  world.old_space = {metric, old_dimension, 1.0, 1.0};
  world.new_space = {metric, new_dimension, 1.0, 1.2};
  Rng rng(seed);
  const double spread = std::sqrt(static_cast<double>(classes)) * 0.4;  // centres have entries of size 1/sqrt(classes)
  for (int i = 0; i < items; ++i) {
    const int label = i % classes;
    double hidden[kHidden];
    for (int h = 0; h < kHidden; ++h) {
      hidden[h] = spread * centres[static_cast<size_t>(label * kHidden + h)] + 0.1 * rng.Normal();
    }
    for (int j = 0; j < old_dimension; ++j) {
      double sum = 0.02 * rng.Normal();
      for (int h = 0; h < kHidden; ++h)
        sum += old_map[static_cast<size_t>(j * kHidden + h)] * std::tanh(1.5 * hidden[h]);
      world.old_z.push_back(static_cast<float>(sum));
    }
    for (int j = 0; j < new_dimension; ++j) {
      double sum = 0;
      for (int h = 0; h < kHidden; ++h) sum += new_map[static_cast<size_t>(j * kHidden + h)] * hidden[h];
      world.new_z.push_back(static_cast<float>(sum));
    }
    world.labels.push_back(label);
  }
  return world;
}

}  // namespace lightcone
