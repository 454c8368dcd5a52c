// Training throughput: our loop with everything that belongs to it beside a plain libtorch loop. No torch here.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lightcone::bench {

struct TrainingFigures {
  double ours_images_per_second = 0;  // medians over the rounds
  double plain_images_per_second = 0;
  double ratio = 0;         // median of the rounds' ratios, ours / plain
  double ratio_spread = 0;  // (max - min) / median of them
  int rounds = 0;
};

// Interleaved rounds of `steps` HBCT steps each, on synthetic colour images of 32 x 32 with the network, batch and
// layout of the recipe "quick". Ours: BatchLoader with augmentation, TrainingRun::Step, loss meter. Plain: the same
// network, the same old network under NoGradGuard, a linear layer with cross entropy, torch's SGD, all batches in
// memory as tensors. `folder` is for the old model's files. Threads: one caller; uses every core.
absl::StatusOr<TrainingFigures> MeasureTraining(const std::string& folder, int rounds = 7, int steps = 12);

}  // namespace lightcone::bench
