// Two trained models in a server of their own, on loopback: what their queries find through Search.
// Threads: one caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {

struct ServedPair {
  std::string query, gallery;  // folders of the models that embed queries and items; the same: one generation
  std::string adapter;         // file of an adapter between the two, or empty
  std::string binary;          // program of the server to start; empty: lightcone beside this one
  int64_t queries_max = 0;     // most test images, drawn from `seed`; 0: all
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;  // CANCELLED once it is set; may be null
  // In which order items are embedded anew: "random" (drawn from `seed`), or as the server's own backfill leases them:
  // "neighbourhood", or by the failure head in this file.
  std::string order = "random";
};

// Retrieval figures (docs/reference/evaluation.md) with a share of the items embedded by the query model.
struct ServedPoint {
  double share = 0;
  double cmc1 = 0, cmc5 = 0, map = 0;
};

struct ServedFigures {
  std::vector<ServedPoint> points;  // points in the order of the request
  int64_t queries = 0;              // asked
  // Under the server's order: how well it tells the items that the query model will retrieve wrongly, behind the
  // adapter where there is one (docs/concepts/uncertainty.md); empty where all or none are.
  std::optional<double> auroc;
  std::string how;  // "native" (parent and child), "item adapter", "query adapter", "override of the reach", "itself"
};

// Starts a server over a temporary folder, registers the gallery's model and, behind it, the queries' model (behind the
// adapter where there is one; as its child where it was trained against the gallery's; else with the reach overridden,
// which takes vectors of one length), upserts the test images and measures, exactly, at each share of `shares`
// (ascending, of nested sets in the given order), each test image against all others. Errors of the files of models,
// adapter and failure head, of the server, and INVALID_ARGUMENT: shares that do not ascend within 0 .. 1, an adapter
// with one model or between other spaces, a failure head for another dimension, no way from one model to the other, a
// data set with a protocol of its own; the server's order with one model, or where only an override leads from one to
// the other. All but the server's come before anything is embedded.
absl::StatusOr<ServedFigures> MeasureServed(const ServedPair& pair, const Dataset& dataset,
                                            const std::vector<double>& shares);

}  // namespace lightcone::cli
