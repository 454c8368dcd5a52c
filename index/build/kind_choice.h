// Chooses the kind and the codes of a sealed segment where the settings leave them open, and tells the memory that its
// searches need. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "index/api/collection_index.h"

namespace lightcone {

// Rows up to which a scan of codes costs no more than a beam search with the default `ef`.
inline constexpr int64_t kScanRowsMax = 10'000;
// A collection returns to a larger kind once that takes less than this share of the limit, so that a collection at the
// limit does not change to and fro.
inline constexpr double kShareToReturn = 0.8;

struct KindChoice {
  SealedKind kind = SealedKind::kHnsw;  // never kAuto
  RowCodes codes = RowCodes::kInt8;     // never kAuto
  std::string reason;                   // why the open settings became so; empty without open ones
};

// Bytes that searches of so many rows read whole or at random, so that memory has to hold them: codes (or vectors),
// links, states. Of IVF segments only what every probe reads: the lists themselves may stay on disk.
// REQUIRES: neither is kAuto.
int64_t HotBytes(const IndexSettings& settings, SealedKind kind, RowCodes codes, int dimension, int64_t rows);

struct ChoiceInput {
  int dimension = 0;
  int64_t rows = 0;                    // rows of the segment
  int64_t collection_rows = 0;         // rows of all segments
  int64_t memory_bytes_max = 0;        // limit of the collection; 0: no limit
  bool is_ivf = false, is_pq = false;  // present kind of the segment
};
KindChoice Choose(const IndexSettings& settings, const ChoiceInput& input);

}  // namespace lightcone
