// Retrieval figures of pairs of an experiment's models, kept in files so that a second run embeds nothing. No torch
// here.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "models/encoders/encoder.h"
#include "nlohmann/json.hpp"
#include "research/experiment/cache.h"
#include "research/experiment/plan.h"
#include "trainer/evaluate.h"

namespace lightcone {

struct PairMeasure {
  RetrievalFigures figures;
  double tar = 0;  // TAR at Recipe::far over all pairs of the test set; 0 without a rate
  // How often a query of a class found an item of another one first: side x side shares of each row, neighbouring class
  // ids together where there are more than `side`.
  std::vector<double> confusion;
  // Of a model on its own gallery, Lorentz only: norms of the test items before the clip, and what they are clipped to.
  std::vector<double> norms;
  double curvature = 1, clip_radius = 1;
};

inline constexpr int kConfusionSideMax = 40;

// Raised when the same models give other figures than before: kept ones are old, and no model is trained anew for it.
inline constexpr int kMeasureVersion = 1;

// The key of kept figures, with the version of the measures. Figures that are older than the version have none in their
// key: they are of version 1.
nlohmann::ordered_json FigureKey(nlohmann::ordered_json key, int version);

// Of every test image, whether its class is among those of `trained_on` (by name).
std::vector<uint8_t> KnownItems(const Dataset& whole, const Dataset& trained_on);

// All models of one plan on the whole test set, as queries and as gallery. Threads: one at a time.
class Measurer {
 public:
  // `folder` is the experiments' own; plan, dataset and cache must outlive the measurer. `far`: Recipe::far.
  // `stop` (may be null) ends the fit of an adapter with CANCELLED.
  Measurer(std::string folder, const ExperimentPlan& plan, const Dataset& whole, const ModelCache& cache, double far,
           const std::atomic<bool>* stop = nullptr);

  // Queries of model `query` on items of model `gallery` (indices of plan.models, whose files must be there), by the
  // query model's metric and curvature, each side clipped by its own radius; a longer query vector is cut to the old
  // one's length (Manifest::compatible_prefix). Empty when dimension or metric differ and there is no adapter.
  // With `adapter`: fitted on the training images of the query's generation, or read when it was before.
  // DATA_LOSS names a damaged file; else errors of Encoder, FitAdapter and EvaluateRetrieval.
  absl::StatusOr<std::optional<PairMeasure>> Measure(int query, int gallery, const RecipeAdapter* adapter);

  struct Side {
    Manifest manifest;
    std::vector<float> z;  // embeddings of the test set before the clip
  };
  // Read and embedded when first asked for. Errors of Encoder.
  absl::StatusOr<const Manifest*> ManifestOf(int model);
  absl::StatusOr<Side> Embedded(int model);
  uint32_t test_crc32c() const { return test_crc32c_; }

 private:
  absl::StatusOr<std::string> AdapterFor(int query, int gallery, const RecipeAdapter& adapter);
  absl::StatusOr<std::optional<PairMeasure>> Compute(int query, int gallery, const std::string& adapter_path);
  const PlannedModel& model(int index) const { return plan_.models[static_cast<size_t>(index)]; }

  const std::string folder_;
  const ExperimentPlan& plan_;
  const Dataset& whole_;
  const ModelCache& cache_;
  const double far_;
  const std::atomic<bool>* const stop_;
  const uint32_t test_crc32c_;
  std::map<int, Manifest> manifests_;
  std::map<int, std::vector<float>> embeddings_;
};

// The nearest item of each query (its own left out), ties by index; vectors before the clip. INVALID_ARGUMENT for a
// vector that its space does not allow. Threads: safe.
absl::StatusOr<std::vector<int64_t>> NearestItems(const Space& query_space, const Space& item_space,
                                                  const std::vector<float>& queries, const std::vector<float>& items);

}  // namespace lightcone
