// The benchmarks, one function a subject. Each adds its figures, measured beside the raw part in the same run.
// Threads: one caller at a time; they use the whole machine.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "bench/report.h"

namespace lightcone::bench {

struct BenchOptions {
  std::string folder;         // scratch space on the disk to be measured
  std::string server_binary;  // `lightcone`
  int64_t items = 200'000;    // of the search benchmarks
  int64_t scan_items = 1'000'000;
  int64_t life_items =
      1'000'000;  // of start, which also takes four times as many, of growth, and of rollout's activations
  int64_t gpu_items = 10'000'000;  // on the device
  int dimension = 128;
  std::string images = "glyphs";  // of OpenDataset: their SIFT descriptors are the graph benchmark's real data
};

absl::Status BenchGeometry(const BenchOptions& options, Report& report);
absl::Status BenchAdapters(const BenchOptions& options, Report& report);
absl::Status BenchAdapted(const BenchOptions& options, Report& report);  // legs behind an item adapter
absl::Status BenchUpsert(const BenchOptions& options, Report& report);
absl::Status BenchSearch(const BenchOptions& options, Report& report);     // start, memory, gRPC overhead
absl::Status BenchScan(const BenchOptions& options, Report& report);       // exact search, by vectors and by codes
absl::Status BenchGraph(const BenchOptions& options, Report& report);      // HNSW beside hnswlib and FAISS
absl::Status BenchIvf(const BenchOptions& options, Report& report);        // inverted lists beside FAISS
absl::Status BenchIngest(const BenchOptions& options, Report& report);     // searches beside writers
absl::Status BenchRebuild(const BenchOptions& options, Report& report);    // and during a rebuild of the gallery
absl::Status BenchPrograms(const BenchOptions& options, Report& report);   // starts and memory without items
absl::Status BenchStart(const BenchOptions& options, Report& report);      // of a server, until its first answer
absl::Status BenchRest(const BenchOptions& options, Report& report);       // beside gRPC; connections that idle
absl::Status BenchPython(const BenchOptions& options, Report& report);     // its client beside the C++ client
absl::Status BenchEndpoint(const BenchOptions& options, Report& report);   // how busy a backfill keeps it
absl::Status BenchKeys(const BenchOptions& options, Report& report);       // what the check of a caller costs
absl::Status BenchTraces(const BenchOptions& options, Report& report);     // of every call beside none
absl::Status BenchTls(const BenchOptions& options, Report& report);        // searches with and without encryption
absl::Status BenchSnapshots(const BenchOptions& options, Report& report);  // their time, waits, bytes, and a restore
absl::Status BenchOverload(const BenchOptions& options, Report& report);   // at four times what saturates
absl::Status BenchGrowth(const BenchOptions& options, Report& report);     // over three sizes of gallery
absl::Status BenchRollout(const BenchOptions& options, Report& report);    // activation, rollback, backfill
absl::Status BenchMemory(const BenchOptions& options, Report& report);     // bytes a vector of an int8 graph
absl::Status BenchMixed(const BenchOptions& options, Report& report);      // one view over several generations
absl::Status BenchFilters(const BenchOptions& options, Report& report);    // filtered beside unfiltered searches
absl::Status BenchGpu(const BenchOptions& options, Report& report);        // exact search by a CUDA device
absl::Status BenchTraining(const BenchOptions& options, Report& report);

}  // namespace lightcone::bench
