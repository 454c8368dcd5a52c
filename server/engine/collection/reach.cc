#include "server/engine/collection/reach.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"

namespace lightcone::server {

bool SameSpace(const Space& a, const Space& b) {
  return a.metric == b.metric && a.dimension == b.dimension &&
         (a.metric != Metric::kLorentz || a.curvature == b.curvature);
}

Reach::Reach(const std::vector<GenerationRecord>& generations, AdapterSet adapters) : adapters_(std::move(adapters)) {
  for (const GenerationRecord& g : generations) {
    std::vector<uint32_t> reached = {g.generation};
    if (g.parent >= 1 && g.parent < g.generation) {
      const int compared = g.compatible_prefix > 0 ? g.compatible_prefix : g.space.dimension;
      if (SameSpace(generations[g.parent - 1].space, LeadingSpace(g.space, compared))) {
        reached.insert(reached.end(), native_[g.parent - 1].begin(), native_[g.parent - 1].end());
      }
    }
    std::sort(reached.begin(), reached.end());
    native_.push_back(std::move(reached));
    retired_.push_back(g.retired);
  }
  all_ = native_;
  for (const auto& [pair, adapter] : adapters_) {
    // Whatever is carried, it is a query of the newer generation that meets an embedding of the older one.
    const auto [older, newer] = std::minmax(pair.first, pair.second);
    std::vector<uint32_t>& reached = all_[newer - 1];
    const auto at = std::lower_bound(reached.begin(), reached.end(), older);
    if (at == reached.end() || *at != older) reached.insert(at, older);
  }
  for (const GenerationRecord& g : generations) {
    TakeBest(g);
    TakeBoth(g);
    TakeRelevance(g);
  }
}

void Reach::TakeBest(const GenerationRecord& g) {
  if (g.validation == nullptr || !g.validation->passed || !Saw(g.generation, g.validation->adapters)) return;
  for (const PairReport& pair : g.validation->pairs) {
    if (pair.replaced) continue;
    const std::pair key(g.generation, pair.item_generation);
    // An item adapter ranks what another way finds, unless that one misses too much: all ways together are that way.
    if (pair.chosen != AdapterMode::kItem || pair.every_item) best_[key] = pair.chosen;
    for (const WayReport& way : pair.ways) {
      if (way.way == pair.chosen && way.calibrated()) calibrations_[key] = way.calibration->map;
    }
  }
}

void Reach::TakeBoth(const GenerationRecord& g) {
  if (g.validation == nullptr || !Saw(g.generation, g.validation->adapters)) return;
  for (const PairReport& pair : g.validation->pairs) {
    for (const WayReport& way : pair.both) {
      if (way.way != pair.both_beside) continue;
      Both& both = both_[{g.generation, pair.item_generation}];
      both = {way.way, way.older.value_or(OlderShare())};
    }
  }
}

void Reach::TakeRelevance(const GenerationRecord& g) {
  const std::shared_ptr<const ValidationReport>& report = g.validation;
  if (report == nullptr) return;
  const auto in_report = [&](const std::optional<RelevanceCurve>& curve) {
    return curve ? CurvePtr(report, &*curve) : nullptr;
  };
  CurvePtr own = in_report(report->new_relevance);
  for (const auto& [generation, curve] : report->kept_relevance) {
    older_relevance_.try_emplace(generation, CurvePtr(report, &curve));
  }
  const bool saw = Saw(g.generation, report->adapters);
  for (const PairReport& pair : report->pairs) {
    if (pair.replaced) continue;
    // The first later generation's stands: its validation saw most items of the older one.
    if (pair.old_relevance) older_relevance_.try_emplace(pair.item_generation, in_report(pair.old_relevance));
    for (const WayReport& way : pair.ways) {
      // Before it embedded much itself: its queries in its own space, to older items that lie or are carried there.
      const bool in_own_space =
          way.way == AdapterMode::kItem || (way.way == AdapterMode::kNone && g.compatible_prefix == 0);
      if (in_own_space && way.in_reach && own == nullptr) own = in_report(way.relevance);
      if (saw) relevance_[{g.generation, pair.item_generation, way.way, false}] = in_report(way.relevance);
    }
    for (const WayReport& way : pair.both) {
      if (saw && way.way == pair.both_beside) {
        relevance_[{g.generation, pair.item_generation, way.way, true}] = in_report(way.relevance);
      }
    }
  }
  own_relevance_[g.generation] = std::move(own);
}

const RelevanceCurve* Reach::OwnRelevance(uint32_t generation) const {
  const auto later = older_relevance_.find(generation);
  if (later != older_relevance_.end()) return later->second.get();
  const auto own = own_relevance_.find(generation);
  return own == own_relevance_.end() ? nullptr : own->second.get();
}

const RelevanceCurve* Reach::RelevanceOf(uint32_t query_generation, uint32_t item_generation, const Route& route,
                                         const std::optional<OlderShare>& older) const {
  if (query_generation == item_generation) return OwnRelevance(query_generation);
  if (older) {
    // The curve is that of the share which the validation chose.
    const auto both = both_.find({query_generation, item_generation});
    if (both == both_.end() || both->second.older != *older) return nullptr;
  }
  const AdapterMode way = route.item != nullptr    ? AdapterMode::kItem
                          : route.query != nullptr ? AdapterMode::kQuery
                                                   : AdapterMode::kNone;
  const auto found = relevance_.find({query_generation, item_generation, way, older.has_value()});
  return found == relevance_.end() ? nullptr : found->second.get();
}

std::map<std::pair<uint32_t, uint32_t>, uint64_t> Reach::VersionsOf(uint32_t generation) const {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> versions;
  for (const auto& [pair, adapter] : adapters_) {
    if (std::max(pair.first, pair.second) == generation) versions[pair] = adapter->status.version;
  }
  return versions;
}

bool Reach::Saw(uint32_t generation, const std::map<std::pair<uint32_t, uint32_t>, uint64_t>& seen) const {
  const auto in_service = [this](std::map<std::pair<uint32_t, uint32_t>, uint64_t> versions) {
    std::erase_if(versions, [this](const auto& entry) {
      const uint32_t older = std::min(entry.first.first, entry.first.second);
      return older >= 1 && older <= retired_.size() && retired_[older - 1];
    });
    return versions;
  };
  return in_service(VersionsOf(generation)) == in_service(seen);
}

bool Reach::IsNative(uint32_t query_generation, uint32_t item_generation) const {
  LC_DCHECK(query_generation >= 1 && query_generation <= native_.size());
  const std::vector<uint32_t>& native = native_[query_generation - 1];
  return std::binary_search(native.begin(), native.end(), item_generation);
}

const ServedAdapter* Reach::Between(uint32_t from, uint32_t to, AdapterMode mode) const {
  if (from == to || mode == AdapterMode::kNone) return nullptr;
  const AdapterDirection direction = DirectionOf(from, to);
  if (mode == AdapterMode::kQuery && direction != AdapterDirection::kQuery) return nullptr;
  if (mode == AdapterMode::kItem && direction != AdapterDirection::kItem) return nullptr;
  const auto found = adapters_.find({from, to});
  return found == adapters_.end() ? nullptr : found->second.get();
}

std::vector<const ServedAdapter*> Reach::Adapters(uint32_t a, uint32_t b) const {
  std::vector<const ServedAdapter*> between;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const ServedAdapter* const adapter = Between(from, to, AdapterMode::kDefault);
    if (adapter != nullptr) between.push_back(adapter);
  }
  return between;
}

Route Reach::To(uint32_t query_generation, uint32_t item_generation, AdapterMode mode) const {
  Route route;
  if (query_generation < 1 || query_generation > native_.size()) return route;
  const std::pair key(query_generation, item_generation);
  const auto best = best_.find(key);
  const auto won = calibrations_.find(key);
  if (mode == AdapterMode::kDefault) {
    if (best != best_.end()) mode = best->second;
    if (won != calibrations_.end()) route.calibration = won->second;
  }
  // Nothing finds candidates for an item adapter that every item is carried by.
  const bool every_item = mode == AdapterMode::kItem && best != best_.end() && best->second == AdapterMode::kItem;
  route.native = !every_item && IsNative(query_generation, item_generation);
  if (query_generation <= item_generation) return route;
  route.query = Between(query_generation, item_generation, mode);
  route.item = Between(item_generation, query_generation, mode);
  return route;
}

FusedRoute Reach::FusedTo(uint32_t query_generation, uint32_t item_generation, AdapterMode mode) const {
  FusedRoute fused;
  const auto both = both_.find({query_generation, item_generation});
  const bool measured = mode == AdapterMode::kDefault && both != both_.end();
  fused.route = To(query_generation, item_generation, measured ? both->second.beside : mode);
  fused.route.calibration.reset();  // It was learnt from distances by the new query alone.
  if (measured) fused.older = both->second.older;
  return fused;
}

}  // namespace lightcone::server
