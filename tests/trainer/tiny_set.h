// A data set of a few classes that an MLP learns in a second: each class is a pattern, each image the pattern plus
// noise.
#pragma once

#include <cstdint>
#include <string>

#include "base/rng.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

inline ImageSet TinyImages(int classes, int per_class, uint64_t seed) {
  ImageSet set;
  set.height = set.width = 6;
  set.channels = 1;
  Rng noise(seed);
  for (int i = 0; i < per_class; ++i) {
    for (int c = 0; c < classes; ++c) {
      Rng pattern(MixSeed({17, static_cast<uint64_t>(c)}));
      for (int p = 0; p < 36; ++p) {
        const double value = 128 + 60 * pattern.Normal() + 45 * noise.Normal();
        set.pixels.push_back(static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value));
      }
      set.labels.push_back(c);
    }
  }
  return set;
}

inline Dataset TinyDataset(int classes = 6) {
  Dataset dataset;
  dataset.name = "tiny";
  for (int c = 0; c < classes; ++c) dataset.class_names.push_back("class" + std::to_string(c));
  dataset.train = TinyImages(classes, 20, 1);
  dataset.test = TinyImages(classes, 8, 2);
  dataset.normalisation = {{0.5f}, {0.25f}};
  return dataset;
}

// Two steps, an epoch of the tiny set.
inline TrainConfig TwoSteps() {
  TrainConfig config;
  config.encoder.architecture = "mlp";
  config.encoder.width = 0.125;
  config.encoder.dimension = 8;
  config.metric = "cosine";
  config.batch = 60;
  config.epochs = 1;
  config.threads = 1;
  config.nccl.queue = 100;
  return config;
}

}  // namespace lightcone
