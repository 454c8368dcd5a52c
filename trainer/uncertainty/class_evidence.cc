#include "trainer/uncertainty/class_evidence.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "geometry/metric.h"
#include "geometry/uncertainty.h"

namespace lightcone {
namespace {

constexpr double kTemperature = 0.1, kSharpTemperature = 0.05;

}  // namespace

ClassMeans ClassMeansOf(const RetrievalSpace& space, const LabelledEmbeddings& training) {
  const size_t d = static_cast<size_t>(space.dimension);
  ClassMeans means;
  means.classes = static_cast<size_t>(*std::max_element(training.labels.begin(), training.labels.end())) + 1;
  means.rows.assign(means.classes * d, 0.0);
  for (size_t i = 0; i < training.labels.size(); ++i) {
    const std::span<const float> z = training.z.subspan(i * d, d);
    const double norm = std::max(NormOf(z), 1e-30);
    for (size_t j = 0; j < d; ++j) means.rows[static_cast<size_t>(training.labels[i]) * d + j] += z[j] / norm;
  }
  for (size_t c = 0; c < means.classes; ++c) {
    const std::span<double> row(means.rows.data() + c * d, d);
    double square = 0;
    for (const double x : row) square += x * x;
    for (double& x : row) x /= std::max(std::sqrt(square), 1e-30);
  }
  return means;
}

ClassEvidence EvidenceOf(const RetrievalSpace& space, const LabelledEmbeddings& items, const ClassMeans& means) {
  const size_t d = static_cast<size_t>(space.dimension), n = items.labels.size();
  ClassEvidence out{Scores(n), Scores(n), Scores(n), Scores(n), std::vector<int32_t>(n)};
  ParallelFor(static_cast<int64_t>(n), [&](int64_t item) {
    const size_t i = static_cast<size_t>(item);
    const std::span<const float> z = items.z.subspan(i * d, d);
    const double norm = std::max(NormOf(z), 1e-30);
    std::vector<double> distances(means.classes);
    for (size_t c = 0; c < means.classes; ++c) {
      double dot = 0;
      for (size_t j = 0; j < d; ++j) dot += z[j] * means.rows[c * d + j];
      distances[c] = 1 - dot / norm;
    }
    out.entropy[i] = NeighbourEntropy(distances, kTemperature);
    out.sharp[i] = NeighbourEntropy(distances, kSharpTemperature);
    out.nearest[i] = static_cast<int32_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
    std::partial_sort(distances.begin(), distances.begin() + static_cast<int64_t>(std::min<size_t>(2, means.classes)),
                      distances.end());
    out.cosine[i] = distances[0];
    out.margin[i] = means.classes > 1 ? distances[0] - distances[1] : 0;
  });
  return out;
}

}  // namespace lightcone
