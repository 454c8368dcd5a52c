#include "stats/failure_head.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/metric.h"
#include "geometry/uncertainty.h"

namespace lightcone {
namespace {

constexpr double kTemperature = 0.1, kSharpTemperature = 0.05;
constexpr double kLimit = 5;
constexpr double kWeightMax = 1e6;
constexpr size_t kBehind = 15;
constexpr size_t kReturned = 4, kAlike = 9;  // positions of features

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

absl::Status CheckNumbers(const char* field, std::span<const double> values) {
  for (const double value : values) {
    if (!std::isfinite(value)) return InvalidField(field, StrCat(value), "finite numbers");
  }
  return absl::OkStatus();
}

}  // namespace

ClassEvidence EvidenceOf(const ClassMeans& means, std::span<const float> z) {
  LC_DCHECK(means.classes() >= 1 && z.size() == means.dimension);
  const size_t d = means.dimension, classes = means.classes();
  const double norm = std::max(NormOf(z), 1e-30);
  std::vector<double> distances(classes);
  for (size_t c = 0; c < classes; ++c) {
    const float* row = means.rows.data() + c * d;
    double dot = 0;
    for (size_t j = 0; j < d; ++j) dot += double{z[j]} * double{row[j]};
    distances[c] = 1 - dot / norm;
  }
  ClassEvidence out;
  out.entropy = NeighbourEntropy(distances, kTemperature);
  out.sharp = NeighbourEntropy(distances, kSharpTemperature);
  out.nearest = static_cast<int32_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
  std::partial_sort(distances.begin(), distances.begin() + static_cast<int64_t>(std::min<size_t>(2, classes)),
                    distances.end());
  out.cosine = distances[0];
  out.margin = classes > 1 ? distances[0] - distances[1] : 0;
  return out;
}

double Steepness(std::span<const double> distances) {
  if (distances.size() <= kHeadFew) return 0;
  const size_t behind = std::min(kBehind, distances.size() - kHeadFew);
  return Mean(distances.first(kHeadFew)) - Mean(distances.subspan(kHeadFew, behind));
}

HeadFeatures HeadFeaturesOf(const HeadFacts& facts) {
  LC_DCHECK(!facts.distances.empty() && facts.d1 > 0);
  const std::span<const double> near = facts.distances;
  const auto entropy = [&](size_t k, double share) {
    return NeighbourEntropy(near.first(std::min(k, near.size())), share * facts.d1);
  };
  return {
      entropy(16, 0.3), entropy(kHeadNeighbours, 0.15), Steepness(near) / facts.d1, near[0] / facts.d1,  facts.returned,
      facts.norm,       facts.classes.cosine,           facts.classes.margin,       facts.classes.sharp, facts.alike};
}

HeadFeatures WithNeighbours(HeadFeatures features, double returned, double alike) {
  features[kReturned] = returned;
  features[kAlike] = alike;
  return features;
}

std::array<double, FailureHead::kTerms> FailureHead::TermsOf(const HeadFeatures& features) const {
  std::array<double, kTerms> terms;
  for (size_t f = 0; f < kHeadFeatures; ++f) {
    terms[f] = std::clamp((features[f] - mean[f]) / deviation[f], -kLimit, kLimit);
  }
  size_t t = kHeadFeatures;
  for (size_t f = 0; f < kHeadFeatures; ++f) {
    for (size_t g = f; g < kHeadFeatures; ++g) terms[t++] = terms[f] * terms[g] / 3;
  }
  return terms;
}

double FailureHead::Score(const HeadFeatures& features) const {
  const std::array<double, kTerms> terms = TermsOf(features);
  double score = bias;
  for (size_t t = 0; t < kTerms; ++t) score += weights[t] * terms[t];
  return score;
}

absl::Status FailureHead::Validate() const {
  LC_RETURN_IF_ERROR(CheckNumbers("failure_head.mean", mean));
  LC_RETURN_IF_ERROR(CheckNumbers("failure_head.deviation", deviation));
  LC_RETURN_IF_ERROR(CheckNumbers("failure_head.weights", weights));
  LC_RETURN_IF_ERROR(CheckNumbers("failure_head.bias", {&bias, 1}));
  // The bound lies far beyond fitted weights. Without it a score could be infinity less infinity.
  for (const double value : weights) {
    if (std::abs(value) > kWeightMax) return InvalidField("failure_head.weights", StrCat(value), "-1e6 .. 1e6");
  }
  if (std::abs(bias) > kWeightMax) return InvalidField("failure_head.bias", StrCat(bias), "-1e6 .. 1e6");
  for (const double value : deviation) {
    if (value <= 0) return InvalidField("failure_head.deviation", StrCat(value), "above 0");
  }
  return absl::OkStatus();
}

}  // namespace lightcone
