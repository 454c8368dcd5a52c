#include <cmath>

#include "trainer/losses/adversarial_torch.h"
#include "trainer/losses/classwise_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kHidden = 100;

// Batch norm over the given rows, in training and evaluation.
Tensor Normal(const Tensor& rows, const Tensor& scale, const Tensor& shift) {
  return torch::batch_norm(rows, scale, shift, /*running_mean=*/{}, /*running_var=*/{}, /*training=*/true,
                           /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/true);
}

// Each number of the embeddings with mean 0 and variance 1 over the batch. The release's embeddings leave a batch norm.
// Ours do not, and the length of raw ones runs away under the reversed gradient.
Tensor Standardised(const Tensor& rows) { return Normal(rows, {}, {}); }

}  // namespace

Discriminator::Discriminator(int64_t dimension, torch::Generator& generator) {
  const auto drawn = [&](torch::IntArrayRef shape, double bound) {
    return torch::empty(shape).uniform_(-bound, bound, generator);
  };
  const double in = 1.0 / std::sqrt(static_cast<double>(dimension)), hidden = 1.0 / std::sqrt(double{kHidden});
  weight1_ = register_parameter("weight1", drawn({kHidden, dimension}, in));
  bias1_ = register_parameter("bias1", drawn({kHidden}, in));
  scale_ = register_parameter("scale", torch::ones({kHidden}));
  shift_ = register_parameter("shift", torch::zeros({kHidden}));
  weight2_ = register_parameter("weight2", drawn({2, kHidden}, hidden));
  bias2_ = register_parameter("bias2", drawn({2}, hidden));
}

Tensor Discriminator::forward(const Tensor& z) const {
  const Tensor hidden = torch::addmm(bias1_, z, weight1_.t());
  return torch::addmm(bias2_, torch::relu(Normal(hidden, scale_, shift_)), weight2_.t());
}

Tensor AdversarialLoss(const Discriminator& discriminator, const Tensor& z, const Tensor& old, double alpha) {
  const Tensor logits =
      discriminator.forward(torch::cat({ReverseGradient(Standardised(z), alpha), Standardised(old)}, 0));
  const Tensor log_p = torch::log_softmax(logits, 1);
  const int64_t n = z.size(0);
  return -(log_p.narrow(0, 0, n).select(1, 0).mean() + log_p.narrow(0, n, n).select(1, 1).mean());
}

}  // namespace lightcone
