// What a sealed segment of a collection should be, where the settings leave it to the server; and how much memory
// searches of it want. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "index/api/collection_index.h"

namespace lightcone {

// Up to here a scan of codes costs no more than a walk of the default breadth.
inline constexpr int64_t kScanRowsMax = 10'000;
// What is kept of a kind that fits again: less than this share of the limit, so that a collection at the limit does not
// change to and fro.
inline constexpr double kShareToReturn = 0.8;

struct KindChoice {
  SealedKind kind = SealedKind::kHnsw;  // never kAuto
  RowCodes codes = RowCodes::kInt8;     // never kAuto
  std::string reason;                   // of what was left open; empty where nothing was
};

// Bytes that searches of so many rows of this kind read all of, or at random, so that they have to be in memory: codes
// (or vectors), links, states. Of IVF segments only what no probe goes without: the lists themselves may stay on disk.
// REQUIRES: neither is kAuto.
int64_t HotBytes(const IndexSettings& settings, SealedKind kind, RowCodes codes, int dimension, int64_t rows);

struct ChoiceInput {
  int dimension = 0;
  int64_t rows = 0;                    // of the segment
  int64_t collection_rows = 0;         // of all segments
  int64_t memory_bytes_max = 0;        // of the collection; 0: no limit
  bool is_ivf = false, is_pq = false;  // the segment as it is now
};
KindChoice Choose(const IndexSettings& settings, const ChoiceInput& input);

}  // namespace lightcone
