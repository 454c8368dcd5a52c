// What `lightcone bench` fills a collection with and asks for. Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::cli {

// Row-major float32 vectors, all of `dimension`.
struct LoadVectors {
  int dimension = 0;
  std::vector<float> items, queries;

  int64_t item_count() const { return dimension == 0 ? 0 : static_cast<int64_t>(items.size()) / dimension; }
  int64_t query_count() const { return dimension == 0 ? 0 : static_cast<int64_t>(queries.size()) / dimension; }
  std::span<const float> item(int64_t i) const { return Row(items, i); }
  std::span<const float> query(int64_t i) const { return Row(queries, i); }

 private:
  std::span<const float> Row(const std::vector<float>& rows, int64_t i) const {
    const size_t d = static_cast<size_t>(dimension);
    return std::span<const float>(rows).subspan(static_cast<size_t>(i) * d, d);
  }
};

struct LoadSource {
  std::string data = "random-clustered";  // a name, or a file: npy, fvecs, bvecs, jsonl
  std::string queries;                    // a file; empty: rows held out of the data
  int64_t items = 0;                      // most rows; 0: 100,000 clustered rows, or the whole file
  int64_t query_count = 1000;             // most queries
  int dimension = 128;                    // property of clustered vectors
  int clusters = 500;                     // property of clustered vectors
  uint64_t seed = 1;
};

// Reads or draws them. Clustered: centres of norm 1, each row one of them plus Gaussian noise of norm 0.7, in random
// order; queries are drawn alike. Of a file without `queries`, its last rows are the queries.
// INVALID_ARGUMENT names the field: counts below 1, a dimension below 2, a file with too few rows, rows or queries of
// different dimensions; errors of OpenRows.
absl::StatusOr<LoadVectors> MakeLoadVectors(const LoadSource& source);

// The vectors of a whole file, at most `rows_max` of them (0: all); sets `dimension`, which has to be 0 or theirs.
absl::StatusOr<std::vector<float>> ReadVectors(const std::string& path, int64_t rows_max, int* dimension);

}  // namespace lightcone::cli
