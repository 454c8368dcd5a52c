// Vectors of real images whose neighbourhoods are those of a gallery of SIFT descriptors. Deterministic from the seed.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone::bench {

constexpr int kDescriptorDimension = 128;  // 4 x 4 cells of 8 directions

// count x 128: the SIFT descriptors (Lowe, "Distinctive Image Features from Scale-Invariant Keypoints", 2004, section
// 6) of squares at random places of `images`, at least 12 pixels wide, upright, images in turns. Whole numbers 0 ..
// 255, as SIFT's users keep them. Squares without contrast are drawn anew. Errors of ImageSet::Read; INVALID_ARGUMENT
// for images that are smaller or where almost no square has contrast.
absl::StatusOr<std::vector<float>> SiftDescriptors(const ImageSet& images, int64_t count, uint64_t seed);

}  // namespace lightcone::bench
