// The classification head that every method trains with (docs/training.md, Base loss): Lorentz MLR, or a linear
// layer for the other metrics. Only .cc files of trainer/ and their tests include this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "trainer/losses/lorentz_torch.h"

namespace lightcone {

// A batch of embeddings in the forms that losses need.
struct Embedded {
  torch::Tensor z;        // before the clip, [n, d]
  torch::Tensor clipped;  // lorentz: after the clip; else z itself
  LorentzPoints points;   // lorentz only: exp_0(clipped)
};

// Clips and lifts (lorentz), or passes z on.
Embedded EmbedPoints(const torch::Tensor& z, bool lorentz, double curvature, double clip_radius);

// Threads: one at a time.
class Classifier : public torch::nn::Module {
 public:
  // Parameters drawn from `seed`: lorentz a_c ~ U(+-d^-1/2), z_c ~ scale U(+-d^-1/2); linear as torch's default,
  // whatever the scale.
  Classifier(int64_t classes, int64_t dimension, bool lorentz, double curvature, double scale, uint64_t seed);

  // Turns the normal of class c towards row c of `directions` [classes, d]; its norm stays. Rows of zeros turn nothing.
  void PointNormals(const torch::Tensor& directions);

  torch::Tensor Logits(const Embedded& embedded) const;                             // [n, classes]
  torch::Tensor Loss(const Embedded& embedded, const torch::Tensor& labels) const;  // mean cross entropy

 private:
  const bool lorentz_;
  const double curvature_;
  torch::Tensor offset_;  // [classes]: a_c, or the bias
  torch::Tensor weight_;  // [classes, d]: z_c, or the linear weight
};

}  // namespace lightcone
