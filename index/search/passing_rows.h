// The rows of a segment that pass: the view serves them and the request asks for their ids. Their share, a sample, and
// all of them.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "index/search/scoped_request.h"

namespace lightcone {

class PassingRows {
 public:
  static constexpr size_t kRowsACall = 512;

  // Refers to both.
  PassingRows(const ScopedRequest& scoped, const PinnedSegment& pinned);

  bool Passes(uint32_t row) const {
    if (ids_ != nullptr && !ids_->Contains(IdOf(row))) return false;
    return Served(row);
  }
  // Whether ForEach finds the rows without asking each one.
  bool listed() const;
  // The expected share of the segment's rows: the view's share times the ids' share, or the share of a sample where ids
  // have no order or are tested one by one. Unless counted(), it is wrong as far as ids of other segments lie between
  // the segment's own.
  double Share() const;
  // Whether Share() is about right without a sample.
  bool counted() const { return gapless_ || sampled(); }
  // Up to `asked` rows, spread over the segment: those that pass, and the others.
  struct Sampled {
    std::vector<uint32_t> passing, others;
    double share = 0;  // share of the passing rows
  };
  Sampled Sample(int64_t asked = 1'024) const;
  // Calls `visit` with all passing rows in ascending order, at most kRowsACall a call. Returns the first error of
  // `visit`; CANCELLED and DEADLINE_EXCEEDED also where few rows pass.
  absl::Status ForEach(absl::FunctionRef<absl::Status(std::span<const uint32_t> rows)> visit) const;

 private:
  bool sampled() const { return ids_ != nullptr && (!pinned_.segment->ordered_by_id() || !ids_->tests.empty()); }
  // False: none of the rows begin .. end - 1 meets the tests.
  bool MayPass(int64_t begin, int64_t end) const;
  absl::Status ForEachListed(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const;
  // Reads no memory where ids follow one another without a gap.
  uint64_t IdOf(uint32_t row) const { return gapless_ ? first_id_ + row : pinned_.segment->block().ids[row]; }
  // Whether the view serves the row. A row's state is another place in memory, which is not read where all are served.
  bool Served(uint32_t row) const {
    return all_served_ ||
           pinned_.segment->states().Visible(row, scoped_.request->view_generation, scoped_.scope.sequence);
  }

  const ScopedRequest& scoped_;
  const PinnedSegment& pinned_;
  const IdFilter* const ids_;  // nullptr: all ids pass
  const double served_share_;
  const bool all_served_;
  uint64_t first_id_ = 0;
  bool gapless_ = false;
};

}  // namespace lightcone
