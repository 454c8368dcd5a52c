#include <algorithm>
#include <limits>
#include <vector>

#include "trainer/losses/mix_torch.h"
#include "trainer/losses/pairwise_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// True where two rows have the same label, a row and itself too.
Tensor SameClass(const Tensor& labels) { return labels.unsqueeze(0) == labels.unsqueeze(1); }

Tensor Hardest(const Tensor& logits, int64_t count) {
  if (count == 0 || count >= logits.size(1)) return logits;
  return std::get<0>(logits.topk(count, /*dim=*/1, /*largest=*/true, /*sorted=*/false));
}

}  // namespace

Tensor L2NormLoss(const Tensor& fresh, const Tensor& old) {
  const Tensor difference = UnitRows(fresh) - UnitRows(old);
  // The floor is below what float32 tells from 0 in a difference of unit vectors.
  return torch::sqrt(torch::clamp_min((difference * difference).sum(1), 1e-16)).mean();
}

Tensor L2MseLoss(const Tensor& fresh, const Tensor& old) {
  const Tensor difference = UnitRows(fresh) - UnitRows(old);
  return (difference * difference).mean();
}

Tensor ContraLoss(const Tensor& fresh, const Tensor& old, const Tensor& labels, const ContraOptions& options) {
  const Tensor n = UnitRows(fresh) * (1.0 / options.tau), o = UnitRows(old), same = SameClass(labels);
  const Tensor to_old = torch::matmul(n, o.t());
  const Tensor positive = to_old.diagonal();
  std::vector<Tensor> columns = {positive.unsqueeze(1),
                                 Hardest(to_old.masked_fill(same, kMinusInfinity), options.negatives)};
  if (options.new_to_new) {
    const Tensor to_new = torch::matmul(n, UnitRows(fresh).t());
    columns.push_back(Hardest(to_new.masked_fill(same, kMinusInfinity), options.negatives));
  }
  return torch::logsumexp(torch::cat(columns, 1), 1) - positive;
}

Tensor HocLoss(const Tensor& fresh, const Tensor& old, const Tensor& labels, double mu, bool zeroed) {
  const Tensor logits = torch::matmul(UnitRows(old), UnitRows(fresh).t()) * mu, same = SameClass(labels);
  const Tensor positive = logits.diagonal();
  if (zeroed) return torch::logsumexp(logits.masked_fill(same, 0.0), 1) - positive;
  // A row of -inf alone would have NaN as its gradient.
  const Tensor alone = same.all(1);
  const Tensor removed = torch::logical_and(same, torch::logical_not(alone).unsqueeze(1));
  const Tensor sum = torch::logsumexp(logits.masked_fill(removed, kMinusInfinity), 1);
  return torch::where(alone, torch::zeros_like(sum), sum) - positive;
}

}  // namespace lightcone
