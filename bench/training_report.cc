// The trainer's figures with their goals.
#include "base/status.h"
#include "bench/benches.h"
#include "bench/training_bench.h"

namespace lightcone::bench {
namespace {

// A rate beside its peer's, of which it must reach a share.
void AddRate(Report& report, const std::string& name, const std::string& peer, const Compared& rate, double goal) {
  report.Add({.name = name,
              .value = rate.ours,
              .unit = "images/s",
              .peer = peer,
              .peer_value = rate.peer,
              .ratio = rate.ratio,
              .goal = StrCat("ratio >= ", goal),
              .met = rate.ratio >= goal,
              .spread = rate.spread});
}

// Whole trainings against a plain loop.
absl::Status BenchLoops(const std::string& folder, Report& report) {
  const TrainingOptions loops[] = {{.method = "hbct"},
                                   {.method = "independent"},
                                   {.architecture = "resnet18", .method = "independent", .rounds = 3, .steps = 2}};
  for (const TrainingOptions& loop : loops) {
    LC_ASSIGN_OR_RETURN(const Compared rate, MeasureTraining(folder, loop));
    AddRate(report, StrCat("training, ", loop.method, ", ", loop.architecture, ", 32 x 32 x 3"),
            "plain libtorch loop, data in memory", rate, 0.95);
  }
  return absl::OkStatus();
}

absl::Status BenchMethods(const std::string& folder, Report& report) {
  LC_ASSIGN_OR_RETURN(const std::vector<MethodStep> methods, MeasureMethods(folder));
  for (const MethodStep& method : methods) {
    const double goal = method.method == "hbct" ? 1.10 : 1.15;
    report.Add({.name = StrCat("a step of ", method.method),
                .value = method.milliseconds.ours,
                .unit = "ms",
                .peer = method.frozen_forwards > 0 ? "an independent step and a frozen forward" : "an independent step",
                .peer_value = method.milliseconds.peer,
                .ratio = method.milliseconds.ratio,
                .goal = StrCat("ratio <= ", goal),
                .met = method.milliseconds.ratio <= goal,
                .spread = method.milliseconds.spread});
  }
  return absl::OkStatus();
}

absl::Status BenchUses(const std::string& folder, Report& report) {
  LC_ASSIGN_OR_RETURN(const LoaderFigures loader, MeasureLoader(folder + "/loader"));
  constexpr char kHeld[] = "steps on one batch again and again";
  AddRate(report, "steps fed by the loader, images in memory", kHeld, loader.in_memory, 0.9);
  AddRate(report, "steps fed by the loader, JPEG files of 64 x 64", kHeld, loader.jpegs, 0.9);
  LC_ASSIGN_OR_RETURN(const EvaluationFigures evaluation, MeasureEvaluation());
  report.AddAtMost("evaluation of 10000 x 10000, geodesic", evaluation.seconds, "s", 10);
  constexpr double kMatrixMiB = 10'000.0 * 10'000 * 4 / (1 << 20);
  const double peak = static_cast<double>(evaluation.peak_bytes) / (1 << 20);
  report.Add({.name = "peak memory of that evaluation",
              .value = peak,
              .unit = "MiB",
              .peer = "the matrix of distances",
              .peer_value = kMatrixMiB,
              .ratio = peak / kMatrixMiB,
              .goal = "ratio < 1",
              .met = peak < kMatrixMiB});
  for (const char* architecture : {"small-cnn", "resnet18"}) {
    LC_ASSIGN_OR_RETURN(const Compared rate, MeasureExport(folder, architecture));
    AddRate(report, StrCat("exported encoder, ", architecture), "the network in eval mode", rate, 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchTraining(const BenchOptions& options, Report& report) {
  const std::string folder = options.folder + "/training";
  LC_RETURN_IF_ERROR(BenchUses(folder, report));
  LC_RETURN_IF_ERROR(BenchLoops(folder, report));
  return BenchMethods(folder, report);
}

}  // namespace lightcone::bench
