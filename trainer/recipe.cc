// Presets. "quick" is sized by a cost model so that the demo ends in minutes on two cores; "paper" is HBCT section 5.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/dcheck.h"
#include "base/status.h"
#include "trainer/config.h"

namespace lightcone {
namespace {

// Assumed speed of the small CNN on two cores of a current x86 server.
constexpr double kMacsPerSecond = 50e9;
// One training forward and backward costs three forward passes. Old model (half the images), independent model, and
// compatible model (a frozen forward more): 0.5 + 1 + 4/3 trainings.
constexpr double kForwardsPerStep = 3;
constexpr double kTrainings = 0.5 + 1 + 4.0 / 3.0;
constexpr double kSmallSetSeconds = 200;    // time of all three trainings for up to kSmallSetImages
constexpr double kLargeSetSeconds = 1'500;  // time of all three trainings for larger sets
constexpr int64_t kEpochsMin = 4, kEpochsMax = 60;

// hbct.normals=auto: a class that is met more often starts with a drawn normal, another one at the old model's class
// mean. Old means were far ahead at 180 times, drawn normals at 1,020 and more (research/notes/beyond-hbct.md).
constexpr double kMeetingsMax = 1'000;

int64_t QuickEpochs(const TrainConfig& config, int64_t images) {
  const double budget = images <= kSmallSetImages ? kSmallSetSeconds : kLargeSetSeconds;
  const double macs = MacsPerImage(config.encoder) * kForwardsPerStep * static_cast<double>(images);
  const double epochs = budget / kTrainings * kMacsPerSecond / macs;
  return static_cast<int64_t>(
      std::clamp(std::floor(epochs), static_cast<double>(kEpochsMin), static_cast<double>(kEpochsMax)));
}

void FitToData(const Dataset& dataset, TrainConfig& config) {
  config.encoder.height = dataset.train.height;
  config.encoder.width_px = dataset.train.width;
  config.encoder.channels = dataset.train.channels;
}

TrainConfig Quick(const Dataset& dataset) {
  TrainConfig config;
  config.recipe = "quick";
  FitToData(dataset, config);
  config.encoder.architecture = "small-cnn";
  config.encoder.width = dataset.train.channels == 1 ? 0.5 : 0.75;
  if (dataset.classes() >= 2) {
    config.classifier_scale = ClassifierScaleFor(dataset.classes());
    config.classifier_weight_decay = 0;
    config.hbct.normals = "old-means";
  }
  const int64_t images = dataset.train.size();
  // Small sets need the steps, and half of the images must fill a batch.
  config.batch = std::clamp<int64_t>(images <= 20'000 ? 64 : 128, 2, std::max<int64_t>(2, images / 4));
  config.epochs = QuickEpochs(config, images);
  return config;
}

TrainConfig Paper(const Dataset& dataset) {
  TrainConfig config;
  config.recipe = "paper";
  FitToData(dataset, config);
  config.encoder.architecture = "resnet18";
  config.encoder.rescale = "fixed";
  config.epochs = 200;
  config.schedule = "cosine-epoch";
  return config;
}

}  // namespace

const std::vector<RecipeInfo>& TrainRecipes() {
  static const auto* const kRecipes = new std::vector<RecipeInfo>{
      {"quick", "small CNN, epochs sized for two CPU cores: minutes for small sets, half an hour for large ones"},
      {"paper", "ResNet-18, 200 epochs, /sqrt d then clip (HBCT section 5); for a GPU, or days of CPU"},
  };
  return *kRecipes;
}

absl::StatusOr<TrainConfig> RecipeFor(const Dataset& dataset, std::string_view recipe) {
  if (dataset.train.size() < 2) {
    return InvalidField("dataset.train", StrCat(dataset.train.size(), " images"), "at least 2 images");
  }
  TrainConfig config;
  if (recipe == "quick") {
    config = Quick(dataset);
  } else if (recipe == "paper") {
    config = Paper(dataset);
  } else {
    return InvalidField("recipe", recipe, "quick, paper");
  }
  LC_RETURN_IF_ERROR(config.Validate());
  return config;
}

double ClassifierScaleFor(int64_t classes) {
  LC_DCHECK(classes >= 2);
  const double norm = std::log(static_cast<double>(classes));
  return norm * std::sqrt(3.0);  // d numbers uniform in +-d^-1/2 have norm 3^-1/2
}

std::string NormalsFor(const TrainConfig& config, const ImageSet& train) {
  if (config.hbct.normals != "auto") return config.hbct.normals;
  const std::unordered_set<int32_t> classes(train.labels.begin(), train.labels.end());  // classes with training images
  const double met = static_cast<double>(train.size()) * static_cast<double>(config.epochs);
  return met <= kMeetingsMax * static_cast<double>(classes.size()) ? "old-means" : "drawn";
}

double ClipRadiusFor(int position_in_chain) { return 1.0 + 0.2 * position_in_chain; }

}  // namespace lightcone
