#include "research/uncertainty/move_gains.h"

#include <algorithm>
#include <numeric>

namespace lightcone {
namespace {

// The query's ranking, and sums over its relevant items in front of a position of the precision there: as it is, and
// with an item, relevant or not, more or fewer in front of them.
struct Ranking {
  std::vector<size_t> order;
  std::vector<double> distances;
  std::vector<double> found;  // number of relevant items before positions 0 .. m
  std::vector<double> as_is, one_more, hit_more, one_less, hit_less;  // sums before positions 0 .. m
};

Ranking Rank(std::span<const double> before, std::span<const uint8_t> relevant, size_t own) {
  Ranking r;
  for (size_t j = 0; j < before.size(); ++j) {
    if (j != own) r.order.push_back(j);
  }
  std::stable_sort(r.order.begin(), r.order.end(), [&](size_t a, size_t b) { return before[a] < before[b]; });
  const size_t m = r.order.size();
  for (std::vector<double>* sums : {&r.found, &r.as_is, &r.one_more, &r.hit_more, &r.one_less, &r.hit_less}) {
    sums->assign(m + 1, 0.0);
  }
  for (size_t p = 0; p < m; ++p) {
    r.distances.push_back(before[r.order[p]]);
    const bool hit = relevant[r.order[p]] != 0;
    const double rank = static_cast<double>(p + 1), hits = r.found[p] + (hit ? 1 : 0);
    r.found[p + 1] = hits;
    r.as_is[p + 1] = r.as_is[p] + (hit ? hits / rank : 0);
    r.one_more[p + 1] = r.one_more[p] + (hit ? hits / (rank + 1) : 0);
    r.hit_more[p + 1] = r.hit_more[p] + (hit ? (hits + 1) / (rank + 1) : 0);
    // Nothing is in front of position 0 that could leave.
    r.one_less[p + 1] = r.one_less[p] + (hit && p > 0 ? hits / (rank - 1) : 0);
    r.hit_less[p + 1] = r.hit_less[p] + (hit && p > 0 ? (hits - 1) / (rank - 1) : 0);
  }
  return r;
}

double Between(const std::vector<double>& sums, size_t begin, size_t end) { return sums[end] - sums[begin]; }

}  // namespace

std::vector<double> MoveGains(std::span<const double> before, std::span<const double> after,
                              std::span<const uint8_t> relevant, size_t own) {
  const Ranking r = Rank(before, relevant, own);
  std::vector<double> gains(before.size(), 0.0);
  const double all = r.found.back();
  if (all == 0) return gains;
  for (size_t p = 0; p < r.order.size(); ++p) {
    const size_t item = r.order[p];
    if (after[item] == before[item]) continue;  // the item keeps its place, also among equal distances
    const bool hit = relevant[item] != 0;
    // Position among all of them, the item itself among them.
    const size_t to = static_cast<size_t>(std::lower_bound(r.distances.begin(), r.distances.end(), after[item]) -
                                          r.distances.begin());
    double gain = 0;
    if (to <= p) {  // the item moves nearer: items from `to` on get one more before them
      gain = Between(hit ? r.hit_more : r.one_more, to, p) - Between(r.as_is, to, p);
      if (hit) gain += (r.found[to] + 1) / static_cast<double>(to + 1) - Between(r.as_is, p, p + 1);
    } else {  // the item moves farther: items between lose one, and it ends at rank `to`
      gain = Between(hit ? r.hit_less : r.one_less, p + 1, to) - Between(r.as_is, p + 1, to);
      if (hit) gain += r.found[to] / static_cast<double>(to) - Between(r.as_is, p, p + 1);
    }
    gains[item] = gain / all;
  }
  return gains;
}

}  // namespace lightcone
