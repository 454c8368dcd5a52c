#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/dcheck.h"

namespace lightcone {

double LearningRateAt(const TrainConfig& config, int64_t step, int64_t steps_per_epoch) {
  LC_DCHECK(steps_per_epoch > 0);
  const double epochs_done = static_cast<double>(step) / static_cast<double>(steps_per_epoch);
  const double share = epochs_done / static_cast<double>(config.epochs);
  double factor = 1;
  if (config.schedule == "cosine-step") {
    factor = 0.5 * (1 + std::cos(std::numbers::pi * share));
  } else if (config.schedule == "linear-step") {
    factor = 1 - share;
  } else if (config.schedule == "cosine-epoch") {
    factor = 0.5 * (1 + std::cos(std::numbers::pi * std::floor(epochs_done) / static_cast<double>(config.epochs)));
  } else if (config.schedule == "step") {
    factor = share < 0.3 ? 1 : share < 0.6 ? 0.2 : share < 0.8 ? 0.04 : 0.008;
  }
  if (config.warmup_epochs > 0) factor *= std::min(1.0, (epochs_done + 1.0 / steps_per_epoch) / config.warmup_epochs);
  return config.learning_rate * factor;
}

}  // namespace lightcone
