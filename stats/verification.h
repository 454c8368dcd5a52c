// Face-style measures (docs/reference/evaluation.md, Faces): verification, TAR@FAR over pairs, and open-set
// identification, TPIR@FPIR of probes against a gallery. Scores grow with similarity (a distance is negated).
// Thresholds are exact:
// no curve is sampled or interpolated. Memory never grows with the number of pairs. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

// Takes a block of pairs: `same[i]` is 1 where the pair is of one subject. The spans have one length.
using ScoreSink = std::function<void(std::span<const float> scores, std::span<const std::uint8_t> same)>;

// Gives every pair of a comparison once, in blocks of any size and order. It is run twice and must give the same pairs
// both times: the first run finds the high half of each threshold's bits, the second the low half.
using ScoreSource = std::function<void(const ScoreSink& sink)>;

struct VerificationPoint {
  double far_wanted = 0;  // wanted rate
  float threshold = 0;    // score above which a pair is accepted; -infinity accepts all
  double far = 0;         // share of impostor pairs accepted, at most far_wanted
  double tar = 0;         // share of genuine pairs accepted
};

struct VerificationFigures {
  std::vector<VerificationPoint> points;  // points by wanted rate
  std::int64_t genuine = 0, impostor = 0;
};

// For each wanted rate f, the threshold is the (k + 1)-th largest impostor score with k = floor(f x impostors), and a
// pair is accepted above it. Ties therefore count as rejected: when impostors share the threshold's score, fewer than k
// are accepted, never more. Needs no sorting: two histograms of 65,536 counts, whatever the number of pairs.
// (The IJB releases take the point of a ROC curve whose FAR is *nearest* to f, which may lie above f.)
// kInvalidArgument: a rate outside [0, 1), a score that is NaN, no genuine or no impostor pair. kInternal: the source
// gave other pairs the second time.
absl::StatusOr<VerificationFigures> VerifyPairs(const ScoreSource& source, std::span<const double> far_wanted);

// From which scores the false positives of identification are counted.
enum class Impostors {
  // Open set (ISO/IEC 19795-1): probes whose subject is not in the gallery. FPIR = share of them whose best score is
  // above the threshold; a mated probe counts when its mate is ranked first and above the threshold.
  kNonMatedProbes,
  // As the evaluation that the IJB papers of InsightFace's line use, where every probe has a mate: the threshold is the
  // ceil(f x mated probes)-th largest of all scores between different subjects, and a mated probe counts when its mate
  // is above the threshold, at any rank.
  kAllOtherPairs,
};

struct IdentificationPoint {
  double fpir_wanted = 0;
  float threshold = 0;  // score above which a probe counts; -infinity counts all
  double fpir = 0;      // share of non-mated probes, or other pairs a mated probe (kAllOtherPairs)
  double tpir = 0;      // share of mated probes that count
};

struct IdentificationFigures {
  std::vector<IdentificationPoint> points;  // points by wanted rate
  std::int64_t mated = 0, non_mated = 0;    // numbers of probes
};

// `fill(probe, out)` writes the probe's gallery_subjects.size() scores; it is called once a probe, in order. Of a
// subject with several gallery entries the best score counts; equal scores rank by index. Thresholds: with k = floor(f
// x non-mated), the (k + 1)-th largest best score of the non-mated, or as kAllOtherPairs says. Ties count as below.
// Memory: a row of scores and 12 bytes a probe; kAllOtherPairs: also the ceil(f x probes) largest scores.
// kInvalidArgument: a rate outside [0, 1) (0 not for kAllOtherPairs), NaN, no mated probe, an empty gallery, no
// non-mated probe for kNonMatedProbes.
absl::StatusOr<IdentificationFigures> IdentifyProbes(const std::function<void(std::size_t, std::span<float>)>& fill,
                                                     std::span<const std::int64_t> probe_subjects,
                                                     std::span<const std::int64_t> gallery_subjects,
                                                     std::span<const double> fpir_wanted, Impostors impostors);

}  // namespace lightcone
