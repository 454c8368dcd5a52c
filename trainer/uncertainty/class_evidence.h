// Evidence of the items' directions about the classes of the old model's training set. No torch here. Threads: pure
// functions; they use all cores.
#pragma once

#include <vector>

#include "stats/failure_head.h"
#include "trainer/evaluate.h"

namespace lightcone {

// REQUIRES: labels of `training` >= 0, one or more.
ClassMeans ClassMeansOf(const RetrievalSpace& space, const LabelledEmbeddings& training);

// The evidence of each item.
std::vector<ClassEvidence> EvidenceOf(const RetrievalSpace& space, const LabelledEmbeddings& items,
                                      const ClassMeans& means);

}  // namespace lightcone
