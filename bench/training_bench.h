// The trainer's speed: whole trainings, steps of each method, loaders, evaluation, exported encoders, each beside the
// raw part that it is made of. No torch here. Threads: one caller; every function uses every core.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::bench {

// A median over rounds of both sides, and the median of the rounds' ratios.
struct Compared {
  double ours = 0, peer = 0;
  double ratio = 0;   // as the function says
  double spread = 0;  // (max - min) / median of the rounds' ratios
};

struct TrainingOptions {
  std::string architecture = "small-cnn";
  std::string method = "hbct";  // or independent
  int64_t batch = 128;
  int rounds = 7, steps = 12;  // a round is so many steps of each side
};

// Images a second of a training with everything that belongs to it (BatchLoader with augmentation, TrainingRun::Step,
// loss meter) on synthetic colour images of 32 x 32, beside a plain loop: the same network, for hbct the same old
// network under NoGradGuard, a linear layer with cross entropy, torch's SGD, all batches in memory as tensors.
// ratio: ours / plain. `folder` is for the old model.
absl::StatusOr<Compared> MeasureTraining(const std::string& folder, const TrainingOptions& options);

// Milliseconds of a step of each method beside the sum of its parts: a step of `independent` with the same metric, and
// a forward of each frozen network that the method asks at every step. ratio: step / parts. The small CNN, batches of
// 64, prepared before.
struct MethodStep {
  std::string method;
  int frozen_forwards = 0;
  Compared milliseconds;
};
absl::StatusOr<std::vector<MethodStep>> MeasureMethods(const std::string& folder, int rounds = 7, int steps = 5);

// Images a second of HBCT steps with the small CNN whose loader works beside them on the same cores, against the same
// steps on one batch held in memory: 32 x 32 in memory, and JPEG files of 64 x 64 decoded when they are read. ratio:
// the share of the time in which the step is busy.
struct LoaderFigures {
  Compared in_memory, jpegs;
};
absl::StatusOr<LoaderFigures> MeasureLoader(const std::string& folder, int steps = 12);

// Seconds of EvaluateRetrieval of 10,000 queries on 10,000 items, geodesic, 128 numbers each; and how many bytes the
// process held at most in it beyond what it held before.
struct EvaluationFigures {
  double seconds = 0;
  int64_t peak_bytes = 0;
};
absl::StatusOr<EvaluationFigures> MeasureEvaluation();

// Images a second of an exported encoder beside the network that it came from in eval mode, batches of 128 images of
// 32 x 32. ratio: exported / network.
absl::StatusOr<Compared> MeasureExport(const std::string& folder, const std::string& architecture, int rounds = 7,
                                       int batches = 4);

}  // namespace lightcone::bench
