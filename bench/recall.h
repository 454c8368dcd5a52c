// Two ways to answer the same queries, timed side by side at one recall.
// Threads: one caller; one thread asks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace lightcone::bench {

using Ids = std::vector<uint64_t>;
using AskAll = std::function<Ids(int64_t q, int ef)>;

struct RecallFigures {
  bool reached = false;  // both reach the recall at some breadth
  int ef = 0, peer_ef = 0;
  double us = 0, peer_us = 0;  // a query, medians of the rounds
  double ratio = 0;            // median of the rounds' us / peer_us
  double spread = 0;           // (max - min) / median of them
};

// The share of the true neighbours that `ask` finds at this breadth.
double RecallOf(const AskAll& ask, const std::vector<Ids>& truth, int ef);

// The least breadth, to one in fifty, at which the recall is at least `recall`; 0: none up to 2,000.
int BreadthForRecall(const AskAll& ask, const std::vector<Ids>& truth, double recall);

// Every query, in turns of both ways, `rounds` times after one to warm up; each way at its least breadth.
RecallFigures MeasureAtRecall(const AskAll& ours, const AskAll& peer, const std::vector<Ids>& truth, double recall,
                              int rounds);

}  // namespace lightcone::bench
