// A chain of generations in one server of their own, on loopback: what the queries of each find in the gallery of each
// older one, through Search. Threads: one caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {

struct ServedChain {
  std::vector<std::string> models;  // folders, oldest first; each trained against the one before it
  std::string binary;               // program of the server to start; empty: lightcone beside this one
  int64_t queries_max = 0;          // most test images, drawn from `seed`; 0: all
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;  // CANCELLED once it is set; may be null
};

// Queries of model `query` while model `gallery` has embedded every item.
struct ChainCell {
  int query = 0, gallery = 0;  // query >= gallery
  double cmc1 = 0, cmc5 = 0, map = 0;
};

// Starts a server over a temporary folder and registers all models in one collection, each as the child of the one
// before. Then generation after generation is activated and embeds all test images anew, and the queries of it and of
// every newer one are measured, exactly, over the reach that the chain gives them, each test image against all others.
// Cells by gallery, then by query. Errors of the models' files and of the server, and INVALID_ARGUMENT: fewer than two
// models, one that was not trained against the one before it, a data set with a protocol of its own.
absl::StatusOr<std::vector<ChainCell>> MeasureServedChain(const ServedChain& chain, const Dataset& dataset);

}  // namespace lightcone::cli
