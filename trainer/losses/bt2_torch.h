// BT2 (Zhou et al., BT2: Backward-compatible Training with Basis Transformation, Algorithm 1;
// docs/internals/training-methods.md): the output transform and its losses. Only .cc files of trainer/ and tests
// include this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>

namespace lightcone {

// n, m, d of the paper. REQUIRES: 1 <= extra < old_dimension, old_dimension - extra <= new_dimension.
struct Bt2Shape {
  int64_t old_dimension = 128;  // n: dimension of old vectors
  int64_t new_dimension = 128;  // m: dimension of phi_3, the new model's own part
  int64_t extra = 32;           // d: additional dimensions beyond m
  double scale = 2;             // C: weight of phi_3 beside phi_2
  bool cayley = false;          // Cayley map in place of the matrix exponential
  bool relu_input = true;       // f reads relu(phi_1) as the released code, else phi_1 as the paper

  int64_t input() const { return new_dimension + old_dimension; }  // dimension of phi_1, the network's output
  int64_t output() const { return new_dimension + extra; }         // dimension of phi_new
};

// The orthogonal matrix of a free square one: with A = strict lower triangle of `free` minus its transpose, e^A or
// (I - A/2)^-1 (I + A/2). [d, d] -> [d, d].
torch::Tensor OrthogonalOf(const torch::Tensor& free, bool cayley);

struct Bt2Parts {
  torch::Tensor phi2, phi3;  // unit rows, [b, d] and [b, m]
  torch::Tensor phi5;        // part that compares with old vectors, [b, n]
  torch::Tensor phi_new;     // [phi5; rest of phi4], [b, m + d], with |phi_new|^2 = 1 + C^2
};

// phi3 = unit(phi1[:m]), phi2 = unit(f phi1), phi4 = C B1 phi3, phi5 = B2 [phi2; phi4[:n-d]],
// phi_new = [phi5; phi4[n-d:]]. b1 [m, m], b2 [n, n] orthogonal; f_weight [d, m + n], f_bias [d].
Bt2Parts ApplyBt2(const torch::Tensor& phi1, const Bt2Shape& shape, const torch::Tensor& b1, const torch::Tensor& b2,
                  const torch::Tensor& f_weight, const torch::Tensor& f_bias);

// The transform with its parameters: f, and B_i = (a drawn orthogonal matrix) OrthogonalOf(free matrix, 0 at first).
// Threads: one at a time.
class Bt2Transform : public torch::nn::Module {
 public:
  // Drawn from `seed` alone: f as torch's linear layer; the bases are the orthogonal factors of such layers' weights.
  Bt2Transform(const Bt2Shape& shape, uint64_t seed);

  Bt2Parts Apply(const torch::Tensor& phi1) const;

  // phi_1 -> phi_new with today's matrices as constants, on the CPU: for export, and safe on several threads.
  std::function<torch::Tensor(const torch::Tensor&)> Frozen() const;

 private:
  torch::Tensor B1() const;
  torch::Tensor B2() const;

  const Bt2Shape shape_;
  torch::Tensor f_weight_, f_bias_;
  torch::Tensor free1_, free2_;  // free matrices, [m, m] and [n, n]
  torch::Tensor base1_, base2_;  // drawn orthogonal matrices, in buffers
};

struct Bt2Weights {
  double lambda1 = 1;   // weight of phi_3 against the independent new model's vector
  double lambda2 = 10;  // weight of phi_5 against the old classes
  double lambda3 = 5;   // weight of phi_5 against the old vector of the same image
};

// The compatibility terms, each before its weight, and their weighted sum.
struct Bt2Losses {
  torch::Tensor total, pseudo, old, base_model;  // losses; base_model is undefined without `base_vectors`
};

// lambda2 CE(pseudo_heads unit(phi5)) + lambda3 (1 - <unit(phi5), old>) + lambda1 (1 - <phi3, base>), batch means, no
// temperature. pseudo_heads [classes, n] (class means of the old vectors); old_vectors [b, n] and base_vectors [b, m]
// (or undefined) are unit rows without gradient.
Bt2Losses Bt2Compatibility(const Bt2Parts& parts, const torch::Tensor& labels, const torch::Tensor& pseudo_heads,
                           const torch::Tensor& old_vectors, const torch::Tensor& base_vectors,
                           const Bt2Weights& weights);

}  // namespace lightcone
