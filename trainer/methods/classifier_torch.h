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
  torch::Tensor z;        // before the clip, [n, d]
  torch::Tensor clipped;  // lorentz: after the clip; else z itself
  LorentzPoints points;   // lorentz only: exp_0(clipped)
  // Scalar, defined only where K is learnt: sqrt(K). `points` is then k exp_0(clipped), which lies on the hyperboloid
  // of curvature -1: what is at distance D there is at D/k.
  torch::Tensor k;
};

// Clips and lifts (lorentz), or passes z on.
Embedded EmbedPoints(const torch::Tensor& z, bool lorentz, double curvature, double clip_radius);

// What a head can do besides Lorentz MLR or softmax with a fixed K.
struct HeadOptions {
  HeadLossOptions loss;  // lorentz: kSoftmax or kBce
  bool learn_curvature = false;
};
// As `config` asks for, with `auto` and the papers' margins filled in. REQUIRES: config.Validate() is OK.
HeadOptions HeadOptionsOf(const TrainConfig& config);

// Threads: one at a time.
class Classifier : public torch::nn::Module {
 public:
  // Parameters drawn from `seed`: lorentz a_c ~ U(+-d^-1/2), z_c ~ scale U(+-d^-1/2); linear as torch's default,
  // whatever the scale; without bias for losses of the angle.
  Classifier(int64_t classes, int64_t dimension, bool lorentz, double curvature, double scale, uint64_t seed,
             const HeadOptions& options = {});

  // Turns the normal of class c towards row c of `directions` [classes, d]; its norm stays. Rows of zeros turn nothing.
  void PointNormals(const torch::Tensor& directions);

  // EmbedPoints at this head's metric and K.
  Embedded Embed(const torch::Tensor& z, double clip_radius) const;

  torch::Tensor Logits(const Embedded& embedded) const;                             // [n, classes]; s cos without m
  torch::Tensor Loss(const Embedded& embedded, const torch::Tensor& labels) const;  // mean over the batch

  // Cosines between the logits of two batches, [n of queries, n of rows], without the logits of `rows` where the head
  // is linear: some thousand of them take longer than the network. Only the logits of `queries` carry a gradient.
  torch::Tensor LogitCosines(const Embedded& queries, const Embedded& rows) const;

  double curvature() const;  // as it is now
  // Brings a learnt K back to within a factor of 10 of its start; call it after every step.
  void LimitCurvature();

 private:
  torch::Tensor Scores(const Embedded& embedded) const;  // what HeadLossOf takes

  const bool lorentz_;
  const double curvature_;
  const HeadLossOptions loss_;
  torch::Tensor offset_;         // [classes]: a_c, or the bias; undefined for losses of the angle
  torch::Tensor weight_;         // [classes, d]: z_c, or the linear weight
  torch::Tensor log_curvature_;  // scalar; undefined unless K is learnt
};

}  // namespace lightcone
