// What an adapter is fitted from, and how (docs/internals/adapters.md). No torch here. Threads: values and pure
// functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "geometry/adapter.h"
#include "geometry/metric.h"

namespace lightcone {

// Raised when the same pairs and options give another adapter than before, or a default changes: cached ones are old.
constexpr int AdaptFitVersion(AdapterKind kind) { return kind == AdapterKind::kKernel ? 4 : 3; }
// What the loss "auto" stands for, with labels and without. The weight of `sup` is chosen so that a mixed gallery does
// not dip (docs/internals/adapters.md, Losses).
inline constexpr char kAutoLossLabelled[] = "reg+rel+0.3*sup";
inline constexpr char kAutoLossUnlabelled[] = "reg+rel";
inline constexpr int64_t kAdaptPairsMin = 64;     // 48 to fit, 16 to hold out
inline constexpr int64_t kAdaptItemsMin = 32;     // that the pairs are views of
inline constexpr int kAdaptDimensionMax = 4'096;  // of either side: the closed form decomposes a matrix of that size

// Embeddings of the same items by two models, before the clip, row major: row i of both belongs together. "Source" goes
// into the adapter, "target" is the space it comes out in: old and new for an item adapter, new and old for a query
// adapter.
struct EmbeddingPairs {
  std::span<const float> source;    // n x source dimension
  std::span<const float> target;    // n x target dimension
  std::span<const int32_t> labels;  // n, or empty: no labels (losses `sup` needs them)
  std::span<const int32_t> items;   // n, or empty: every row its own item. Rows of one item (augmented views) are
                                    // fitted or held out together
};

// A weighted sum of loss terms (docs/internals/adapters.md, Losses).
struct AdaptLoss {
  double reg = 0, rel = 0, sup = 0, contra = 0;
  bool needs_labels() const { return sup > 0; }
  bool needs_bank() const { return rel > 0 || sup > 0 || contra > 0; }
};

// "reg", "rel", "sup", "contra", sums of them ("reg+rel") and weights ("reg+0.3*sup"); "auto" is one of
// kAutoLoss*. INVALID_ARGUMENT names field 'loss', the text and the terms.
absl::StatusOr<AdaptLoss> ParseAdaptLoss(std::string_view text, bool has_labels);

// How many of so many pairs are fitted at most; the others, a share of them within 16 .. 4096, choose when to stop.
// Fewer where pairs are views of one item, which are never on both sides.
int64_t FittedAtMost(int64_t pairs, double held_out);

// "residual-mlp and kernel" for "width": the maps that read the option "width", "rank", "loss" or "steps"; empty if
// `kind` is among them, and for other options.
std::string_view MapsThatRead(std::string_view option, AdapterKind kind);

// INVALID_ARGUMENT if `kind` is a kernel of more centres than pairs are fitted; names `field`.
absl::Status CheckCentres(std::string_view field, AdapterKind kind, int64_t width, int64_t fitted);

// The usual width: 1,024 hidden units for items, 512 for queries (each of which waits for its own product), 4,096
// centres of `kernel`; 0 for maps without one. A row's cost is linear in it.
int WidthFor(AdapterKind kind, AdapterDirection direction);

struct AdaptOptions {
  AdapterDirection direction = AdapterDirection::kItem;
  AdapterKind kind = AdapterKind::kResidualMlp;
  Space source, target;                     // of the two sides of the pairs; lorentz or cosine each
  std::string from, to;                     // labels of the two generations, for the file
  uint32_t from_crc32c = 0, to_crc32c = 0;  // of their encoders' files, for the file; 0: not known
  std::string loss = "auto";                // procrustes and kernel are closed forms and have none
  int width = 0;  // hidden units of residual-mlp, centres of kernel; 0: WidthFor, for kernel at most the fitted pairs
  int rank = 32;  // of low-rank-affine; at most the smaller dimension
  int64_t pairs_max = 0;  // pairs drawn at random from those given; 0: all
  double held_out = 0.1;  // share of the pairs kept out, 16 to 4096 pairs: they choose when to stop
  int steps = 1500;
  int batch = 256;                                   // queries a step
  int bank = 1024;                                   // rows that each query is compared with, the batch among them
  double learning_rate = 1e-2, weight_decay = 1e-2;  // of AdamW; the rate falls to 0 along a cosine
  double temperature = 0.1;                          // of rel, sup and contra, in distances
  int evaluate_every = 50;                           // steps between looks at the held-out pairs
  int patience = 10;                                 // looks without a better one after which fitting stops
  bool error_head = true;                            // fit the regression of the adapter's own error
  uint64_t seed = 1;

  // INVALID_ARGUMENT naming the field, its value and the range.
  absl::Status Validate() const;
};

// Whether `pairs` can be fitted under `options` (already valid): sizes, at least kAdaptPairsMin rows of kAdaptItemsMin
// items, every number finite, vectors that their spaces allow, labels where the loss needs them. INVALID_ARGUMENT names
// field
// ("pairs.source[17][3]"), value and range.
absl::Status CheckPairs(const EmbeddingPairs& pairs, const AdaptOptions& options);

}  // namespace lightcone
