// A data set's images on a device, changed and normalised there. A step then uploads a few numbers an image in place of
// its pixels. Only .cc files of trainer/ and tests include this.
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
  // Copies the set's pixels to `device` as uint8. Throws c10::Error when they do not fit. REQUIRES: set.in_memory().
  DeviceImages(const ImageSet& set, const Normalisation& normalisation, torch::Device device);

  // The images `rows` as AugmentImage changes them, by drawn changes (DrawChange, same kind), on the device: [n, c, h,
  // w] float32, channels innermost in memory. The call does not wait for the device.
  torch::Tensor Changed(std::span<const int64_t> rows, AugmentKind kind, std::span<const ImageChange> changes) const;

 private:
  const int64_t height_, width_, channels_;
  torch::Tensor pixels_;          // pixels, [images, h w, c] uint8
  torch::Tensor mean_, inverse_;  // mean of pixels / 255, and 1 / stddev, [c]
  torch::Tensor x_, y_;           // coordinates from the centre, [1, w] and [h, 1] float64
};

}  // namespace lightcone
