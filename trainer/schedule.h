// The learning rate of each step. Threads: pure functions.
#pragma once

#include <cstdint>

#include "trainer/config.h"

namespace lightcone {

// Rate of step `step` (0 .. epochs x steps_per_epoch - 1) under config.schedule and config.warmup_epochs.
// REQUIRES: steps_per_epoch > 0.
double LearningRateAt(const TrainConfig& config, int64_t step, int64_t steps_per_epoch);

}  // namespace lightcone
