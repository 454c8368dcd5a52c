#include "trainer/uncertainty/neighbourhood.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "stats/failure_head.h"

namespace lightcone {

absl::StatusOr<Neighbourhood> NeighbourhoodOf(const RetrievalSpace& space, const NamedSide& items,
                                              const NamedSide& among, bool same_items, int64_t k_max) {
  Neighbourhood out;
  LC_ASSIGN_OR_RETURN(out.lists, NearestNeighbours(space, items, among, same_items, k_max));
  Scores apart;
  for (size_t i = 0; i < out.lists.size(); ++i) {
    const std::span<const double> distances = out.lists.DistancesOf(i);
    const auto first = std::find_if(distances.begin(), distances.end(), [](double x) { return x > 0; });
    if (first != distances.end()) apart.push_back(*first);
  }
  if (apart.empty()) {
    return InvalidField(among.name, StrCat("copies of the ", items.name, "'s items alone"), "other embeddings, too");
  }
  std::nth_element(apart.begin(), apart.begin() + static_cast<int64_t>(apart.size() / 2), apart.end());
  out.d1 = apart[apart.size() / 2];
  return out;
}

Scores Steepness(const Neighbourhood& near) {
  return ForEachItem(near.lists.size(), [&](size_t i) { return Steepness(near.lists.DistancesOf(i)); });
}

Scores Returned(const Neighbourhood& near, size_t length) {
  return ForEachItem(near.lists.size(), [&](size_t i) {
    double mutual = 0;
    for (const int32_t id : near.lists.FirstOf(i, length)) {
      const std::span<const int32_t> theirs = near.lists.FirstOf(static_cast<size_t>(id), length);
      mutual += std::find(theirs.begin(), theirs.end(), static_cast<int32_t>(i)) != theirs.end();
    }
    return mutual;
  });
}

}  // namespace lightcone
