// The rows of a segment that a view serves and whose ids a search asks for: how many they are, a sample of them, and
// all of them.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "index/search/search_context.h"

namespace lightcone {

class PassingRows {
 public:
  // Refers to both.
  PassingRows(const SearchContext& context, const PinnedSegment& pinned);

  bool Passes(uint32_t row) const {
    if (ids_ != nullptr && !ids_->Contains(IdOf(row))) return false;
    return Served(row);
  }
  // Whether ForEach finds the rows without asking each one.
  bool listed() const;
  // The expected share of the segment's rows: that of the view times that of the ids, or that of a sample where ids are
  // in no order or tested one by one. Not counted(), it is wrong as far as other segments have the ids between its own.
  double Share() const;
  // Whether Share() needs no sample to be about right.
  bool counted() const { return gapless_ || sampled(); }
  // Some of the rows, spread over the segment: of up to `asked`, those that pass, and the others.
  struct Sampled {
    std::vector<uint32_t> passing, others;
    double share = 0;  // of those asked
  };
  Sampled Sample(int64_t asked = 1'024) const;
  // All of them in ascending order, some hundreds a call. Ends with the first error of `visit`; CANCELLED and
  // DEADLINE_EXCEEDED also where few pass.
  absl::Status ForEach(absl::FunctionRef<absl::Status(std::span<const uint32_t> rows)> visit) const;

 private:
  bool sampled() const { return ids_ != nullptr && (!pinned_.segment->ordered_by_id() || !ids_->tests.empty()); }
  // False: the tests hold for none of the rows begin .. end - 1.
  bool MayPass(int64_t begin, int64_t end) const;
  absl::Status ForEachListed(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const;
  // Where ids follow one another without a gap no memory is read.
  uint64_t IdOf(uint32_t row) const { return gapless_ ? first_id_ + row : pinned_.segment->block().ids[row]; }
  // By the view. A row's state is another place in memory: not looked at where all rows are served.
  bool Served(uint32_t row) const {
    return all_served_ ||
           pinned_.segment->states().Visible(row, context_.request.view_generation, context_.scope.sequence);
  }

  const SearchContext& context_;
  const PinnedSegment& pinned_;
  const IdFilter* const ids_;  // nullptr: any
  const double served_share_;
  const bool all_served_;
  uint64_t first_id_ = 0;
  bool gapless_ = false;
};

}  // namespace lightcone
