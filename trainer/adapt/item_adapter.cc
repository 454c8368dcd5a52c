#include "trainer/adapt/item_adapter.h"

#include "base/rng.h"
#include "base/status.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/config.h"
#include "trainer/data/split.h"

namespace lightcone {
namespace {

constexpr int kSmallSteps = 500, kViews = 2;
constexpr int64_t kImagesMax = 200'000;  // limit of the pairs in memory; more pairs gain nothing
constexpr uint64_t kImagesStream = 0x17e3ada;

}  // namespace

absl::Status CheckItemAdapter(const Dataset& dataset) {
  if (dataset.train.size() >= kAdaptItemsMin) return absl::OkStatus();
  return InvalidField("dataset.train", StrCat(dataset.train.size(), " images"),
                      StrCat("at least ", kAdaptItemsMin, " to fit an adapter to"));
}

absl::StatusOr<AdapterFile> FitItemAdapter(const Encoder& old_model, const Encoder& new_model, const Dataset& dataset,
                                           AugmentKind augment, uint64_t seed, const std::atomic<bool>* stop) {
  LC_RETURN_IF_ERROR(CheckItemAdapter(dataset));
  AdaptOptions options;
  LC_ASSIGN_OR_RETURN(options.source, SpaceOf(old_model.manifest()));
  LC_ASSIGN_OR_RETURN(options.target, SpaceOf(new_model.manifest()));
  options.from = old_model.manifest().name;
  options.to = new_model.manifest().name;
  options.from_crc32c = old_model.manifest().encoder_crc32c;
  options.to_crc32c = new_model.manifest().encoder_crc32c;
  if (dataset.train.size() <= kSmallSetImages) options.steps = kSmallSteps;
  options.seed = seed;
  const ImageSet images = DrawImages(dataset.train, kImagesMax, MixSeed({seed, kImagesStream}));
  LC_ASSIGN_OR_RETURN(const ModelPairs pairs, EmbedPairs(old_model, new_model, images, augment,
                                                         dataset.train.size() <= kImagesMax ? kViews : 1, seed));
  return FitAdapter({pairs.old_z, pairs.new_z, pairs.labels, pairs.items}, options, {}, stop);
}

}  // namespace lightcone
