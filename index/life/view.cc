#include "index/life/view.h"

#include <algorithm>

#include "base/status.h"
#include "index/adapted/carried_search.h"
#include "index/adapted/carried_segments.h"
#include "index/rows/adapted_rows.h"

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
  std::vector<absl::StatusOr<SearchResult>> answers(requests.size(), SearchResult());
  std::vector<ScopedRequest> asked;
  std::vector<size_t> places;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto leg = legs_.find(requests[i].generation);
    absl::Status status = leg == legs_.end() ? NotFound(StrCat("the index has no generation ", requests[i].generation))
                                             : CheckRequest(requests[i], leg->second->space);
    if (status.ok()) status = CheckDamage(*leg->second);
    if (!status.ok()) {
      answers[i] = status;
      continue;
    }
    asked.push_back({{&leg->second->segments, sequence_, ef_default_, nprobe_default_}, &requests[i]});
    places.push_back(i);
  }
  auto found = SearchLegs(asked);
  for (size_t i = 0; i < found.size(); ++i) {
    const absl::Status after = CheckDamage(*legs_.find(requests[places[i]].generation)->second);
    if (found[i].ok() && !after.ok()) found[i] = after;
    answers[places[i]] = std::move(found[i]);
  }
  return answers;
}

absl::Status SegmentView::KeepCarried(uint32_t generation, CarriedSegments* carried) const {
  std::vector<uint64_t> ids;
  if (const auto leg = legs_.find(generation); leg != legs_.end()) {
    for (const PinnedSegment& pinned : leg->second->segments) ids.push_back(pinned.segment->id());
  }
  return carried->KeepOnly(ids);
}

absl::Status SegmentView::Adapt(uint32_t generation, AdaptedRows* rows, CarriedSegments* carried,
                                const IndexSettings& settings, const std::function<bool()>& cancelled) const {
  const auto leg = legs_.find(generation);
  if (leg == legs_.end()) return NotFound(StrCat("the index has no generation ", generation));
  std::vector<uint64_t> ids;
  for (const PinnedSegment& pinned : leg->second->segments) ids.push_back(pinned.segment->id());
  absl::Status status = carried == nullptr ? absl::OkStatus() : carried->KeepOnly(ids);
  const std::function<bool()> stop = [&] { return cancelled && cancelled(); };
  for (const PinnedSegment& pinned : leg->second->segments) {
    if (stop()) return MakeStatus(absl::StatusCode::kCancelled, "adapt: cancelled by the caller");
    const auto sealed = std::dynamic_pointer_cast<const SealedSegment>(pinned.segment);
    if (carried != nullptr && sealed != nullptr) {
      const absl::Status one = carried->Carry(sealed, settings, stop);
      if (absl::IsCancelled(one)) return one;
      status.Update(one);
    }
    if (rows == nullptr) continue;
    if (carried != nullptr && carried->Find(pinned.segment) != nullptr) {
      rows->Forget(pinned.segment);
      continue;
    }
    for (int64_t begin = 0; begin + AdaptedRows::kRowsABlock <= pinned.rows; begin += AdaptedRows::kRowsABlock) {
      if (stop()) return MakeStatus(absl::StatusCode::kCancelled, "adapt: cancelled by the caller");
      if (rows->Get(pinned.segment, begin) == nullptr) break;
    }
  }
  return status;
}

int64_t SegmentView::VisibleRows(uint32_t generation, uint32_t view_generation) const {
  const auto leg = legs_.find(generation);
  if (leg == legs_.end()) return 0;
  int64_t rows = 0;
  for (const PinnedSegment& pinned : leg->second->segments) rows += pinned.counts->Visible(view_generation);
  return rows;
}

std::vector<SampledRow> SegmentView::SampleRows(std::span<const uint32_t> generations, uint32_t view_generation,
                                                int64_t asked) const {
  std::vector<const PinnedSegment*> segments;
  int64_t rows = 0;
  for (const uint32_t generation : generations) {
    const auto leg = legs_.find(generation);
    if (leg == legs_.end()) continue;
    for (const PinnedSegment& pinned : leg->second->segments) {
      segments.push_back(&pinned);
      rows += pinned.rows;
    }
  }
  asked = std::min(asked, rows);
  std::vector<SampledRow> sample;
  int64_t next = 0, begin = 0;  // next place in the sample; first row of the segment among all rows
  for (const PinnedSegment* pinned : segments) {
    const Segment& segment = *pinned->segment;
    for (; next < asked && next * rows / asked < begin + pinned->rows; ++next) {
      const size_t row = static_cast<size_t>(next * rows / asked - begin);
      if (!segment.states().Visible(row, view_generation, sequence_)) continue;
      sample.push_back({segment.block().ids[row], segment.generation(), segment.block().uncertainty[row]});
    }
    begin += pinned->rows;
  }
  return sample;
}

std::vector<uint32_t> SegmentView::Generations(uint32_t view_generation) const {
  std::vector<uint32_t> generations;
  for (const auto& [generation, leg] : legs_) {
    if (VisibleRows(generation, view_generation) > 0) generations.push_back(generation);
  }
  return generations;
}

void PublishedView::Publish(uint64_t sequence, int ef_default, int nprobe_default) {
  auto view = std::make_shared<const SegmentView>(legs_, sequence, ef_default, nprobe_default);
  absl::MutexLock lock(&mu_);
  view_.swap(view);
}

}  // namespace lightcone
