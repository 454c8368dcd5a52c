// Pairs of embeddings from two trained models and a data set. No torch here.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/encoders/encoder.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// The same images through both models, before the clip. Row i of all four vectors belongs to one view.
struct ModelPairs {
  std::vector<float> old_z, new_z;     // embeddings, n x dimension of the model
  std::vector<int32_t> labels, items;  // class and image index of each pair, n; views share the index
};

inline constexpr int kViewsMax = 64;

// Number of views of each image for a fit (docs/internals/adapters.md): 1 for 10,000 images or more, else enough for
// 64,000 pairs, at most 32.
int ViewsFor(int64_t images);

// Each image plain and in views - 1 changed copies (AugmentImage, `kind`), which are drawn from `seed` and the same for
// both models. INVALID_ARGUMENT for a model of another number of channels and for `views` outside 1 .. kViewsMax;
// errors of Encoder. Threads: safe.
absl::StatusOr<ModelPairs> EmbedPairs(const Encoder& old_model, const Encoder& new_model, const ImageSet& images,
                                      AugmentKind kind, int views, uint64_t seed);

// One changed copy of each image by one model, `view` from 1 as EmbedPairs draws them: n x dimension, before the clip.
// Errors as EmbedPairs. Threads: safe.
absl::StatusOr<std::vector<float>> EmbedView(const Encoder& model, const ImageSet& images, AugmentKind kind, int view,
                                             uint64_t seed);

}  // namespace lightcone
