// Prototypes, credibility and boundaries of classes from old embeddings, and the losses on them, for the Euclidean
// baselines (docs/internals/training-baselines.md). Only .cc files of trainer/ and tests include this. Threads: pure
// functions.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace lightcone {

// Mean row of each class, not renormalised: features [n, d], labels int64 [n] -> [classes, d]. A class without rows
// gets zeros.
torch::Tensor ClassMeansOf(const torch::Tensor& features, const torch::Tensor& labels, int64_t classes);

// Logits [n, classes] without classes of the test set alone, which are rows of zeros in `means`.
torch::Tensor WithoutEmpty(const torch::Tensor& logits, const torch::Tensor& means);

// Per-sample cross entropy [n] of scale <unit(z_i), p_c> over the prototypes [classes, d].
torch::Tensor PrototypeLoss(const torch::Tensor& z, const torch::Tensor& prototypes, const torch::Tensor& labels,
                            double scale);

struct RefineOptions {
  double damping = 0.9;  // lambda of the walk, in [0, 1)
  double tau = 0.05;     // temperature of the edges, > 0
};

// UniBCT's structural prototype refinement. In each class, E is the softmax over each row of <n_i, n_j>/tau without the
// diagonal, and the prototype is the mean row of (1 - lambda)(I - lambda E)^-1 O. `fresh` [n, m] and `old` [n, d] are
// unit rows of the same images, without gradient. The first kRefineRowsMax rows of a class take part.
inline constexpr int64_t kRefineRowsMax = 4096;
torch::Tensor RefinedPrototypes(const torch::Tensor& fresh, const torch::Tensor& old, const torch::Tensor& labels,
                                int64_t classes, const RefineOptions& options);

// NCCL's soft contrast of n samples with a queue of q old ones: - mean_i sum_{a in P(i)} w_ia log softmax_a(s_ia) /
// |P(i)|, with P(i) the entries of the queue with the label of i. similarities [n, q] (divided by tau), weights [n, q],
// labels [n], queue_labels [q] int64. A sample with empty P(i) counts as 0; q = 0 gives 0.
torch::Tensor NeighbourLoss(const torch::Tensor& similarities, const torch::Tensor& weights,
                            const torch::Tensor& labels, const torch::Tensor& queue_labels);

// NCCL's credibility: true where the entropy of softmax_c(-|o_i - mean_c| / v) is at most share log(classes), v the
// variance of the rows' distances to the mean of their class. features [n, d] unit rows; share >= 1: all.
torch::Tensor CredibleRows(const torch::Tensor& features, const torch::Tensor& labels, int64_t classes, double share);

// AdvBCT's classes: the centre is the mean unit row. The radius is the largest distance to the centre that is no
// outlier by 1.5 interquartile ranges, and 0 for a class without rows.
struct ClassBalls {
  torch::Tensor centres;  // centres, [classes, d]
  torch::Tensor radii;    // radii, [classes]
};
ClassBalls ClassBallsOf(const torch::Tensor& features, const torch::Tensor& labels, int64_t classes);

// AdvBCT's point-to-set loss: mean of |unit(z_i) - c_y| - r~_y over the samples with a positive difference, else 0.
// r~_y = r_y + |r_y - 1| sigmoid(w_y), with a minus where r_y >= 1. `elastic` [classes] is w; undefined means r~ = r.
torch::Tensor PointToSetLoss(const torch::Tensor& z, const torch::Tensor& labels, const ClassBalls& balls,
                             const torch::Tensor& elastic);

// x itself; its gradient is multiplied by -alpha (Ganin and Lempitsky, ICML 2015).
torch::Tensor ReverseGradient(const torch::Tensor& x, double alpha);

}  // namespace lightcone
