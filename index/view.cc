#include "index/view.h"

#include "base/status.h"

namespace lightcone {

absl::StatusOr<SearchResult> SegmentView::Search(const SearchRequest& request) const {
  const auto leg = legs_.find(request.generation);
  if (leg == legs_.end()) return NotFound(StrCat("the index has no generation ", request.generation));
  if (request.query == nullptr) return InvalidField("query", "missing", "a bound query");
  if (!(Normalized(request.query->item_space()) == leg->second->space)) {
    return FailedPrecondition(
        StrCat("the query is bound to another space than that of generation ", request.generation));
  }
  return SearchSegments({&leg->second->segments, sequence_, ef_default_}, request);
}

int64_t SegmentView::VisibleRows(uint32_t generation, uint32_t view_generation) const {
  const auto leg = legs_.find(generation);
  if (leg == legs_.end()) return 0;
  int64_t rows = 0;
  for (const PinnedSegment& pinned : leg->second->segments) rows += pinned.counts->Visible(view_generation);
  return rows;
}

std::vector<uint32_t> SegmentView::Generations(uint32_t view_generation) const {
  std::vector<uint32_t> generations;
  for (const auto& [generation, leg] : legs_) {
    if (VisibleRows(generation, view_generation) > 0) generations.push_back(generation);
  }
  return generations;
}

}  // namespace lightcone
