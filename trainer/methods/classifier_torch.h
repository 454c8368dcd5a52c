// The classification head that every method trains with (docs/internals/training-methods.md, Base loss): Lorentz MLR,
// or a linear layer for the other metrics. Only .cc files of trainer/ and their tests include this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "trainer/config.h"
#include "trainer/losses/lorentz_torch.h"
#include "trainer/losses/margin_torch.h"

namespace lightcone {

// A batch of embeddings in the forms that losses need.
struct Embedded {
  torch::Tensor z;        // embeddings before the clip, [n, d]
  torch::Tensor clipped;  // embeddings after the clip of lorentz, else z
  LorentzPoints points;   // exp_0(clipped); lorentz only
  // sqrt(K), a scalar; undefined for a fixed K. With a learnt K, `points` is k exp_0(clipped) on the hyperboloid of
  // curvature -1, where a distance D stands for D/k.
  torch::Tensor k;
};

// Clips and lifts (lorentz), or passes z on.
Embedded EmbedPoints(const torch::Tensor& z, bool lorentz, double curvature, double clip_radius);

// Options of a head other than Lorentz MLR or softmax with a fixed K.
struct HeadOptions {
  HeadLossOptions loss;  // loss of the head; lorentz: kSoftmax or kBce
  bool learn_curvature = false;
};
// The options of `config`, with `auto` and the papers' margins filled in. REQUIRES: a known method.
HeadOptions HeadOptionsOf(const TrainConfig& config);

// Threads: one at a time.
class Classifier : public torch::nn::Module {
 public:
  // Draws the parameters from `seed`. Lorentz: a_c ~ U(+-d^-1/2), z_c ~ scale U(+-d^-1/2). Linear: torch's default for
  // any scale, without a bias for losses of the angle.
  Classifier(int64_t classes, int64_t dimension, bool lorentz, double curvature, double scale, uint64_t seed,
             const HeadOptions& options = {});

  // Turns the normal of class c towards row c of `directions` [classes, d] and keeps the norm. Rows of zeros turn
  // nothing.
  void PointNormals(const torch::Tensor& directions);

  // EmbedPoints at this head's metric and K.
  Embedded Embed(const torch::Tensor& z, double clip_radius) const;

  torch::Tensor Logits(
      const Embedded& embedded) const;  // logits, [n, classes]; s cos without m for losses of the angle
  torch::Tensor Loss(const Embedded& embedded, const torch::Tensor& labels) const;  // mean loss of the batch

  // Cosines between the logits of two batches, [n of queries, n of rows]. A linear head needs no logits of `rows`, of
  // which some thousand would take longer than the network. Only the logits of `queries` have a gradient.
  torch::Tensor LogitCosines(const Embedded& queries, const Embedded& rows) const;

  double curvature() const;  // current K
  // Limits a learnt K to a factor of 10 around its start. Call it after every step.
  void LimitCurvature();

 private:
  torch::Tensor Scores(const Embedded& embedded) const;  // scores for HeadLossOf

  const bool lorentz_;
  const double curvature_;
  const HeadLossOptions loss_;
  torch::Tensor offset_;         // a_c or the bias, [classes]; undefined for losses of the angle
  torch::Tensor weight_;         // z_c or the linear weight, [classes, d]
  torch::Tensor log_curvature_;  // log K, a scalar; undefined for a fixed K
};

}  // namespace lightcone
