// What the trainer's benchmarks share. Only .cc files of bench/ that include torch include this.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bench/report.h"
#include "bench/training_bench.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/run_torch.h"
#include "trainer/tensor_threads.h"

namespace lightcone::bench {

// Random pixels: 4,096 colour images of 32 x 32 in 100 classes.
Dataset SyntheticPhotos();

// 4-dimensional parameters channels-last, as trainings hold them.
void UseChannelsLast(torch::nn::Module& module);

// The recipe "quick" with this method, metric ("lorentz", "cosine") and architecture, resolved; its old model stands in
// `folder`, written when it is not there.
absl::StatusOr<TrainConfig> ConfigOf(const Dataset& dataset, const std::string& folder, const std::string& method,
                                     const std::string& metric, const std::string& architecture, int64_t batch);

// Seconds of `n` calls.
template <typename Call>
double SecondsOf(int n, Call call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median seconds of a call of each side over `n` turns of one call each, so that what else the machine does for a while
// falls on both.
template <typename Ours, typename Peer>
std::pair<double, double> SecondsByTurns(int n, Ours ours, Peer peer) {
  std::vector<double> our_seconds, peer_seconds;
  for (int i = 0; i < n; ++i) {
    our_seconds.push_back(SecondsOf(1, ours));
    peer_seconds.push_back(SecondsOf(1, peer));
  }
  return {Median(our_seconds), Median(peer_seconds)};
}

// Two sides measured by turns. The ratios are ours / peer.
class Rounds {
 public:
  void Add(double ours, double peer) {
    ours_.push_back(ours);
    peer_.push_back(peer);
    ratios_.push_back(ours / peer);
  }
  Compared Result() const {
    const double ratio = Median(ratios_);
    return {Median(ours_), Median(peer_), ratio, Spread(ratios_) / ratio};
  }

 private:
  std::vector<double> ours_, peer_, ratios_;
};

}  // namespace lightcone::bench
