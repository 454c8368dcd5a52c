#include "trainer/experiment/row_adapter.h"

#include <memory>

#include "base/status.h"
#include "models/encoder.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/data/rng.h"
#include "trainer/data/split.h"

namespace lightcone {
namespace {

constexpr uint64_t kPairsStream = 0xada97;

absl::StatusOr<AdaptOptions> OptionsOf(const RecipeAdapter& recipe, const TrainedModel& old, const TrainedModel& fresh,
                                       uint64_t seed) {
  AdaptOptions options;
  LC_ASSIGN_OR_RETURN(options.direction, ParseAdapterDirection(recipe.direction));
  LC_ASSIGN_OR_RETURN(options.kind, ParseAdapterKind(recipe.map));
  const bool item = options.direction == AdapterDirection::kItem;
  const TrainedModel& from = item ? old : fresh;
  const TrainedModel& to = item ? fresh : old;
  LC_ASSIGN_OR_RETURN(options.source, SpaceOf(from.manifest));
  LC_ASSIGN_OR_RETURN(options.target, SpaceOf(to.manifest));
  options.from = from.id;
  options.to = to.id;
  options.loss = recipe.loss;
  options.width = static_cast<int>(recipe.width);
  options.rank = static_cast<int>(recipe.rank);
  options.steps = static_cast<int>(recipe.steps);
  options.seed = seed;
  return options;
}

absl::StatusOr<ImageSet> ImagesOf(const RecipeAdapter& recipe, const ImageSet& all, uint64_t seed) {
  if (recipe.pairs == 0 || recipe.pairs == all.size()) return all;
  if (recipe.pairs > all.size()) {
    return InvalidField("adapter.pairs", StrCat(recipe.pairs), StrCat("0 .. ", all.size(), ", the training images"));
  }
  return DrawImages(all, recipe.pairs, MixSeed({seed, kPairsStream}));
}

}  // namespace

int ViewsOf(const RecipeAdapter& recipe, const ImageSet& train) {
  if (recipe.views > 0) return static_cast<int>(recipe.views);
  return ViewsFor(recipe.pairs > 0 ? recipe.pairs : train.size());
}

absl::StatusOr<AdapterFile> FitRowAdapter(const RecipeAdapter& recipe, const TrainedModel& old,
                                          const TrainedModel& fresh, const Dataset& trained_on, uint64_t seed) {
  LC_ASSIGN_OR_RETURN(const AdaptOptions options, OptionsOf(recipe, old, fresh, seed));
  LC_ASSIGN_OR_RETURN(const ImageSet images, ImagesOf(recipe, trained_on.train, seed));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> old_encoder,
                      Encoder::LoadFolder(old.folder, {.device = old.device}));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> new_encoder,
                      Encoder::LoadFolder(fresh.folder, {.device = fresh.device}));
  LC_ASSIGN_OR_RETURN(const ModelPairs pairs, EmbedPairs(*old_encoder, *new_encoder, images, trained_on.augment,
                                                         ViewsOf(recipe, trained_on.train), seed));
  const bool item = options.direction == AdapterDirection::kItem;
  const EmbeddingPairs given = {item ? pairs.old_z : pairs.new_z, item ? pairs.new_z : pairs.old_z, pairs.labels,
                                pairs.items};
  return FitAdapter(given, options);
}

}  // namespace lightcone
