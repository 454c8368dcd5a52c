// A data set's images on a device, changed and normalised there: a step then uploads a few numbers an image, not its
// pixels. Only .cc files of trainer/ and tests include this.
#pragma once

#include <torch/torch.h>

#include <span>
#include <vector>

#include "trainer/data/augment.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Threads: const methods are safe concurrently.
class DeviceImages {
 public:
  // Copies the set's pixels to `device`, as they are (uint8). REQUIRES: set.in_memory(). Throws c10::Error when they do
  // not fit.
  DeviceImages(const ImageSet& set, const Normalisation& normalisation, torch::Device device);

  // What AugmentImage makes of the images `rows` with the changes drawn for them (DrawChange, same kind), on the
  // device: [n, c, h, w] float32, channels innermost in memory. No step waits for the device.
  torch::Tensor Changed(std::span<const int64_t> rows, AugmentKind kind, std::span<const ImageChange> changes) const;

 private:
  const int64_t height_, width_, channels_;
  torch::Tensor pixels_;          // [images, h w, c] uint8
  torch::Tensor mean_, inverse_;  // [c]: of pixels / 255, and 1 / stddev
  torch::Tensor x_, y_;           // [1, w] and [h, 1] float64: places less the centre
};

}  // namespace lightcone
