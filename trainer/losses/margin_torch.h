// Losses of a linear classification head (docs/internals/training-methods.md, Base loss). In the dtype of their inputs;
// gradients are finite everywhere. Only .cc files of trainer/ and tests include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

namespace lightcone {

enum class HeadLoss { kSoftmax, kArcFace, kCosFace, kBce };

struct HeadLossOptions {
  HeadLoss loss = HeadLoss::kSoftmax;
  double scale = 64;    // s of ArcFace and CosFace, > 0
  double margin = 0.5;  // m of ArcFace (in [0, pi/2)) and CosFace
};

// Whether `loss` reads cosines, not logits.
inline bool IsAngular(HeadLoss loss) { return loss == HeadLoss::kArcFace || loss == HeadLoss::kCosFace; }

// Cosine of every row of `z` [n, d] with every row of `weight` [c, d], in [-1, 1]: [n, c].
torch::Tensor CosineScores(const torch::Tensor& z, const torch::Tensor& weight);

// Per-sample loss [n]. `scores` [n, c]: cosines (IsAngular) or logits; `labels` int64 [n], 0 .. c - 1.
// Softmax: cross entropy. BCE: every class against the rest, sum over the classes of softplus(l_c) - [c = y] l_y.
// ArcFace (Deng et al., CVPR 2019, eq. 3): cross entropy of s cos(theta_c + m [c = y]); beyond theta = pi - m, where
// that would rise again, s (cos theta - m sin m) (their code). CosFace (Wang et al., CVPR 2018, eq. 4): of
// s (cos theta_c - m [c = y]).
torch::Tensor HeadLossOf(const torch::Tensor& scores, const torch::Tensor& labels, const HeadLossOptions& options);

}  // namespace lightcone
