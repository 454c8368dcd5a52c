#include "server/rest/diversity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/bound_query.h"

namespace lightcone::server {
namespace {

// The cosine, the dot product, or less the distance.
double SimilarityOf(Metric metric, double distance) { return metric == Metric::kCosine ? 1 - distance : -distance; }

}  // namespace

absl::StatusOr<std::vector<EngineHit>> Diversified(Metric metric, std::vector<EngineHit> hits, double weight,
                                                   size_t wanted) {
  LC_DCHECK(metric != Metric::kLorentz && weight >= 0 && weight <= 1);
  std::vector<EngineHit> chosen;
  // Of each hit that is left: the greatest similarity to a chosen one of its own generation.
  std::vector<double> nearest(hits.size(), -std::numeric_limits<double>::infinity());
  while (chosen.size() < wanted && !hits.empty()) {
    size_t best = 0;
    double best_value = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < hits.size(); ++i) {
      const double relevance = SimilarityOf(metric, hits[i].distance);
      const double like = std::isinf(nearest[i]) ? 0 : nearest[i];
      const double value = chosen.empty() ? relevance : (1 - weight) * relevance - weight * like;
      if (value > best_value) {
        best_value = value;
        best = i;
      }
    }
    chosen.push_back(std::move(hits[best]));
    hits.erase(hits.begin() + static_cast<ptrdiff_t>(best));
    nearest.erase(nearest.begin() + static_cast<ptrdiff_t>(best));
    const EngineHit& last = chosen.back();
    const Space space{metric, static_cast<int>(last.vector.size())};
    LC_ASSIGN_OR_RETURN(const BoundQuery to_last, BoundQuery::Make(space, space, last.vector));
    for (size_t i = 0; i < hits.size(); ++i) {
      if (hits[i].generation != last.generation) continue;
      nearest[i] = std::max(nearest[i], SimilarityOf(metric, to_last.Distance(hits[i].vector)));
    }
  }
  return chosen;
}

}  // namespace lightcone::server
