#include "index/view.h"

#include "base/status.h"
#include "index/adapted_rows.h"

namespace lightcone {
namespace {

absl::Status CheckAdapter(const SearchRequest& request, const Space& rows) {
  if (request.adapter->input_dimension() != rows.dimension) {
    return FailedPrecondition(StrCat("the adapter takes ", request.adapter->input_dimension(), " numbers; rows of ",
                                     "generation ", request.generation, " have ", rows.dimension));
  }
  if (request.adapted_query == nullptr) return InvalidField("adapted_query", "missing", "a bound query");
  if (!(Normalized(request.adapted_query->item_space()) == Normalized(request.adapter->target()))) {
    return FailedPrecondition("the adapted query is bound to another space than the adapter's target");
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const SearchRequest& request, const Space& rows) {
  if (request.adapter != nullptr) LC_RETURN_IF_ERROR(CheckAdapter(request, rows));
  if (request.query == nullptr && request.adapter == nullptr) return InvalidField("query", "missing", "a bound query");
  if (request.query != nullptr && !(Normalized(request.query->item_space()) == rows)) {
    return FailedPrecondition(
        StrCat("the query is bound to another space than that of generation ", request.generation));
  }
  if (request.k < 1) return InvalidField("k", StrCat(request.k), "1 or more");
  if (request.ef < 0) return InvalidField("ef", StrCat(request.ef), "0 (the default) or more");
  if (request.nprobe < 0) return InvalidField("nprobe", StrCat(request.nprobe), "0 (the default) or more");
  if (!(request.target_recall >= 0 && request.target_recall <= 1)) {
    return InvalidField("target_recall", StrCat(request.target_recall), "above 0, up to 1; or 0 for none");
  }
  return absl::OkStatus();
}

absl::Status CheckDamage(const ViewLeg& leg) {
  for (const PinnedSegment& pinned : leg.segments) {
    if (!pinned.segment->damaged()) continue;
    return Unavailable(StrCat("segment ", pinned.segment->id(), " of generation ", pinned.segment->generation(),
                              " is damaged; its rows are being taken from the store again: try again later"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<absl::StatusOr<SearchResult>> SegmentView::SearchTogether(std::span<const SearchRequest> requests) const {
  if (requests.empty()) return {};
  const uint32_t generation = requests[0].generation;
  const auto leg = legs_.find(generation);
  std::vector<absl::Status> checked;
  for (const SearchRequest& request : requests) {
    checked.push_back(leg == legs_.end() ? NotFound(StrCat("the index has no generation ", generation))
                                         : CheckRequest(request, leg->second->space));
  }
  if (leg == legs_.end()) return {checked.begin(), checked.end()};
  const absl::Status before = CheckDamage(*leg->second);
  for (absl::Status& status : checked) status.Update(before);
  std::vector<absl::StatusOr<SearchResult>> answers =
      SearchSegments({&leg->second->segments, sequence_, ef_default_, nprobe_default_}, requests, checked);
  const absl::Status after = CheckDamage(*leg->second);
  for (absl::StatusOr<SearchResult>& answer : answers) {
    if (answer.ok() && !after.ok()) answer = after;
  }
  return answers;
}

absl::Status SegmentView::Adapt(uint32_t generation, AdaptedRows* rows, const std::function<bool()>& cancelled) const {
  const auto leg = legs_.find(generation);
  if (leg == legs_.end()) return NotFound(StrCat("the index has no generation ", generation));
  for (const PinnedSegment& pinned : leg->second->segments) {
    for (int64_t begin = 0; begin + AdaptedRows::kRowsABlock <= pinned.rows; begin += AdaptedRows::kRowsABlock) {
      if (cancelled && cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "adapt: cancelled by the caller");
      if (rows->Get(pinned.segment, begin) == nullptr) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
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
