// The trainer's figures with their goals.
#include "base/status.h"
#include "bench/benches.h"
#include "bench/training_bench.h"

namespace lightcone::bench {
namespace {

// Whole trainings against a plain loop. Issue by issue the goals grew: HBCT .85, everything .95.
absl::Status BenchLoops(const std::string& folder, Report& report) {
  struct Loop {
    TrainingOptions options;
    double goal;
  };
  const Loop loops[] = {{{.method = "hbct"}, 0.95},
                        {{.method = "independent"}, 0.95},
                        {{.architecture = "resnet18", .method = "independent", .rounds = 3, .steps = 2}, 0.95}};
  for (const Loop& loop : loops) {
    LC_ASSIGN_OR_RETURN(const Compared rate, MeasureTraining(folder, loop.options));
    report.Add({.name = StrCat("training, ", loop.options.method, ", ", loop.options.architecture, ", 32 x 32 x 3"),
                .value = rate.ours,
                .unit = "images/s",
                .peer = "plain libtorch loop, data in memory",
                .peer_value = rate.peer,
                .ratio = rate.ratio,
                .goal = StrCat("ratio >= ", loop.goal),
                .met = rate.ratio >= loop.goal,
                .spread = rate.spread});
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

void AddBusy(Report& report, const char* name, const Compared& rate) {
  report.Add({.name = name,
              .value = rate.ours,
              .unit = "images/s",
              .peer = "steps on one batch again and again",
              .peer_value = rate.peer,
              .ratio = rate.ratio,
              .goal = "ratio >= 0.9",
              .met = rate.ratio >= 0.9,
              .spread = rate.spread});
}

absl::Status BenchUses(const std::string& folder, Report& report) {
  LC_ASSIGN_OR_RETURN(const LoaderFigures loader, MeasureLoader(folder + "/loader"));
  AddBusy(report, "steps fed by the loader, images in memory", loader.in_memory);
  AddBusy(report, "steps fed by the loader, JPEG files of 64 x 64", loader.jpegs);
  LC_ASSIGN_OR_RETURN(const EvaluationFigures evaluation, MeasureEvaluation());
  report.Add({.name = "evaluation of 10000 x 10000, geodesic",
              .value = evaluation.seconds,
              .unit = "s",
              .peer = "the limit",
              .peer_value = 10,
              .ratio = evaluation.seconds / 10,
              .goal = "value <= 10",
              .met = evaluation.seconds <= 10});
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
    report.Add({.name = StrCat("exported encoder, ", architecture),
                .value = rate.ours,
                .unit = "images/s",
                .peer = "the network in eval mode",
                .peer_value = rate.peer,
                .ratio = rate.ratio,
                .goal = "ratio >= 1",
                .met = rate.ratio >= 1,
                .spread = rate.spread});
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
