#include "trainer/evaluate.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/status.h"
#include "geometry/metrics.h"
#include "geometry/uncertainty.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kBlockRows = 256;  // queries whose distances are in memory at once
constexpr int64_t kNeighbours = 10;  // of EvaluateUncertainty
constexpr int64_t kOwnClassNeeded = 2;

absl::Status CheckSide(const char* field, const RetrievalSpace& space, const LabelledEmbeddings& side) {
  const size_t expected = side.labels.size() * static_cast<size_t>(space.dimension);
  if (side.labels.empty()) return InvalidField(field, "0 items", "at least 1 item");
  if (side.z.size() != expected) {
    return InvalidField(StrCat(field, ".z"), StrCat(side.z.size(), " numbers"),
                        StrCat(expected, " (", side.labels.size(), " labels x ", space.dimension, ")"));
  }
  for (size_t i = 0; i < side.z.size(); ++i) {
    if (!std::isfinite(side.z[i]))
      return InvalidField(StrCat(field, ".z[", i, "]"), StrCat(side.z[i]), "finite numbers");
  }
  if (!(side.clip_radius > 0)) return InvalidField(StrCat(field, ".clip_radius"), StrCat(side.clip_radius), "above 0");
  return absl::OkStatus();
}

absl::Status CheckArguments(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                            const LabelledEmbeddings& gallery, bool same_items) {
  if (space.dimension < 1) return InvalidField("space.dimension", StrCat(space.dimension), "1 .. 65536");
  if (!(space.curvature > 0)) return InvalidField("space.curvature", StrCat(space.curvature), "above 0");
  if (space.metric != "lorentz" && space.metric != "cosine" && space.metric != "euclidean" &&
      space.metric != "inner_product") {
    return InvalidField("space.metric", space.metric, "lorentz, cosine, euclidean or inner_product");
  }
  LC_RETURN_IF_ERROR(CheckSide("queries", space, queries));
  LC_RETURN_IF_ERROR(CheckSide("gallery", space, gallery));
  if (same_items && queries.labels.size() != gallery.labels.size()) {
    return InvalidField("queries", StrCat(queries.labels.size(), " items"),
                        StrCat(gallery.labels.size(), ", as the gallery: they are the same images"));
  }
  return absl::OkStatus();
}

// Rows whose inner products order as the metric's distances do: distance = offset_i + offset_j - 2 <x_i, y_j>, up to a
// monotone map. For lorentz the time coordinate is the last column, negated on one side.
struct Prepared {
  Tensor rows;     // [n, columns] float64
  Tensor offsets;  // [n] float64; zero but for euclidean
};

Prepared Prepare(const RetrievalSpace& space, const LabelledEmbeddings& side, bool negate_time) {
  const int64_t n = static_cast<int64_t>(side.labels.size());
  const Tensor z = torch::from_blob(const_cast<float*>(side.z.data()), {n, space.dimension}).to(torch::kFloat64);
  const Tensor norm = z.norm(2, 1, /*keepdim=*/true);
  if (space.metric == "lorentz") {
    const double k = std::sqrt(space.curvature);
    const Tensor radius = torch::clamp_max(norm, side.clip_radius) * k;
    const Tensor rows = z * (torch::sinh(radius) / (k * torch::clamp_min(norm, 1e-300)));
    const Tensor time = torch::cosh(radius) * ((negate_time ? -1.0 : 1.0) / k);
    return {torch::cat({rows, time}, 1), torch::zeros({n}, torch::kFloat64)};
  }
  if (space.metric == "cosine") return {z / torch::clamp_min(norm, 1e-300), torch::zeros({n}, torch::kFloat64)};
  if (space.metric == "euclidean") return {z, (z * z).sum(1)};
  return {z, torch::zeros({n}, torch::kFloat64)};
}

// Ordering values (smaller is nearer) of rows [begin, begin + n) of `a` to all of `b`.
Tensor OrderBlock(const Prepared& a, const Prepared& b, int64_t begin, int64_t n) {
  const Tensor inner = torch::matmul(a.rows.narrow(0, begin, n), b.rows.t());
  return (a.offsets.narrow(0, begin, n).unsqueeze(1) + b.offsets.unsqueeze(0) - 2.0 * inner).contiguous();
}

std::vector<int64_t> WideLabels(std::span<const int32_t> labels) { return {labels.begin(), labels.end()}; }

}  // namespace

absl::StatusOr<std::vector<float>> EmbedSplit(const Encoder& encoder, const ImageSet& images) {
  const ManifestInput& input = encoder.manifest().input;
  if (images.height == input.height && images.width == input.width && images.channels == input.channels) {
    return encoder.EmbedPixels(images.pixels, images.size());
  }
  std::vector<float> out;
  out.reserve(static_cast<size_t>(images.size()) * encoder.dimension());
  std::vector<Image> block;
  for (int64_t i = 0; i < images.size(); ++i) {
    const uint8_t* pixels = images.image(i);
    block.push_back({images.height, images.width, images.channels, {pixels, pixels + images.bytes_per_image()}});
    if (static_cast<int64_t>(block.size()) < kBlockRows && i + 1 < images.size()) continue;
    LC_ASSIGN_OR_RETURN(const std::vector<float> z, encoder.EmbedImages(block));
    out.insert(out.end(), z.begin(), z.end());
    block.clear();
  }
  return out;
}

absl::StatusOr<RetrievalFigures> EvaluateRetrieval(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                   const LabelledEmbeddings& gallery, bool same_items) {
  LC_RETURN_IF_ERROR(CheckArguments(space, queries, gallery, same_items));
  torch::NoGradGuard no_grad;
  const Prepared q = Prepare(space, queries, /*negate_time=*/false), g = Prepare(space, gallery, /*negate_time=*/true);
  const std::vector<int64_t> labels = WideLabels(gallery.labels);
  const int64_t count = static_cast<int64_t>(queries.labels.size()), columns = static_cast<int64_t>(labels.size());
  RankingAccumulator ranking({1, 5});
  for (int64_t begin = 0; begin < count; begin += kBlockRows) {
    const int64_t n = std::min(kBlockRows, count - begin);
    const Tensor block = OrderBlock(q, g, begin, n);
    for (int64_t i = 0; i < n; ++i) {
      const size_t row = static_cast<size_t>(begin + i);
      ranking.AddDistances(
          queries.labels[row],
          std::span<const double>(block.data_ptr<double>() + i * columns, static_cast<size_t>(columns)), labels,
          same_items ? std::optional<size_t>(row) : std::nullopt);
    }
  }
  const RankingMetrics metrics = ranking.Finish();
  return RetrievalFigures{metrics.cmc[0], metrics.cmc[1], metrics.map, metrics.valid_queries,
                          count - metrics.valid_queries};
}

absl::StatusOr<UncertaintyFigures> EvaluateUncertainty(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                       const LabelledEmbeddings& gallery, bool same_items) {
  if (space.metric != "lorentz") return InvalidField("space.metric", space.metric, "lorentz");
  LC_RETURN_IF_ERROR(CheckArguments(space, queries, gallery, same_items));
  torch::NoGradGuard no_grad;
  const Prepared q = Prepare(space, queries, false), g = Prepare(space, gallery, true);
  const int64_t items = static_cast<int64_t>(gallery.labels.size());
  const int64_t others = static_cast<int64_t>(queries.labels.size()) - (same_items ? 1 : 0);
  const int64_t neighbours = std::min(kNeighbours, others);
  if (neighbours < 1) return InvalidField("queries", "no other image", "at least 1 besides the item itself");

  const Space geometry{Metric::kLorentz, space.dimension, space.curvature, gallery.clip_radius};
  std::vector<uint8_t> wrong(static_cast<size_t>(items));
  std::vector<double> raw(wrong.size()), clipped(wrong.size());
  UncertaintyFigures figures;
  figures.items = items;
  for (int64_t begin = 0; begin < items; begin += kBlockRows) {
    const int64_t n = std::min(kBlockRows, items - begin);
    Tensor block = OrderBlock(g, q, begin, n);
    if (same_items) block.narrow(1, begin, n).fill_diagonal_(std::numeric_limits<double>::infinity());
    const Tensor nearest = std::get<1>(block.topk(neighbours, 1, /*largest=*/false)).contiguous();
    for (int64_t i = 0; i < n; ++i) {
      const size_t item = static_cast<size_t>(begin + i);
      const int64_t* ids = nearest.data_ptr<int64_t>() + i * neighbours;
      const int64_t own = std::count_if(ids, ids + neighbours, [&](int64_t id) {
        return queries.labels[static_cast<size_t>(id)] == gallery.labels[item];
      });
      wrong[item] = own < kOwnClassNeeded;
      figures.items_wrong += wrong[item];
      const std::span<const float> z = gallery.z.subspan(item * space.dimension, space.dimension);
      raw[item] = UncertaintyOf(geometry, z);
      clipped[item] = ClippedUncertaintyOf(geometry, z);
    }
  }
  figures.auroc_pre_clip = Auroc(raw, wrong).value_or(0.5);
  figures.auroc_clipped = Auroc(clipped, wrong).value_or(0.5);
  return figures;
}

}  // namespace lightcone
