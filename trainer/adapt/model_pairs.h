// Pairs of embeddings from two trained models and a data set. No torch here.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "models/encoder.h"
#include "models/manifest.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// The same images through both models, before the clip; row i of all four belongs together.
struct ModelPairs {
  std::vector<float> old_z, new_z;     // n x dimension of the model
  std::vector<int32_t> labels, items;  // n; items: index of the image, which all its views share
};

inline constexpr int kViewsMax = 64;

// Views of each image that a fit gains from (docs/internals/adapters.md, A fit): the image alone where there are
// 10,000 or more, else so many that 64,000 pairs come together, but at most 32.
int ViewsFor(int64_t images);

// Each image plain and in views - 1 changed copies (AugmentImage, `kind`). The copies are drawn from `seed`, and both
// models see the same ones. INVALID_ARGUMENT when a model takes another number of channels; `views` outside 1 ..
// kViewsMax; errors of Encoder. Threads: safe.
absl::StatusOr<ModelPairs> EmbedPairs(const Encoder& old_model, const Encoder& new_model, const ImageSet& images,
                                      AugmentKind kind, int views, uint64_t seed);

// One changed copy of each image by one model, `view` from 1 as EmbedPairs draws them: n x dimension, before the clip.
// Errors as EmbedPairs. Threads: safe.
absl::StatusOr<std::vector<float>> EmbedView(const Encoder& model, const ImageSet& images, AugmentKind kind, int view,
                                             uint64_t seed);

// What a model's manifest says about its space. INVALID_ARGUMENT as Space::Validate.
absl::StatusOr<Space> SpaceOf(const Manifest& manifest);

}  // namespace lightcone
