#include <cmath>

#include "models/encoders/blocks_torch.h"

namespace lightcone::internal {
namespace {

constexpr int64_t kWord = 0xFFFFFFFF;

// A 32-bit integer hash (multiply and xorshift, found by hash-prospector), elementwise on int64 words 0 .. 2^32 - 1.
// Both factors are below 2^31: no product leaves an int64.
torch::Tensor Mixed(torch::Tensor x) {
  x = torch::bitwise_xor(x, torch::bitwise_right_shift(x, 16));
  x = torch::bitwise_and(x * 0x21f0aaad, kWord);
  x = torch::bitwise_xor(x, torch::bitwise_right_shift(x, 15));
  x = torch::bitwise_and(x * 0x735a2d97, kWord);
  return torch::bitwise_xor(x, torch::bitwise_right_shift(x, 15));
}

}  // namespace

SeededDropout::SeededDropout(double p) : p_(p) { state_ = register_buffer("state", torch::zeros({2}, torch::kInt64)); }

torch::Tensor SeededDropout::forward(const torch::Tensor& x) {
  if (!is_training()) return x;
  torch::Tensor keep;
  {
    torch::NoGradGuard no_grad;
    const torch::Tensor key = Mixed(torch::bitwise_xor(state_.select(0, 0), Mixed(state_.select(0, 1))));
    const torch::Tensor position = torch::arange(x.numel(), state_.options());
    const torch::Tensor drawn = Mixed(torch::bitwise_xor(Mixed(position), key));
    keep = drawn.ge(static_cast<int64_t>(std::llround(p_ * 4294967296.0))).reshape(x.sizes()).to(x.scalar_type());
    state_.select(0, 1).add_(1).bitwise_and_(kWord);
  }
  return x * (keep * (1.0 / (1.0 - p_)));
}

void SeededDropout::Initialise(torch::Generator& generator) {
  state_.select(0, 0).random_(0, kWord, generator);
  state_.select(0, 1).zero_();
}

HiddenLayers::HiddenLayers(int64_t in, int64_t hidden, double dropout, bool dropout_first)
    : dropout_first_(dropout_first) {
  first_ = register_module("first", torch::nn::Linear(in, hidden));
  second_ = register_module("second", torch::nn::Linear(hidden, hidden));
  first_dropout_ = register_module("first_dropout", std::make_shared<SeededDropout>(dropout));
  second_dropout_ = register_module("second_dropout", std::make_shared<SeededDropout>(dropout));
}

torch::Tensor HiddenLayers::forward(const torch::Tensor& x) {
  if (dropout_first_) {
    const torch::Tensor y = first_->forward(first_dropout_->forward(x)).relu_();
    return second_->forward(second_dropout_->forward(y)).relu_();
  }
  const torch::Tensor y = first_dropout_->forward(first_->forward(x).relu_());
  return second_dropout_->forward(second_->forward(y).relu_());
}

}  // namespace lightcone::internal
