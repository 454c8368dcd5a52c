// --dry-run: what would be trained, and for how long by the cost model of models/encoders/architecture.h.
#include "base/scratch_folder.h"
#include "base/status.h"
#include "research/experiment/cache.h"
#include "research/experiment/experiment.h"
#include "research/experiment/plan.h"
#include "research/experiment/rows.h"
#include "research/experiment/setup.h"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

constexpr double kForwardsPerStep = 3;  // forward passes that a training step costs, as in trainer/recipe.cc
constexpr double kCalibrationSeconds = 5;

double MacsOf(const PlannedModel& model) { return MacsPerImage(model.config.encoder); }

// Multiply-accumulates of an image's share of a step; nullopt where the cost model does not know the network.
std::optional<double> StepMacs(const ExperimentPlan& plan, const PlannedModel& model) {
  if (MacsOf(model) == 0) return std::nullopt;
  double macs = kForwardsPerStep * MacsOf(model);
  if (model.old_model >= 0) {  // the frozen old model also sees the batch
    const double old = MacsOf(plan.models[static_cast<size_t>(model.old_model)]);
    if (old == 0) return std::nullopt;
    macs += old;
  }
  return macs;
}

double TrainedImages(const PlannedModel& model) {
  const int64_t steps = model.images / model.config.batch;  // an epoch leaves out images that fill no batch
  return static_cast<double>(steps * model.config.batch * model.config.epochs);
}

// Images a second of the model's first steps, the very first of which is left out where there are more.
absl::StatusOr<double> MeasureFirstSteps(const ExperimentPlan& plan, const PlannedModel& model,
                                         const std::atomic<bool>* stop) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> scratch, ScratchFolder::Make("speed"));
  std::atomic<bool> enough = false;
  double rate = 0, first_seconds = 0;
  int64_t first_step = 0;
  const auto watch = [&](const TrainProgress& p) {
    if (first_step == 0 || p.elapsed_seconds <= first_seconds) {
      first_step = p.step;
      first_seconds = p.elapsed_seconds;
      rate = p.images_per_second;
    } else if (p.step > first_step) {  // two reports may come from one step
      rate = static_cast<double>((p.step - first_step) * model.config.batch) / (p.elapsed_seconds - first_seconds);
    }
    if (p.elapsed_seconds > kCalibrationSeconds || (stop != nullptr && stop->load())) enough.store(true);
  };
  TrainConfig config = model.config;
  config.checkpoint_seconds = 86'400;
  const absl::Status status =
      Train(plan.steps[static_cast<size_t>(model.step)].dataset, config, scratch->path(), watch, &enough).status();
  if (!status.ok() && !absl::IsCancelled(status)) return Annotate(status, "measuring the speed");
  if (stop != nullptr && stop->load()) return absl::CancelledError(ToAbsl("stopped while measuring the speed"));
  return rate;
}

// The encoder's input is what the data set gives.
void SetInputSizes(ExperimentPlan* plan) {
  for (PlannedModel& model : plan->models) {
    const ImageSet& train = plan->steps[static_cast<size_t>(model.step)].dataset.train;
    model.config.encoder.height = train.height;
    model.config.encoder.width_px = train.width;
    model.config.encoder.channels = train.channels;
  }
}

class Forecaster {
 public:
  Forecaster(const ExperimentSetup& setup, std::optional<double> rate, const ExperimentHooks& hooks)
      : setup_(setup), rate_(rate), hooks_(hooks), cache_(setup.models()) {}

  absl::StatusOr<ExperimentForecast> Run() {
    for (const uint64_t seed : setup_.seeds) LC_RETURN_IF_ERROR(Add(seed));
    return std::move(forecast_);
  }

 private:
  absl::Status Add(uint64_t seed) {
    LC_ASSIGN_OR_RETURN(const Dataset whole, OpenWhole(setup_, seed));
    LC_RETURN_IF_ERROR(Annotate(CheckQueries(setup_.recipe, whole), StrCat("data, seed ", seed)));
    LC_ASSIGN_OR_RETURN(ExperimentPlan plan, MakePlan(setup_.recipe, whole, seed));
    SetInputSizes(&plan);
    std::vector<bool> cached;
    bool any = false;
    for (const PlannedModel& model : plan.models) {
      LC_ASSIGN_OR_RETURN(const bool there, cache_.Has(model));
      cached.push_back(there);
      any = any || !there;
    }
    if (any && macs_per_second_ == 0) LC_RETURN_IF_ERROR(MeasureSpeed(plan));
    for (size_t i = 0; i < plan.models.size(); ++i) {
      const PlannedModel& model = plan.models[i];
      const std::optional<double> macs = StepMacs(plan, model);
      ForecastModel& out = forecast_.models.emplace_back();
      out.id = model.id;
      out.role = model.role;
      out.method = model.config.method;
      out.seed = seed;
      out.images = model.images;
      out.epochs = model.config.epochs;
      out.gigamacs_per_image = MacsOf(model) / 1e9;
      out.cached = cached[i];
      if (cached[i]) {
        out.seconds = 0;
      } else if (macs.has_value() && macs_per_second_ > 0) {
        out.seconds = *macs * TrainedImages(model) / macs_per_second_;
      }
      forecast_.seconds += out.seconds.value_or(0);
    }
    return absl::OkStatus();
  }

  absl::Status MeasureSpeed(const ExperimentPlan& plan) {
    const PlannedModel& model = plan.models[static_cast<size_t>(plan.independent[0].models.back())];
    if (!rate_.has_value()) {
      if (hooks_.say) hooks_.say(StrCat("measuring the speed of ", model.role, " for some seconds"));
      LC_ASSIGN_OR_RETURN(rate_, MeasureFirstSteps(plan, model, hooks_.stop));
    }
    forecast_.measured_on = model.id;
    forecast_.images_per_second = *rate_;
    const std::optional<double> macs = StepMacs(plan, model);
    if (macs.has_value()) macs_per_second_ = *rate_ * *macs;
    return absl::OkStatus();
  }

  const ExperimentSetup& setup_;
  std::optional<double> rate_;
  const ExperimentHooks& hooks_;
  const ModelCache cache_;
  double macs_per_second_ = 0;
  ExperimentForecast forecast_;
};

}  // namespace

absl::StatusOr<ExperimentForecast> ForecastExperiment(const ExperimentOptions& options,
                                                      std::optional<double> images_per_second,
                                                      const ExperimentHooks& hooks) {
  if (images_per_second.has_value() && !(*images_per_second > 0 && *images_per_second < 1e12)) {
    return InvalidField("--images-per-second", StrCat(*images_per_second), "above 0");
  }
  LC_ASSIGN_OR_RETURN(const ExperimentSetup setup, SetUp(options));
  return Forecaster(setup, images_per_second, hooks).Run();
}

}  // namespace lightcone
