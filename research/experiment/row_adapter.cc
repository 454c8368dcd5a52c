#include "research/experiment/row_adapter.h"

#include <memory>

#include "base/rng.h"
#include "base/status.h"
#include "models/encoders/encoder.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/data/split.h"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

constexpr uint64_t kPairsStream = 0xada97;

absl::StatusOr<AdaptOptions> AdaptOptionsOf(const RecipeAdapter& recipe, const Space& old, const Space& fresh,
                                            uint64_t seed) {
  AdaptOptions options;
  LC_ASSIGN_OR_RETURN(options.direction, ParseAdapterDirection(recipe.direction));
  LC_ASSIGN_OR_RETURN(options.kind, ParseAdapterKind(recipe.map));
  const bool item = options.direction == AdapterDirection::kItem;
  options.source = item ? old : fresh;
  options.target = item ? fresh : old;
  options.loss = recipe.loss;
  options.width = static_cast<int>(recipe.width);
  options.rank = static_cast<int>(recipe.rank);
  options.steps = static_cast<int>(recipe.steps);
  options.seed = seed;
  return options;
}

// Of a model that such a training makes; its clip radius does not matter here.
absl::StatusOr<Space> SpaceFor(const TrainConfig& config) {
  LC_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(config.metric));
  return Space{metric, static_cast<int>(LayoutOf(config).embedding), config.curvature,
               config.clip_radius > 0 ? config.clip_radius : 1};
}

absl::Status TooManyPairs(const RecipeAdapter& recipe, const ImageSet& all) {
  return InvalidField("adapter.pairs", StrCat(recipe.pairs), StrCat("0 .. ", all.size(), ", the training images"));
}

absl::StatusOr<ImageSet> ImagesOf(const RecipeAdapter& recipe, const ImageSet& all, uint64_t seed) {
  if (recipe.pairs == 0 || recipe.pairs == all.size()) return all;
  if (recipe.pairs > all.size()) return TooManyPairs(recipe, all);
  return DrawImages(all, recipe.pairs, MixSeed({seed, kPairsStream}));
}

}  // namespace

int ViewsOf(const RecipeAdapter& recipe, const ImageSet& train) {
  if (recipe.views > 0) return static_cast<int>(recipe.views);
  return ViewsFor(recipe.pairs > 0 ? recipe.pairs : train.size());
}

absl::Status CheckRowAdapter(const RecipeAdapter& recipe, const TrainConfig& old, const TrainConfig& fresh,
                             const ImageSet& train) {
  LC_ASSIGN_OR_RETURN(const Space old_space, SpaceFor(old));
  LC_ASSIGN_OR_RETURN(const Space new_space, SpaceFor(fresh));
  LC_ASSIGN_OR_RETURN(const AdaptOptions options, AdaptOptionsOf(recipe, old_space, new_space, fresh.seed));
  LC_RETURN_IF_ERROR(options.Validate());
  if (recipe.pairs > train.size()) return TooManyPairs(recipe, train);
  const int64_t items = recipe.pairs > 0 ? recipe.pairs : train.size();
  if (items < kAdaptItemsMin) {
    return InvalidField("pairs.items", StrCat(items, " different items"), StrCat("at least ", kAdaptItemsMin));
  }
  const int64_t pairs = items * ViewsOf(recipe, train);
  if (pairs < kAdaptPairsMin)
    return InvalidField("pairs", StrCat(pairs, " pairs"), StrCat("at least ", kAdaptPairsMin));
  return CheckCentres("adapter.width", options.kind, options.width, FittedAtMost(pairs, options.held_out));
}

absl::StatusOr<AdapterFile> FitRowAdapter(const RecipeAdapter& recipe, const TrainedModel& old,
                                          const TrainedModel& fresh, const Dataset& trained_on, AugmentKind augment,
                                          uint64_t seed, const std::atomic<bool>* stop) {
  LC_ASSIGN_OR_RETURN(const Space old_space, SpaceOf(old.manifest));
  LC_ASSIGN_OR_RETURN(const Space new_space, SpaceOf(fresh.manifest));
  LC_ASSIGN_OR_RETURN(AdaptOptions options, AdaptOptionsOf(recipe, old_space, new_space, seed));
  LC_ASSIGN_OR_RETURN(const ImageSet images, ImagesOf(recipe, trained_on.train, seed));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> old_encoder,
                      Encoder::LoadFolder(old.folder, {.device = old.device}));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> new_encoder,
                      Encoder::LoadFolder(fresh.folder, {.device = fresh.device}));
  LC_ASSIGN_OR_RETURN(const ModelPairs pairs,
                      EmbedPairs(*old_encoder, *new_encoder, images, augment, ViewsOf(recipe, trained_on.train), seed));
  const bool item = options.direction == AdapterDirection::kItem;
  options.from = item ? old.id : fresh.id;
  options.to = item ? fresh.id : old.id;
  const uint32_t old_crc32c = old.manifest.encoder_crc32c, new_crc32c = fresh.manifest.encoder_crc32c;
  options.from_crc32c = item ? old_crc32c : new_crc32c;
  options.to_crc32c = item ? new_crc32c : old_crc32c;
  const EmbeddingPairs given = {item ? pairs.old_z : pairs.new_z, item ? pairs.new_z : pairs.old_z, pairs.labels,
                                pairs.items};
  return FitAdapter(given, options, {}, stop);
}

}  // namespace lightcone
