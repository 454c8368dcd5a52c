#include "trainer/uncertainty/class_evidence.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/dcheck.h"
#include "geometry/metric.h"
#include "trainer/data/parallel.h"

namespace lightcone {

ClassMeans ClassMeansOf(const RetrievalSpace& space, const LabelledEmbeddings& training) {
  LC_DCHECK(!training.labels.empty() && std::ranges::min(training.labels) >= 0);
  const size_t d = static_cast<size_t>(space.dimension);
  const size_t classes = static_cast<size_t>(*std::max_element(training.labels.begin(), training.labels.end())) + 1;
  std::vector<double> sums(classes * d, 0.0);
  for (size_t i = 0; i < training.labels.size(); ++i) {
    const std::span<const float> z = training.z.subspan(i * d, d);
    const double norm = std::max(NormOf(z), 1e-30);
    for (size_t j = 0; j < d; ++j) sums[static_cast<size_t>(training.labels[i]) * d + j] += z[j] / norm;
  }
  ClassMeans means{d, std::vector<float>(classes * d)};
  for (size_t c = 0; c < classes; ++c) {
    double square = 0;
    for (size_t j = 0; j < d; ++j) square += sums[c * d + j] * sums[c * d + j];
    const double length = std::max(std::sqrt(square), 1e-30);
    for (size_t j = 0; j < d; ++j) means.rows[c * d + j] = static_cast<float>(sums[c * d + j] / length);
  }
  return means;
}

std::vector<ClassEvidence> EvidenceOf(const RetrievalSpace& space, const LabelledEmbeddings& items,
                                      const ClassMeans& means) {
  const size_t d = static_cast<size_t>(space.dimension);
  std::vector<ClassEvidence> out(items.labels.size());
  ParallelFor(static_cast<int64_t>(out.size()), [&](int64_t item) {
    const size_t i = static_cast<size_t>(item);
    out[i] = EvidenceOf(means, items.z.subspan(i * d, d));
  });
  return out;
}

}  // namespace lightcone
