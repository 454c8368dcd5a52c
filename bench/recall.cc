#include "bench/recall.h"

#include <algorithm>
#include <chrono>

#include "bench/report.h"

namespace lightcone::bench {
namespace {

double MicrosecondsOf(const AskAll& ask, int64_t queries, int ef) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t q = 0; q < queries; ++q) (void)ask(q, ef);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(queries);
}

}  // namespace

double RecallOf(const AskAll& ask, const std::vector<Ids>& truth, int ef) {
  int64_t found = 0, wanted = 0;
  for (size_t q = 0; q < truth.size(); ++q) {
    for (const uint64_t id : ask(static_cast<int64_t>(q), ef)) {
      found += std::count(truth[q].begin(), truth[q].end(), id);
    }
    wanted += static_cast<int64_t>(truth[q].size());
  }
  return static_cast<double>(found) / static_cast<double>(std::max<int64_t>(1, wanted));
}

int BreadthForRecall(const AskAll& ask, const std::vector<Ids>& truth, double recall) {
  constexpr int kMax = 2'000;
  int low = 9, high = 10;
  while (high <= kMax && RecallOf(ask, truth, high) < recall) {
    low = high;
    high += std::max(2, high / 3);
  }
  if (high > kMax) return 0;
  while (high - low > std::max(1, high / 50)) {
    const int middle = (low + high) / 2;
    (RecallOf(ask, truth, middle) >= recall ? high : low) = middle;
  }
  return high;
}

RecallFigures MeasureAtRecall(const AskAll& ours, const AskAll& peer, const std::vector<Ids>& truth, double recall,
                              int rounds) {
  RecallFigures figures;
  figures.ef = BreadthForRecall(ours, truth, recall);
  figures.peer_ef = BreadthForRecall(peer, truth, recall);
  figures.reached = figures.ef > 0 && figures.peer_ef > 0;
  if (!figures.reached) return figures;
  std::vector<double> us, peer_us, ratios;
  const int64_t queries = static_cast<int64_t>(truth.size());
  for (int round = 0; round <= rounds; ++round) {
    const double of_ours = MicrosecondsOf(ours, queries, figures.ef);
    const double of_peer = MicrosecondsOf(peer, queries, figures.peer_ef);
    if (round == 0) continue;
    us.push_back(of_ours);
    peer_us.push_back(of_peer);
    ratios.push_back(of_ours / of_peer);
  }
  figures.us = Median(us);
  figures.peer_us = Median(peer_us);
  figures.ratio = Median(ratios);
  figures.spread = Spread(ratios);
  return figures;
}

}  // namespace lightcone::bench
