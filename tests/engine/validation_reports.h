// Parts of validations' reports, and states of a collection, for the tests of what the gate makes of them.
#pragma once

#include <utility>
#include <vector>

#include "server/engine/api/validation_types.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

inline PairReport PairWith(std::vector<WayReport> ways) {
  PairReport pair;
  pair.ways = std::move(ways);
  return pair;
}
inline WayReport WayWith(AdapterMode mode, double map, double gain, double low, bool dips = false,
                         bool in_reach = true) {
  WayReport way;
  way.way = mode;
  way.in_reach = in_reach;
  way.figures.map = {map, map, map, 100};
  way.cmc1_gain = way.map_gain = {gain, low, gain, 100};
  way.dips = dips;
  return way;
}

inline CollectionState StateOf(uint32_t generations) {
  CollectionState state;
  for (uint32_t g = 1; g <= generations; ++g) {
    GenerationRecord record;
    record.generation = g;
    state.generations.push_back(record);
  }
  state.reach = Reach(state.generations, {});
  return state;
}

}  // namespace lightcone::server
