// The adapter of a recipe's row, fitted from the images that the newer model was trained on. No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "models/adapter_file.h"
#include "models/manifest.h"
#include "research/experiment/recipe.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct TrainedModel {
  std::string id, folder;
  Manifest manifest;
  std::string device = "cpu";  // device of the embeddings (DeviceFor)
};

// Views of each image that the fit takes: the recipe's, or ViewsFor. `train`: the newer model's training set.
int ViewsOf(const RecipeAdapter& recipe, const ImageSet& train);

// Whether the adapter of a row can be fitted between models of these two configurations from `train`, the newer one's
// training set: what FitRowAdapter would refuse once both are trained. INVALID_ARGUMENT names the field.
absl::Status CheckRowAdapter(const RecipeAdapter& recipe, const TrainConfig& old, const TrainConfig& fresh,
                             const ImageSet& train);

// INVALID_ARGUMENT naming the field: more pairs asked for than there are images, and what FitAdapter refuses (too few
// pairs, a rank above the dimension). `trained_on`: the newer model's training set. Threads: safe.
absl::StatusOr<AdapterFile> FitRowAdapter(const RecipeAdapter& recipe, const TrainedModel& old,
                                          const TrainedModel& fresh, const Dataset& trained_on, AugmentKind augment,
                                          uint64_t seed, const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
