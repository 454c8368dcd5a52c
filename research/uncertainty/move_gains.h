// What embedding one item anew does to a query's average precision: the oracle of a backfill
// (research/notes/uncertainty.md). No torch here. Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lightcone {

// For one query: by how much its average precision changes when item j alone moves from distance before[j] to after[j].
// n numbers each, finite; `relevant` is not 0 for items of the query's class. Item `own` is left out (0), and counts
// for no rank. Equal distances: the lower index is nearer; an item that moves stands before those at its new distance,
// one that does not stays where it is. All 0 without a relevant item. O(n log n).
std::vector<double> MoveGains(std::span<const double> before, std::span<const double> after,
                              std::span<const uint8_t> relevant, size_t own);

}  // namespace lightcone
