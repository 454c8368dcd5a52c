// Two trained models in a server of their own, on loopback: what their queries find through Search.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {

struct ServedPair {
  std::string query, gallery;  // folders of the models that embed queries and items; the same: one generation
  std::string adapter;         // file of an adapter between the two, or empty
  std::string binary;          // of the server to start; empty: this program
  int64_t queries_max = 0;     // of the test images, drawn from `seed`; 0: all
  uint64_t seed = 1;
};

// Retrieval figures (docs/training.md, Evaluation) with a share of the items embedded by the query model.
struct ServedPoint {
  double share = 0;
  double cmc1 = 0, cmc5 = 0, map = 0;
};

struct ServedFigures {
  std::vector<ServedPoint> points;  // in the order asked for
  int64_t queries = 0;
  std::string how;  // "native" (parent and child), "item adapter", "query adapter", "override of the reach", "itself"
};

// Starts a server over a temporary folder, registers the gallery's model and, behind it, the queries' model (as child
// of the other where its manifest says that they compare, else behind the adapter, else with the reach overridden),
// upserts the test images and measures, exactly, at each share of `shares` (ascending, of nested random sets). Errors
// of the models' files, of the server, and INVALID_ARGUMENT for shares that do not ascend within 0 .. 1.
absl::StatusOr<ServedFigures> MeasureServed(const ServedPair& pair, const Dataset& dataset,
                                            const std::vector<double>& shares);

}  // namespace lightcone::cli
