// What an item's direction says of the classes of the old model's training set. No torch here.
// Threads: pure functions; they use all cores.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/evaluate.h"
#include "trainer/uncertainty/scores.h"

namespace lightcone {

// Unit directions of the classes' mean directions: classes x dimension, row major. A class without images has none (0).
struct ClassMeans {
  size_t classes = 0;
  std::vector<double> rows;
};
// REQUIRES: labels of `training` >= 0, one or more.
ClassMeans ClassMeansOf(const RetrievalSpace& space, const LabelledEmbeddings& training);

struct ClassEvidence {
  Scores entropy, sharp;         // of softmax(cosine / tau) at tau = .1 and .05
  Scores cosine, margin;         // 1 - cosine of the nearest mean; that less the second one's
  std::vector<int32_t> nearest;  // class of the nearest mean
};
ClassEvidence EvidenceOf(const RetrievalSpace& space, const LabelledEmbeddings& items, const ClassMeans& means);

}  // namespace lightcone
