// Speed of the scoring kernels against the plain speed of the memory they read.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lightcone::bench {

// Medians over interleaved rounds, one thread. GiB are of vector data (factors and scores not counted).
struct GeometryFigures {
  double kernel_gib_per_s = 0;       // ScoreRows, one query
  double plain_read_gib_per_s = 0;   // summing the same bytes with the widest loads, nothing else
  double kernel_share_of_read = 0;   // median of the rounds' quotients: neighbours in time are compared
  double share_spread = 0;           // (max - min) / median of those quotients
  double gathered_gib_per_s = 0;     // ScoreRowsGathered, rows in random order
  double batch_gflop_per_s = 0;      // ScoreRowsBatch, `batch_queries` queries, multiply and add counted apart
  double batch_gib_per_s = 0;        // the same as if every query had read the rows itself
  double exact_ns_per_distance = 0;  // BoundQuery::Distance
  std::string target;                // instruction set in use
};

struct GeometryBenchOptions {
  std::size_t rows = 100'000;
  int dimension = 128;
  std::size_t batch_queries = 32;
  int rounds = 15;
};

// Reads `data` once with the widest registers, eight loads in flight, and does nothing else with it.
void ReadPlainly(std::span<const float> data);

// Runs for a few seconds at the defaults and takes rows * dimension * 4 bytes of memory.
GeometryFigures MeasureGeometry(const GeometryBenchOptions& options = {});

}  // namespace lightcone::bench
