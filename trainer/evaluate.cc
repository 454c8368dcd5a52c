#include "trainer/evaluate.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/uncertainty.h"
#include "stats/metrics.h"
#include "trainer/data/parallel.h"
#include "trainer/distance_blocks_torch.h"
#include "trainer/uncertainty/neighbours.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kEmbedImages = 256;  // images whose pixels are copied at once
constexpr int64_t kNeighbours = 10;    // neighbours that OwnAmongNearest counts

std::vector<int64_t> WideLabels(std::span<const int32_t> labels) { return {labels.begin(), labels.end()}; }

}  // namespace

std::vector<float> FirstNumbers(std::span<const float> rows, int dimension, int length) {
  LC_DCHECK(1 <= length && length <= dimension && rows.size() % static_cast<size_t>(dimension) == 0);
  const size_t d = static_cast<size_t>(dimension), n = static_cast<size_t>(length);
  std::vector<float> out;
  out.reserve(rows.size() / d * n);
  for (size_t i = 0; i + d <= rows.size(); i += d) {
    const auto row = rows.subspan(i, n);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

OwnedEmbeddings SelectRows(const RetrievalSpace& space, const LabelledEmbeddings& side,
                           const std::vector<int64_t>& rows) {
  const size_t d = static_cast<size_t>(space.dimension);
  OwnedEmbeddings out{{}, {}, side.clip_radius};
  for (const int64_t row : rows) {
    const std::span<const float> z = side.z.subspan(static_cast<size_t>(row) * d, d);
    out.z.insert(out.z.end(), z.begin(), z.end());
    out.labels.push_back(side.labels[static_cast<size_t>(row)]);
  }
  return out;
}

absl::StatusOr<std::vector<float>> EmbedSplit(const Encoder& encoder, const ImageSet& images) {
  const ManifestInput& input = encoder.manifest().input;
  const bool fits = images.height == input.height && images.width == input.width && images.channels == input.channels;
  if (fits && images.in_memory()) return encoder.EmbedPixels(images.pixels, images.size());
  std::vector<float> out;
  out.reserve(static_cast<size_t>(images.size()) * encoder.dimension());
  for (int64_t begin = 0; begin < images.size(); begin += kEmbedImages) {
    const int64_t n = std::min(kEmbedImages, images.size() - begin);
    std::vector<Image> block(static_cast<size_t>(n), Image{images.height, images.width, images.channels, {}});
    std::vector<absl::Status> read(block.size());
    ParallelFor(n, [&](int64_t i) {  // the loop decodes files
      block[i].pixels.resize(static_cast<size_t>(images.bytes_per_image()));
      read[i] = images.Read(begin + i, block[i].pixels.data());
    });
    for (const absl::Status& status : read) LC_RETURN_IF_ERROR(status);
    LC_ASSIGN_OR_RETURN(const std::vector<float> z, encoder.EmbedImages(block));
    out.insert(out.end(), z.begin(), z.end());
  }
  return out;
}

namespace {

// Ranks of the relevant items of one query by `rules`; a row is copied only where cameras leave items out.
std::vector<size_t> RanksOf(const LabelledEmbeddings& queries, size_t row, std::span<const double> distances,
                            const std::vector<int64_t>& labels, const RankingRules& rules) {
  const int64_t label = queries.labels[row];
  if (rules.query_cameras.empty()) {
    return RelevantRanks(label, distances, labels, rules.same_items ? std::optional<size_t>(row) : std::nullopt);
  }
  std::vector<double> kept_distances;
  std::vector<int64_t> kept_labels;
  for (size_t i = 0; i < labels.size(); ++i) {
    const bool own_view = labels[i] == label && rules.gallery_cameras[i] == rules.query_cameras[row];
    if (own_view || (rules.same_items && i == row)) continue;
    kept_distances.push_back(distances[i]);
    kept_labels.push_back(labels[i]);
  }
  return RelevantRanks(label, kept_distances, kept_labels, std::nullopt);
}

absl::Status CheckCameras(const LabelledEmbeddings& queries, const LabelledEmbeddings& gallery,
                          const RankingRules& rules) {
  if (rules.query_cameras.empty() && rules.gallery_cameras.empty()) return absl::OkStatus();
  for (const auto& [side, cameras, field] : {std::tuple(&queries, rules.query_cameras, "query_cameras"),
                                             std::tuple(&gallery, rules.gallery_cameras, "gallery_cameras")}) {
    if (cameras.size() == side->labels.size()) continue;
    return InvalidField(field, StrCat(cameras.size(), " numbers"), StrCat(side->labels.size(), ", one an image"));
  }
  return absl::OkStatus();
}

// The cameras of the rows; none for a protocol without cameras.
std::vector<int32_t> CamerasOf(const TestProtocol& protocol, const std::vector<int64_t>& rows) {
  std::vector<int32_t> cameras;
  if (protocol.cameras.empty()) return cameras;
  for (const int64_t row : rows) cameras.push_back(protocol.cameras[static_cast<size_t>(row)]);
  return cameras;
}

}  // namespace

absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, const RankingRules& rules) {
  LC_RETURN_IF_ERROR(CheckComparison(space, queries, gallery, rules.same_items));
  LC_RETURN_IF_ERROR(CheckCameras(queries, gallery, rules));
  torch::NoGradGuard no_grad;
  const PreparedSide q = PrepareSide(space, queries, /*negate_time=*/false);
  const PreparedSide g = PrepareSide(space, gallery, /*negate_time=*/true);
  const std::vector<int64_t> labels = WideLabels(gallery.labels);
  const int64_t count = static_cast<int64_t>(queries.labels.size()), columns = static_cast<int64_t>(labels.size());
  RankingAccumulator ranking({1, 5});
  for (int64_t begin = 0; begin < count; begin += BlockRows(columns)) {
    const int64_t n = std::min(BlockRows(columns), count - begin);
    const Tensor block = OrderBlock(q, g, begin, n);
    const double* distances = block.data_ptr<double>();
    std::vector<QueryRanking> ranked(static_cast<size_t>(n));
    ParallelFor(n, [&](int64_t i) {
      const std::span<const double> row(distances + i * columns, static_cast<size_t>(columns));
      ranked[i] = SummariseRanks(RanksOf(queries, static_cast<size_t>(begin + i), row, labels, rules));
    });
    for (const QueryRanking& query : ranked) ranking.Add(query);
  }
  const RankingMetrics metrics = ranking.Finish();
  return RetrievalFigures{metrics.cmc[0], metrics.cmc[1], metrics.map, metrics.valid_queries,
                          count - metrics.valid_queries};
}

absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, bool same_items) {
  RankingRules rules;
  rules.same_items = same_items;
  return EvaluateRetrieval(space, queries, gallery, rules);
}

absl::StatusOr<RetrievalFigures> EvaluateTestSet(const RetrievalSpace& space, const Dataset& dataset,
                                                 const TestEmbeddings& queries, const TestEmbeddings& gallery) {
  const LabelledEmbeddings all_queries{queries.z, dataset.test.labels, queries.clip_radius};
  const LabelledEmbeddings all_gallery{gallery.z, dataset.test.labels, gallery.clip_radius};
  RankingRules rules;
  rules.same_items = true;
  if (!dataset.protocol.has_value()) return EvaluateRetrieval(space, all_queries, all_gallery, rules);
  LC_RETURN_IF_ERROR(CheckComparison(space, all_queries, all_gallery, /*same_items=*/true));
  const TestProtocol& protocol = *dataset.protocol;
  const std::vector<int32_t> query_cameras = CamerasOf(protocol, protocol.queries);
  const std::vector<int32_t> gallery_cameras = CamerasOf(protocol, protocol.gallery);
  rules = {false, query_cameras, gallery_cameras};
  return EvaluateRetrieval(space, SelectRows(space, all_queries, protocol.queries).View(),
                           SelectRows(space, all_gallery, protocol.gallery).View(), rules);
}

absl::StatusOr<std::vector<int>> OwnAmongNearest(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                 const LabelledEmbeddings& gallery, bool same_items) {
  LC_ASSIGN_OR_RETURN(const NeighbourLists nearest,
                      NearestNeighbours(space, {"gallery", gallery}, {"queries", queries}, same_items, kNeighbours));
  std::vector<int> own(gallery.labels.size());
  for (size_t item = 0; item < own.size(); ++item) {
    const std::span<const int32_t> ids = nearest.IdsOf(item);
    own[item] = static_cast<int>(std::count_if(ids.begin(), ids.end(), [&](int32_t id) {
      return queries.labels[static_cast<size_t>(id)] == gallery.labels[item];
    }));
  }
  return own;
}

absl::StatusOr<UncertaintyFigures> EvaluateUncertainty(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                       const LabelledEmbeddings& gallery, bool same_items) {
  if (space.metric != "lorentz") return InvalidField("space.metric", space.metric, "lorentz");
  LC_ASSIGN_OR_RETURN(const std::vector<int> own, OwnAmongNearest(space, queries, gallery, same_items));
  const Space geometry{Metric::kLorentz, space.dimension, space.curvature, gallery.clip_radius};
  std::vector<uint8_t> wrong(own.size());
  std::vector<double> raw(own.size()), clipped(own.size());
  UncertaintyFigures figures;
  figures.items = static_cast<int64_t>(own.size());
  for (size_t item = 0; item < own.size(); ++item) {
    wrong[item] = own[item] < kOwnClassNeeded;
    figures.items_wrong += wrong[item];
    const std::span<const float> z = gallery.z.subspan(item * space.dimension, space.dimension);
    raw[item] = UncertaintyOf(geometry, z);
    clipped[item] = ClippedUncertaintyOf(geometry, z);
  }
  figures.auroc_pre_clip = Auroc(raw, wrong).value_or(0.5);
  figures.auroc_clipped = Auroc(clipped, wrong).value_or(0.5);
  return figures;
}

}  // namespace lightcone
