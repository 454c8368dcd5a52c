// HBCT training beside a plain libtorch loop.
#include "base/status.h"
#include "bench/benches.h"
#include "bench/training_bench.h"

namespace lightcone::bench {

absl::Status BenchTraining(const BenchOptions& options, Report& report) {
  LC_ASSIGN_OR_RETURN(const TrainingFigures figures, MeasureTraining(options.folder + "/training"));
  report.Add({.name = "HBCT training, small-cnn, 32 x 32 x 3",
              .value = figures.ours_images_per_second,
              .unit = "images/s",
              .peer = "plain libtorch loop, data in memory",
              .peer_value = figures.plain_images_per_second,
              .ratio = figures.ratio,
              .goal = "ratio >= 0.85",
              .met = figures.ratio >= 0.85,
              .spread = figures.ratio_spread});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
