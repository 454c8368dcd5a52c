// Evaluation of encoders by retrieval (docs/reference/evaluation.md), without a server. Threads: all functions are
// safe. No torch here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/encoder.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Embeds every image of `images` (resized when the encoder takes another size): n x d, row major, before the clip.
absl::StatusOr<std::vector<float>> EmbedSplit(const Encoder& encoder, const ImageSet& images);

// The first `length` numbers of each row of `dimension`: what a longer vector compares with older ones by
// (Manifest::compatible_prefix). REQUIRES: 1 <= length <= dimension, whole rows.
std::vector<float> FirstNumbers(std::span<const float> rows, int dimension, int length);

// One side of a comparison: n embeddings with their labels.
struct LabelledEmbeddings {
  std::span<const float> z;         // n x dimension, row major, before the clip
  std::span<const int32_t> labels;  // n
  double clip_radius = 1.0;         // zeta of the model that embedded them; lorentz only
};

struct RetrievalSpace {
  std::string metric = "lorentz";  // lorentz: geodesic; cosine, euclidean, inner_product
  double curvature = 1.0;
  int dimension = 0;
};

struct RetrievalFigures {
  double cmc1 = 0, cmc5 = 0, map = 0;
  int64_t queries = 0;          // that count
  int64_t queries_skipped = 0;  // with no other item of their class in the gallery
};

// CMC@1, CMC@5 and mAP of `queries` against `gallery`; equal distances are ordered by index. `same_items`: row i of
// both is the same image, and a query's own image is left out of its ranking. INVALID_ARGUMENT: sizes that do not fit,
// a value that is not finite, nothing to search in.
absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, bool same_items);

// What is left out of a query's ranking.
struct RankingRules {
  bool same_items = false;  // row i of both sides is the same image: a query's own
  // One an image of each side, or both empty: gallery items of the query's class and camera (Market-1501).
  std::span<const int32_t> query_cameras = {}, gallery_cameras = {};
};
absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, const RankingRules& rules);

// A model's embeddings of the whole test set, in its order.
struct TestEmbeddings {
  std::span<const float> z;  // n x dimension, row major, before the clip
  double clip_radius = 1.0;
};

// EvaluateRetrieval by the data set's protocol: its queries, gallery and cameras where it has one, else each test image
// against all others. Errors as above.
absl::StatusOr<RetrievalFigures> EvaluateTestSet(const RetrievalSpace& space, const Dataset& dataset,
                                                 const TestEmbeddings& queries, const TestEmbeddings& gallery);

struct UncertaintyFigures {
  double auroc_pre_clip = 0.5;  // of 1 - tanh(k |z|), z before the clip
  double auroc_clipped = 0.5;   // of the same after the clip
  int64_t items = 0, items_wrong = 0;
};

// An item with fewer queries of its class among its 10 nearest is retrieved wrongly.
inline constexpr int kOwnClassNeeded = 2;

// Of every gallery item's 10 nearest queries (or as many as there are; its own image left out), how many are of its
// class. Errors as EvaluateRetrieval; also for a single image that is its own only query.
absl::StatusOr<std::vector<int>> OwnAmongNearest(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                 const LabelledEmbeddings& gallery, bool same_items);

// How well the uncertainty of a gallery item tells that "the new model retrieves this gallery item wrongly": of the
// item's 10 nearest queries (all of one newer model; its own image left out), fewer than kOwnClassNeeded are of its
// class.
// AUROC 0.5 is chance, and also the answer when all items, or none, are wrong. `same_items` and errors as above.
// Lorentz only.
absl::StatusOr<UncertaintyFigures> EvaluateUncertainty(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                       const LabelledEmbeddings& gallery, bool same_items);

}  // namespace lightcone
