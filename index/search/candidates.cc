#include "index/search/candidates.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lightcone {

void CandidateSet::Add(float score, double error, uint32_t segment, uint32_t row) {
  LC_DCHECK(!(score + error < floor_));
  rows_.push_back({static_cast<double>(score) + error, segment, row});
  const double lower = static_cast<double>(score) - error;
  if (lower_.size() < k_) {
    lower_.push_back(lower);
    std::push_heap(lower_.begin(), lower_.end(), std::greater<>());
  } else if (lower > lower_.front()) {
    std::pop_heap(lower_.begin(), lower_.end(), std::greater<>());
    lower_.back() = lower;
    std::push_heap(lower_.begin(), lower_.end(), std::greater<>());
  }
  if (lower_.size() == k_) floor_ = lower_.front();
  if (rows_.size() >= prune_at_) {
    Prune();
    // Many ties can make a pruning pointless: wait for twice as many, so that the cost per row stays constant.
    prune_at_ = std::max<size_t>(4096, 2 * rows_.size());
  }
}

void CandidateSet::Prune() {
  std::erase_if(rows_, [this](const Candidate& c) { return c.upper < floor_; });
}

std::vector<Candidate> CandidateSet::Take() {
  Prune();
  return std::exchange(rows_, {});
}

}  // namespace lightcone
