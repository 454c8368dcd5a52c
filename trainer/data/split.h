// Parts of an image set, such as an older model's training images in the "ext-class" and "ext-data" settings.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// The images of classes 0 .. classes_first-1, in their order. Threads: safe.
ImageSet SelectClasses(const ImageSet& set, int classes_first);

// The ascending rows of SelectFraction. With `least`, at least that many of a class where another one remains. Threads:
// safe.
std::vector<int64_t> FractionRows(const std::vector<int32_t>& labels, double share, uint64_t seed, int64_t least = 1);

// A share (0, 1] of each class: round(share x n) images, at least one, drawn from `seed`, in their order. Threads:
// safe.
ImageSet SelectFraction(const ImageSet& set, double share, uint64_t seed);

// The images at `rows`, in that order. A set with a source keeps the source. REQUIRES: each in 0 .. set.size()-1.
// Threads: safe.
ImageSet SelectRows(const ImageSet& set, const std::vector<int64_t>& rows);

// `count` images in an order drawn from `seed`, or the whole set where it has no more. REQUIRES: count >= 0. Threads:
// safe.
ImageSet DrawImages(const ImageSet& set, int64_t count, uint64_t seed);

}  // namespace lightcone
