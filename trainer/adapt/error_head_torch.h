// The regression of an adapter's own error (docs/internals/adapters.md, A fit). Only .cc files of trainer/ and tests
// include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "geometry/adapter.h"

namespace lightcone {

struct ErrorHead {
  AdapterHead head = AdapterHead::kNone;  // kNone when no regression beats the mean
  std::vector<float> weights;             // features + 1
  float bias = 0;
  double r2 = 0;  // of the log error, five-fold cross-validated
};

// log(error) regressed on (features, |z|) by ridge, for each kind of features given, the better kind by
// cross-validation. `z` [n, in], `hidden` [n, width] or undefined, `errors` [n] distances >= 0. Rows should come in
// random order; n >= 10.
ErrorHead FitErrorHead(const torch::Tensor& z, const torch::Tensor& hidden, const torch::Tensor& errors);

}  // namespace lightcone
