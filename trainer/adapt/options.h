// Pairs and options of an adapter's fit (docs/internals/adapters.md). No torch here. Threads: values and pure
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

// Version of the fit. Raise it when the same pairs and options give another adapter, or a default changes: cached
// adapters are then old.
constexpr int AdaptFitVersion(AdapterKind kind) { return kind == AdapterKind::kKernel ? 4 : 3; }
// The loss "auto", with labels and without. The weight of `sup` keeps mixed galleries from dipping
// (docs/internals/adapters.md).
inline constexpr char kAutoLossLabelled[] = "reg+rel+0.3*sup";
inline constexpr char kAutoLossUnlabelled[] = "reg+rel";
inline constexpr int64_t kAdaptPairsMin = 64;     // 48 fitted and 16 held-out pairs
inline constexpr int64_t kAdaptItemsMin = 32;     // least number of items behind the pairs
inline constexpr int kAdaptDimensionMax = 4'096;  // limit of the matrices that the closed form decomposes

// Embeddings of the same items by two models, before the clip, row major. Row i of both is one item. "Source" is the
// adapter's input, "target" its output: old and new for an item adapter, new and old for a query adapter.
struct EmbeddingPairs {
  std::span<const float> source;    // source rows, n x source dimension
  std::span<const float> target;    // target rows, n x target dimension
  std::span<const int32_t> labels;  // classes, n, or empty; the loss `sup` needs them
  std::span<const int32_t> items;   // n, or empty: every row its own item. Rows of one item (augmented views) are
                                    // fitted or held out together
};

// A weighted sum of loss terms (docs/internals/adapters.md, Losses).
struct AdaptLoss {
  double reg = 0, rel = 0, sup = 0, contra = 0;
  bool needs_labels() const { return sup > 0; }
  bool needs_bank() const { return rel > 0 || sup > 0 || contra > 0; }
};

// Parses "reg", "rel", "sup", "contra", sums ("reg+rel") and weights ("reg+0.3*sup"); "auto" is one of kAutoLoss*.
// INVALID_ARGUMENT names field 'loss', the text and the terms.
absl::StatusOr<AdaptLoss> ParseAdaptLoss(std::string_view text, bool has_labels);

// Largest number of fitted pairs. The others, a share within 16 .. 4096, decide when to stop. Fewer pairs are fitted
// where pairs are views of one item, which are never divided.
int64_t FittedAtMost(int64_t pairs, double held_out);

// The maps that read the option "width", "rank", "loss" or "steps", such as "residual-mlp and kernel". Empty if `kind`
// is among them, and for other options.
std::string_view MapsThatRead(std::string_view option, AdapterKind kind);
// The same for the map "auto", which reads the loss and the steps.
std::string_view MapsThatRead(std::string_view option);

// INVALID_ARGUMENT names `field` if `kind` is a kernel with more centres than fitted pairs.
absl::Status CheckCentres(std::string_view field, AdapterKind kind, int64_t width, int64_t fitted);

// The usual width, to which a row's cost is proportional: 1,024 hidden units for items, 512 for queries, each of which
// waits for its own product, and 4,096 centres of `kernel`. 0 for maps without a width.
int WidthFor(AdapterKind kind, AdapterDirection direction);

// Whether an adapter may map from or to the space: valid, lorentz or cosine. INVALID_ARGUMENT names `field` and more.
absl::Status CheckAdapterSpace(const std::string& field, const Space& space);

struct AdaptOptions {
  AdapterDirection direction = AdapterDirection::kItem;
  AdapterKind kind = AdapterKind::kResidualMlp;
  bool choose = false;   // the map "auto": `kind` is not read. Every map is fitted, as far as time allows, and the one
                         // with the least held-out loss is taken; width is 0
  Space source, target;  // spaces of the two sides, lorentz or cosine
  std::string from, to;  // labels of the two generations, for the file
  uint32_t from_crc32c = 0, to_crc32c = 0;  // checksums of their encoder files, for the file; 0: unknown
  std::string loss = "auto";                // sum of loss terms; the closed forms procrustes and kernel have none
  int width = 0;  // hidden units of residual-mlp, centres of kernel; 0: WidthFor, for kernel at most the fitted pairs
  int rank = 32;  // rank of low-rank-affine, at most the smaller dimension
  int64_t pairs_max = 0;  // number of pairs drawn at random from those given; 0: all
  double held_out = 0.1;  // share of held-out pairs (16 to 4096), which decide when to stop
  int steps = 1500;
  int batch = 256;  // number of queries a step
  int bank = 1024;  // number of rows that each query is compared with, the batch included
  double learning_rate = 1e-2, weight_decay = 1e-2;  // settings of AdamW; the rate falls to 0 along a cosine
  double temperature = 0.1;                          // temperature of rel, sup and contra, in distances
  int evaluate_every = 50;                           // steps between measurements of the held-out loss
  int patience = 10;                                 // measurements without a better loss before fitting stops
  bool error_head = true;                            // whether to fit the regression of the adapter's own error
  uint64_t seed = 1;

  // INVALID_ARGUMENT naming the field, its value and the range.
  absl::Status Validate() const;
};

// "auto" sets options.choose, the name of a map its kind. INVALID_ARGUMENT names field 'map', the text and the names.
absl::Status ParseMap(std::string_view text, AdaptOptions& options);

// Whether `pairs` can be fitted under valid `options`: sizes, at least kAdaptPairsMin rows of kAdaptItemsMin items,
// finite numbers, vectors that their spaces allow, labels where the loss needs them. INVALID_ARGUMENT names field
// ("pairs.source[17][3]"), value and range.
absl::Status CheckPairs(const EmbeddingPairs& pairs, const AdaptOptions& options);

}  // namespace lightcone
