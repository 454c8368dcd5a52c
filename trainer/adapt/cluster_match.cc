#include <algorithm>
#include <cmath>
#include <limits>

#include "base/dcheck.h"
#include "trainer/adapt/cluster_match_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int kMeansRounds = 12;
constexpr int kMatchRounds = 40;
constexpr int kRandomStarts = 6;
constexpr int kBalanceRounds = 20;  // rounds of Sinkhorn and Knopp's scaling to sums of one

Tensor StandardScores(const Tensor& similarities) {
  return (similarities - similarities.mean()) / similarities.std(/*unbiased=*/false).clamp_min(1e-12);
}

Tensor Balanced(Tensor weights) {
  for (int i = 0; i < kBalanceRounds; ++i) {
    weights = weights / weights.sum(1, /*keepdim=*/true);
    weights = weights / weights.sum(0, /*keepdim=*/true);
  }
  return weights;
}

Tensor AsMatrix(const std::vector<int64_t>& partner) {
  const int64_t n = std::ssize(partner);
  Tensor matrix = torch::zeros({n, n}, torch::kFloat64);
  for (int64_t i = 0; i < n; ++i) matrix[i][partner[static_cast<size_t>(i)]] = 1;
  return matrix;
}

double Trace(const Tensor& a, const Tensor& p, const Tensor& b, const Tensor& q) {
  return (torch::matmul(torch::matmul(a, p), b) * q).sum().item<double>();
}

// Frank and Wolfe's steps on tr(A P B P^T) over doubly stochastic P (FAQ, Vogelstein et al. 2015, section 3).
std::vector<int64_t> ClimbFrom(const Tensor& a, const Tensor& b, Tensor p) {
  for (int round = 0; round < kMatchRounds; ++round) {
    const Tensor step = AsMatrix(Assign(-torch::matmul(torch::matmul(a, p), b))) - p;
    const double square = Trace(a, step, b, step), slope = 2 * Trace(a, p, b, step);
    const double length = square >= 0 ? 1 : std::min(1.0, -slope / (2 * square));
    if (length <= 1e-6) break;
    p = p + length * step;
  }
  return Assign(-p);
}

// Where each cluster's own similarities, in order, look like those of its partner.
Tensor StartByProfiles(const Tensor& a, const Tensor& b) {
  const Tensor rows = std::get<0>(a.sort(1)), others = std::get<0>(b.sort(1));
  const Tensor likeness = -(rows.unsqueeze(1) - others.unsqueeze(0)).square().sum(2);
  const Tensor above = likeness - likeness.amax(1, /*keepdim=*/true);
  return Balanced(torch::exp(above / likeness.std(/*unbiased=*/false).clamp_min(1e-12)));
}

Tensor RandomStart(int64_t n, Rng* rng) {
  Tensor weights = torch::empty({n, n}, torch::kFloat64);
  double* const values = weights.data_ptr<double>();
  for (int64_t i = 0; i < n * n; ++i) values[i] = rng->Uniform() + 1e-6;
  return (Balanced(weights) + 1.0 / static_cast<double>(n)) / 2;
}

}  // namespace

Tensor ClusterDirections(const Tensor& rows, int64_t count, Rng* rng) {
  LC_DCHECK(rows.size(0) >= count);
  torch::NoGradGuard no_grad;
  std::vector<int64_t> order(static_cast<size_t>(rows.size(0)));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  rng->Shuffle(&order);
  order.resize(static_cast<size_t>(count));
  Tensor directions = rows.index_select(0, torch::tensor(order));
  for (int round = 0; round < kMeansRounds; ++round) {
    const Tensor nearest = torch::matmul(rows, directions.t()).argmax(1);
    const Tensor sums = torch::zeros_like(directions).index_add_(0, nearest, rows);
    // A cluster without rows keeps its place.
    directions = UnitRows(torch::where(sums.norm(2, 1, /*keepdim=*/true) > 0, sums, directions));
  }
  return directions;
}

std::vector<int64_t> Assign(const Tensor& cost) {
  const Tensor dense = cost.contiguous();
  const double* const c = dense.data_ptr<double>();
  const size_t n = static_cast<size_t>(dense.size(0));
  // Row 0 and column 0 stand for none.
  std::vector<double> of_row(n + 1, 0), of_column(n + 1, 0);
  std::vector<size_t> row_at(n + 1, 0), before(n + 1, 0);
  for (size_t row = 1; row <= n; ++row) {
    std::vector<double> least(n + 1, std::numeric_limits<double>::infinity());
    std::vector<bool> done(n + 1, false);
    size_t column = 0;
    row_at[0] = row;
    do {
      done[column] = true;
      const size_t from = row_at[column];
      double gap = std::numeric_limits<double>::infinity();
      size_t next = 0;
      for (size_t j = 1; j <= n; ++j) {
        if (done[j]) continue;
        const double reduced = c[(from - 1) * n + j - 1] - of_row[from] - of_column[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          before[j] = column;
        }
        if (least[j] < gap) {
          gap = least[j];
          next = j;
        }
      }
      for (size_t j = 0; j <= n; ++j) {
        if (done[j]) {
          of_row[row_at[j]] += gap;
          of_column[j] -= gap;
        } else {
          least[j] -= gap;
        }
      }
      column = next;
    } while (row_at[column] != 0);
    for (; column != 0; column = before[column]) row_at[column] = row_at[before[column]];
  }
  std::vector<int64_t> column_of(n);
  for (size_t j = 1; j <= n; ++j) column_of[row_at[j] - 1] = static_cast<int64_t>(j) - 1;
  return column_of;
}

ClusterMatch MatchClusters(const Tensor& a, const Tensor& b, Rng* rng) {
  LC_DCHECK(a.size(0) == b.size(0) && a.size(0) >= 3);
  torch::NoGradGuard no_grad;
  const int64_t n = a.size(0);
  const auto among = [](const Tensor& directions) {
    const Tensor rows = directions.to(torch::kFloat64);
    return StandardScores(torch::matmul(rows, rows.t()));
  };
  const Tensor of_a = among(a), of_b = among(b);
  ClusterMatch best;
  best.agreement = -std::numeric_limits<double>::infinity();
  for (int start = 0; start <= kRandomStarts; ++start) {
    std::vector<int64_t> partner =
        ClimbFrom(of_a, of_b, start == 0 ? StartByProfiles(of_a, of_b) : RandomStart(n, rng));
    const Tensor matched = AsMatrix(partner);
    const double agreement = Trace(of_a, matched, of_b, matched) / static_cast<double>(n * n);
    if (agreement > best.agreement) best = {std::move(partner), agreement};
  }
  return best;
}

}  // namespace lightcone
