#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "trainer/distance_blocks_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kBlockRowsMax = 256, kBlockNumbersMax = int64_t{1} << 23;

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

}  // namespace

absl::Status CheckComparison(const RetrievalSpace& space, const LabelledEmbeddings& first,
                             const LabelledEmbeddings& second, bool same_items, const SideNames& names) {
  if (space.dimension < 1) return InvalidField("space.dimension", StrCat(space.dimension), "1 .. 65536");
  if (!(space.curvature > 0)) return InvalidField("space.curvature", StrCat(space.curvature), "above 0");
  if (space.metric != "lorentz" && space.metric != "cosine" && space.metric != "euclidean" &&
      space.metric != "inner_product") {
    return InvalidField("space.metric", space.metric, "lorentz, cosine, euclidean or inner_product");
  }
  LC_RETURN_IF_ERROR(CheckSide(names.first, space, first));
  LC_RETURN_IF_ERROR(CheckSide(names.second, space, second));
  if (same_items && first.labels.size() != second.labels.size()) {
    return InvalidField(names.first, StrCat(first.labels.size(), " items"),
                        StrCat(second.labels.size(), ", as the ", names.second, ": they are the same images"));
  }
  return absl::OkStatus();
}

PreparedSide PrepareSide(const RetrievalSpace& space, const LabelledEmbeddings& side, bool negate_time) {
  const int64_t n = static_cast<int64_t>(side.labels.size());
  const Tensor z = torch::from_blob(const_cast<float*>(side.z.data()), {n, space.dimension}).to(torch::kFloat64);
  const Tensor norm = z.norm(2, 1, /*keepdim=*/true);
  if (space.metric == "lorentz") {
    const double k = std::sqrt(space.curvature);
    const Tensor radius = torch::clamp_max(norm, side.clip_radius) * k;
    const Tensor rows = z * (torch::sinh(radius) / (k * torch::clamp_min(norm, 1e-300)));
    const Tensor time = torch::cosh(radius) * ((negate_time ? -1.0 : 1.0) / k);
    return {torch::cat({rows, time}, 1), {}};
  }
  if (space.metric == "cosine") return {z / torch::clamp_min(norm, 1e-300), {}};
  if (space.metric == "euclidean") return {z, (z * z).sum(1)};
  return {z, {}};
}

int64_t BlockRows(int64_t columns) {
  return std::clamp<int64_t>(kBlockNumbersMax / std::max<int64_t>(1, columns), 1, kBlockRowsMax);
}

Tensor OrderBlock(const PreparedSide& a, const PreparedSide& b, int64_t begin, int64_t n) {
  Tensor order = torch::matmul(a.rows.narrow(0, begin, n), b.rows.t()).mul_(-2.0);
  if (a.offsets.defined()) order.add_(a.offsets.narrow(0, begin, n).unsqueeze(1)).add_(b.offsets.unsqueeze(0));
  return order.contiguous();
}

Tensor OrderPairs(const PreparedSide& a, const PreparedSide& b, const Tensor& a_rows, const Tensor& b_rows) {
  Tensor order = (a.rows.index_select(0, a_rows) * b.rows.index_select(0, b_rows)).sum(1).mul_(-2.0);
  if (a.offsets.defined()) order.add_(a.offsets.index_select(0, a_rows)).add_(b.offsets.index_select(0, b_rows));
  return order;
}

Tensor DistancesOf(const RetrievalSpace& space, const Tensor& order) {
  if (space.metric == "lorentz") {
    return torch::acosh(torch::clamp_min(order * (0.5 * space.curvature), 1.0)) / std::sqrt(space.curvature);
  }
  if (space.metric == "cosine") return 1.0 + 0.5 * order;
  if (space.metric == "euclidean") return torch::sqrt(torch::clamp_min(order, 0.0));
  return 0.5 * order;
}

}  // namespace lightcone
