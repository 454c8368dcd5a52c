// Parts of an image set: what an older model is trained on in the "ext-class" and "ext-data" settings.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// The images of classes 0 .. classes_first-1, in their order. Threads: safe.
ImageSet SelectClasses(const ImageSet& set, int classes_first);

// The rows that SelectFraction takes, ascending; with `least`, at least that many of a class where one remains beside
// them. Threads: safe.
std::vector<int64_t> FractionRows(const std::vector<int32_t>& labels, double share, uint64_t seed, int64_t least = 1);

// A share (0, 1] of each class: round(share x n) images, at least one, drawn from `seed`, in their order. Threads:
// safe.
ImageSet SelectFraction(const ImageSet& set, double share, uint64_t seed);

// The images at `rows`, in that order; a set that decodes when it is read stays one. REQUIRES: each in 0 ..
// set.size()-1. Threads: safe.
ImageSet SelectRows(const ImageSet& set, const std::vector<int64_t>& rows);

// `count` images in an order drawn from `seed`; the set itself where it has no more. REQUIRES: count >= 0. Threads:
// safe.
ImageSet DrawImages(const ImageSet& set, int64_t count, uint64_t seed);

// Replaces the test images by a share (0, 1) of each class's training images, drawn from `seed`: what choices are made
// on, so that the test images stay unseen. At least two of a class of three or more, so that each finds another one. A
// protocol of the test set goes with it. INVALID_ARGUMENT when a class has one image. Threads: safe.
absl::Status HoldOut(double share, uint64_t seed, Dataset* dataset);

}  // namespace lightcone
