// Adapters: rows a second beside the BLAS products of the same shapes, the cost of one query, the time of a fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "geometry/adapter.h"

namespace lightcone::bench {

// Medians over interleaved rounds, one thread.
struct AdapterFigures {
  double item_us = 0;        // a candidate, in batches of `rows`
  double blas_us = 0;        // a candidate, sgemm calls: in x out, and with hidden units in x width and width x out
  double share = 0;          // median of the rounds' quotients blas / item
  double share_spread = 0;   // (max - min) / median of them
  double query_us = 0;       // ApplyOne
  double blas_query_us = 0;  // the same products for one row
  std::string target;        // instruction set in use
};

struct AdapterBenchOptions {
  int dimension = 128;                           // of the input
  int output_dimension = 0;                      // 0: that of the input
  AdapterKind kind = AdapterKind::kResidualMlp;  // or kKernel, or kAffine
  AdapterDirection direction = AdapterDirection::kItem;
  int width = 512;           // 0 for kAffine
  std::size_t rows = 1'000;  // candidates of one re-ranking
  int rounds = 31;
};

// Runs for about a second at the defaults. Threads: one caller; BLAS is held to one thread meanwhile, where it is
// OpenBLAS.
absl::StatusOr<AdapterFigures> MeasureAdapters(const AdapterBenchOptions& options = {});

// Seconds that FitAdapter takes for `pairs` random pairs of `dimension` numbers in classes, residual-mlp of the usual
// width with reg+rel, all steps (no early stop), with the tensor library's threads as they are.
absl::StatusOr<double> MeasureAdapterFit(int64_t pairs, int dimension);

}  // namespace lightcone::bench
