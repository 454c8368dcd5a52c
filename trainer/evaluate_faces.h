// Face-style evaluation of embeddings (stats/verification.h has the measures; docs/reference/evaluation.md, Faces). The
// score of a pair is minus its distance, in float32: geodesic between clipped points for lorentz, 1 - cosine for
// cosine.
// Distances are made in blocks. Threads: all functions are safe. No torch here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stats/verification.h"
#include "trainer/data/face_lists.h"
#include "trainer/evaluate.h"

namespace lightcone {

// TAR@FAR over a list of pairs (IJB 1:1). `first` and `second` of a pair are rows of the two sides: the same templates
// by the query model and by the gallery model. Labels are not used. INVALID_ARGUMENT as EvaluateRetrieval and
// VerifyPairs, and for a pair outside the rows.
absl::StatusOr<VerificationFigures> EvaluatePairs(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                  const LabelledEmbeddings& gallery,
                                                  std::span<const TemplatePair> pairs,
                                                  std::span<const double> far_wanted);

// TAR@FAR over every pair of a query and a gallery item; a pair with equal labels is genuine. With `same_items` an item
// is not paired with itself.
absl::StatusOr<VerificationFigures> EvaluateAllPairs(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                     const LabelledEmbeddings& gallery, bool same_items,
                                                     std::span<const double> far_wanted);

// TPIR@FPIR of probes (labels: subjects) against an enrolled gallery.
absl::StatusOr<IdentificationFigures> EvaluateIdentification(const RetrievalSpace& space,
                                                             const LabelledEmbeddings& probes,
                                                             const LabelledEmbeddings& gallery,
                                                             std::span<const double> fpir_wanted, Impostors impostors);

}  // namespace lightcone
