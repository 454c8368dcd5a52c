// A row and how near it is to a query.
// Threads: values.
#pragma once

#include <cstdint>

namespace lightcone {

struct ScoredRow {
  float score = 0;  // higher is nearer
  uint32_t row = 0;
};

// Orders of scores, for heaps and sorts. Objects, not functions, so that callers inline them.
inline constexpr auto Better = [](const auto& x, const auto& y) { return x.score > y.score; };
inline constexpr auto Worse = [](const auto& x, const auto& y) { return x.score < y.score; };

}  // namespace lightcone
