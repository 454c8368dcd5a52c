#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kCopiedRows = 65536;  // rows that are copied to float64 at once

// n times a decimal share, independent of the share's rounding: 0.9 x 10 is 9.
int64_t ShareUp(double share, int64_t n) {
  return static_cast<int64_t>(std::ceil(share * static_cast<double>(n) - 1e-9));
}
int64_t ShareDown(double share, int64_t n) {
  return static_cast<int64_t>(std::floor(share * static_cast<double>(n) + 1e-9));
}

Tensor ColumnNorms(const Tensor& features) {
  Tensor sum = torch::zeros({features.size(1)}, torch::kFloat64);
  for (int64_t begin = 0; begin < features.size(0); begin += kCopiedRows) {
    const int64_t rows = std::min(kCopiedRows, features.size(0) - begin);
    sum += UnitRows(features.narrow(0, begin, rows).to(torch::kFloat64)).square().sum(0);
  }
  return sum.sqrt();
}

}  // namespace

Tensor UnitRows(const Tensor& rows) {
  return rows / torch::sqrt(torch::clamp_min((rows * rows).sum(-1, /*keepdim=*/true), 1e-16));
}

Tensor DrawUniform(c10::IntArrayRef shape, double bound, Rng& rng) {
  Tensor values = torch::empty(shape, torch::kFloat32);
  float* numbers = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) numbers[i] = static_cast<float>(rng.Uniform(-bound, bound));
  return values;
}

void ForEachClass(const Tensor& labels, const std::function<void(int64_t, const Tensor&)>& visit) {
  const Tensor order = labels.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor counts = torch::bincount(labels);
  int64_t begin = 0;
  for (int64_t c = 0; c < counts.size(0); ++c) {
    const int64_t count = counts[c].item<int64_t>();
    if (count > 0) visit(c, order.narrow(0, begin, count));
    begin += count;
  }
}

DenoisedRows DenoiseRows(const Tensor& features, const Tensor& labels, double kept_share) {
  LC_DCHECK(kept_share > 0 && kept_share <= 1);
  torch::NoGradGuard no_grad;
  const Tensor all = features.cpu(), classes = labels.cpu();
  const int64_t n = all.size(0);
  DenoisedRows out{torch::zeros({n}, torch::kBool), torch::zeros({n}, torch::kFloat64), ColumnNorms(all)};
  const Tensor scale = torch::clamp_min(out.column_norms, 1e-12);
  ForEachClass(classes, [&](int64_t, const Tensor& rows) {
    const Tensor scaled = UnitRows(all.index_select(0, rows).to(torch::kFloat64)) / scale;
    const Tensor distance = (scaled - scaled.mean(0, /*keepdim=*/true)).norm(2, /*dim=*/1);
    const Tensor nearest = distance.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
    const int64_t kept = ShareUp(kept_share, rows.size(0));
    out.distance.index_copy_(0, rows, distance);
    out.keep.index_fill_(0, rows.index_select(0, nearest.narrow(0, 0, kept)), true);
  });
  return out;
}

std::vector<int64_t> DrawReplaced(const std::vector<bool>& keep, double share, Rng rng) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) positions.push_back(static_cast<int64_t>(i));
  }
  rng.Shuffle(&positions);
  const int64_t wanted = ShareDown(share, static_cast<int64_t>(keep.size()));
  if (std::cmp_less(wanted, positions.size())) positions.resize(static_cast<size_t>(wanted));
  std::sort(positions.begin(), positions.end());
  return positions;
}

Tensor MixRows(const Tensor& fresh, const Tensor& old, const std::vector<int64_t>& replaced) {
  if (replaced.empty()) return fresh;
  const Tensor rows = torch::tensor(replaced, torch::kInt64).to(fresh.device(), /*non_blocking=*/true);
  return fresh.index_copy(0, rows, UnitRows(old.detach()).index_select(0, rows));
}

}  // namespace lightcone
