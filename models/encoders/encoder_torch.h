// The torch side of Encoder. Only .cc files of models/ and trainer/, and their tests, include this.
#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include "models/encoders/encoder.h"

namespace lightcone {

struct Encoder::Impl {
  torch::jit::Module module;  // constant after Load; its forward is safe on several threads
  torch::Device device;       // where its weights lie

  // [n, c, h, w] normalised, on any device -> z before the clip [n, d] float32, without gradients, on `device`. May
  // throw c10::Error.
  torch::Tensor Forward(const torch::Tensor& nchw) const;
};

}  // namespace lightcone
