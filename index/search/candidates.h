// The rows that can still belong to the k nearest, given float32 scores with a proven error bound.
//
// A row's exact score lies in [score - error, score + error]. Once k rows are known, the k-th largest lower end is a
// floor: a row whose upper end is below it cannot belong to the exact top k (spec 8.3 c). Rows at the floor stay, so
// ties are left to the exact ranking.
// Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/dcheck.h"

namespace lightcone {

struct Candidate {
  double upper = 0;      // score + error
  uint32_t segment = 0;  // index into the search's list of segments
  uint32_t row = 0;
};

class CandidateSet {
 public:
  // REQUIRES: k >= 1.
  explicit CandidateSet(int64_t k) : k_(static_cast<size_t>(k)) { LC_DCHECK(k >= 1); }

  // No row whose score + error is below this belongs to the top k; -inf until k rows are known.
  double floor() const { return floor_; }

  // Adds a visible row that passed the filter. REQUIRES: score + error >= floor().
  void Add(float score, double error, uint32_t segment, uint32_t row);

  // The rows to rank exactly, in no particular order: a superset of the top k of all rows added.
  std::vector<Candidate> Take();

 private:
  void Prune();

  size_t k_;
  double floor_ = -std::numeric_limits<double>::infinity();
  size_t prune_at_ = 4096;
  std::vector<double> lower_;  // min-heap of the k largest lower ends
  std::vector<Candidate> rows_;
};

}  // namespace lightcone
