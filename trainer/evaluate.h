// Evaluation of encoders by retrieval (docs/reference/evaluation.md), without a server. Threads: all functions are
// safe. No torch here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/encoders/encoder.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Embeddings of all images before the clip, n x d, row major. Images of another size are resized for the encoder.
absl::StatusOr<std::vector<float>> EmbedSplit(const Encoder& encoder, const ImageSet& images);

// The first `length` numbers of each row of `dimension`: the part of a longer vector that compares with older ones
// (Manifest::compatible_prefix). REQUIRES: 1 <= length <= dimension, whole rows.
std::vector<float> FirstNumbers(std::span<const float> rows, int dimension, int length);

// One side of a comparison: n embeddings with their labels.
struct LabelledEmbeddings {
  std::span<const float> z;         // embeddings before the clip, n x dimension, row major
  std::span<const int32_t> labels;  // class of each item, n
  double clip_radius = 1.0;         // zeta of the embedding model; lorentz only
};

struct RetrievalSpace {
  std::string metric = "lorentz";  // lorentz (geodesic), cosine, euclidean or inner_product
  double curvature = 1.0;
  int dimension = 0;
};

// Some rows of a side, copied.
struct OwnedEmbeddings {
  std::vector<float> z;
  std::vector<int32_t> labels;
  double clip_radius = 1.0;

  LabelledEmbeddings View() const { return {z, labels, clip_radius}; }
};
OwnedEmbeddings SelectRows(const RetrievalSpace& space, const LabelledEmbeddings& side,
                           const std::vector<int64_t>& rows);

struct RetrievalFigures {
  double cmc1 = 0, cmc5 = 0, map = 0;
  int64_t queries = 0;          // number of ranked queries
  int64_t queries_skipped = 0;  // number of queries without another item of their class
};

// CMC@1, CMC@5 and mAP of `queries` against `gallery`; equal distances are ordered by index. With `same_items` row i of
// both is one image, and a query's ranking leaves its own image out. INVALID_ARGUMENT: sizes that do not fit, a value
// that is not finite, an empty gallery.
absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, bool same_items);

// Items that a query's ranking leaves out.
struct RankingRules {
  bool same_items = false;  // whether row i of both sides is the same image, a query's own
  // Cameras of each side's images, or both empty. Gallery items of the query's class and camera are left out
  // (Market-1501).
  std::span<const int32_t> query_cameras = {}, gallery_cameras = {};
};
absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, const RankingRules& rules);

// A model's embeddings of the whole test set, in its order.
struct TestEmbeddings {
  std::span<const float> z;  // embeddings before the clip, n x dimension, row major
  double clip_radius = 1.0;
};

// EvaluateRetrieval by the data set's protocol. Without a protocol, each test image against all others. Errors as
// above.
absl::StatusOr<RetrievalFigures> EvaluateTestSet(const RetrievalSpace& space, const Dataset& dataset,
                                                 const TestEmbeddings& queries, const TestEmbeddings& gallery);

struct UncertaintyFigures {
  double auroc_pre_clip = 0.5;  // AUROC of 1 - tanh(k |z|), z before the clip
  double auroc_clipped = 0.5;   // AUROC of 1 - tanh(k |z|), z after the clip
  int64_t items = 0, items_wrong = 0;
};

// Least number of queries of its class among an item's 10 nearest; with fewer the item is retrieved wrongly.
inline constexpr int kOwnClassNeeded = 2;

// Number of queries of the item's class among its 10 nearest, for every gallery item. Its own image is left out. Errors
// as EvaluateRetrieval; also for a single image that is its own only query.
absl::StatusOr<std::vector<int>> OwnAmongNearest(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                 const LabelledEmbeddings& gallery, bool same_items);

// AUROC of a gallery item's uncertainty for "a newer model retrieves this item wrongly" (kOwnClassNeeded). 0.5 is
// chance, and the answer when all items, or none, are wrong. `same_items` and errors as above. Lorentz only.
absl::StatusOr<UncertaintyFigures> EvaluateUncertainty(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                       const LabelledEmbeddings& gallery, bool same_items);

}  // namespace lightcone
