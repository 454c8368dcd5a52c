// The regression of an adapter's own error (docs/internals/adapters.md, A fit). Only .cc files of trainer/ and tests
// include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "geometry/adapter.h"

namespace lightcone {

struct ErrorHead {
  AdapterHead head = AdapterHead::kNone;  // kind of features; kNone when no regression beats the mean
  std::vector<float> weights;             // weights of the features, then that of |z|
  float bias = 0;
  double r2 = 0;  // R^2 of the log error, five-fold cross-validated
};

// The ridge regression of log(error) on (features, |z|), for the kind of features with the better cross-validation. `z`
// [n, in], `hidden` [n, width] or undefined, `errors` [n] distances >= 0; n >= 10 rows in random order.
ErrorHead FitErrorHead(const torch::Tensor& z, const torch::Tensor& hidden, const torch::Tensor& errors);

}  // namespace lightcone
