#include "index/search/segment_search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "index/graph/graph_walk.h"
#include "index/search/adapted_ranking.h"
#include "index/search/device_search.h"
#include "index/search/late_filter.h"
#include "index/search/leg_search.h"
#include "index/search/scan_queue.h"
#include "index/search/search_context.h"

namespace lightcone {

struct RunningSearch;

// A segment and the searches that scan it, each under its own number.
struct SegmentScan {
  const PinnedSegment* pinned = nullptr;
  std::vector<std::pair<RunningSearch*, uint32_t>> by;
};

// A search that is under way, and where its answer goes.
struct RunningSearch {
  std::unique_ptr<LegSearch> search;
  absl::StatusOr<SearchResult>* answer = nullptr;
  std::vector<uint32_t> scan;   // segments to be scanned
  std::vector<uint32_t> again;  // to be entered again

  // False, and the answer given, unless the status is OK.
  bool Goes(const absl::Status& status) {
    if (!status.ok()) *answer = status;
    return status.ok();
  }
};

namespace {

absl::StatusOr<SearchResult> AdaptAll(const ScopedRequest& scoped) {
  const SearchContext context{scoped.scope, *scoped.request};
  AdaptedRanking ranking(context);
  LC_RETURN_IF_ERROR(ranking.AddAll());
  return ranking.Take();
}

// Whether walks of the two may go on together: legs of one query whose scores mean the same distances.
bool GoTogether(const SearchRequest& x, const SearchRequest& y) {
  const Space &a = x.query->item_space(), &b = y.query->item_space();
  if (x.target_recall > 0 || y.target_recall > 0) return false;  // measured by walks that went alone
  return x.query_number == y.query_number && x.query_number != 0 && x.adapter == nullptr && y.adapter == nullptr &&
         a.metric == b.metric && Normalized(a).curvature == Normalized(b).curvature;
}

absl::StatusOr<std::vector<WalkResult>> WalkEach(std::span<const WalkTask> tasks,
                                                 absl::FunctionRef<absl::Status()> interrupted) {
  std::vector<WalkResult> results;
  for (size_t i = 0; i < tasks.size(); ++i) {
    LC_ASSIGN_OR_RETURN(std::vector<WalkResult> one, WalkTogether(tasks.subspan(i, 1), interrupted));
    results.push_back(std::move(one[0]));
  }
  return results;
}

// What walks of kind kLate met is left as far as it is accepted. False where all together have met too little that is;
// of those that went alone, each that has gave up.
bool LeaveAccepted(std::span<RunningSearch* const> searches, bool alone, std::vector<WalkResult>& walked) {
  std::vector<std::vector<MetRow>> met(alone ? walked.size() : 1);
  std::vector<std::pair<const LegSearch*, size_t>> by_number;  // and which of its walks
  int64_t wanted = 0;
  double floor = -std::numeric_limits<double>::infinity();
  for (RunningSearch* one : searches) {
    wanted = std::max(wanted, one->search->wanted());
    floor = std::max(floor, one->search->floor());
    for (size_t i = 0; i < one->search->walks(WalkKind::kLate); ++i) {
      const size_t number = by_number.size();
      by_number.emplace_back(one->search.get(), i);
      one->search->AddMet(walked[number], i, number, met[alone ? number : 0]);
    }
  }
  for (WalkResult& walk : walked) walk.rows.clear();
  const auto accepts = [&](const MetRow& row) {
    const auto& [search, walk] = by_number[row.walk];
    return search->AcceptsMet(walk, row.row);
  };
  LowerEnds ends(wanted, floor);
  std::vector<std::optional<std::vector<MetRow>>> accepted(met.size());
  // Alone twice: what one has met may say of another, whichever is first, that nothing farther is wanted there.
  for (int turn = 0; turn < (alone ? 2 : 1); ++turn) {
    for (size_t group = 0; group < met.size(); ++group) {
      if (!accepted[group]) accepted[group] = NearestAccepted(met[group], wanted, ends, accepts);
    }
  }
  for (size_t group = 0; group < met.size(); ++group) {
    if (!accepted[group] && !alone) return false;
    if (!accepted[group]) walked[group].gave_up = true;
    if (!accepted[group]) continue;
    for (const MetRow& row : *accepted[group]) walked[row.walk].rows.push_back({row.score, row.row});
  }
  return true;
}

// Walks of kind kLate: together, and where that met too little each alone, which looks so many times farther, if what
// is left then is to ask an expensive filter about every row. Those by ids have other ways to go on.
absl::StatusOr<std::vector<WalkResult>> WalkLate(std::span<RunningSearch* const> searches, bool alone,
                                                 std::span<const WalkTask> tasks,
                                                 absl::FunctionRef<absl::Status()> interrupted) {
  std::vector<WalkResult> together(tasks.size());
  if (!alone && tasks.size() > 1) {
    LC_ASSIGN_OR_RETURN(together, WalkTogether(tasks, interrupted));
    if (LeaveAccepted(searches, /*alone=*/false, together)) return together;
    const auto by_ids = [](const RunningSearch* one) { return one->search->request().ids != nullptr; };
    if (std::all_of(searches.begin(), searches.end(), by_ids)) {
      for (WalkResult& walk : together) walk.gave_up = true;
      return together;
    }
  }
  LC_ASSIGN_OR_RETURN(std::vector<WalkResult> walked, WalkEach(tasks, interrupted));
  for (size_t i = 0; i < walked.size(); ++i) walked[i].evaluations += together[i].evaluations;
  LeaveAccepted(searches, /*alone=*/true, walked);
  return walked;
}

// Walks the graphs of searches that go together. On an error all of them have it. Segments whose graph did not give
// enough go to `again` of their search.
void WalkAll(std::span<RunningSearch* const> searches, WalkKind kind) {
  PlannedWalks planned;
  for (RunningSearch* one : searches) one->search->AddWalks(kind, planned);
  if (planned.tasks.empty()) return;
  const auto interrupted = [&] { return searches[0]->search->Interrupted(); };
  const bool alone = searches[0]->search->request().target_recall > 0;
  const absl::StatusOr<std::vector<WalkResult>> walked = kind == WalkKind::kLate
                                                             ? WalkLate(searches, alone, planned.tasks, interrupted)
                                                         : alone ? WalkEach(planned.tasks, interrupted)
                                                                 : WalkTogether(planned.tasks, interrupted);
  if (!walked.ok()) {
    for (RunningSearch* one : searches) one->Goes(walked.status());
    return;
  }
  // What is wanted has to come from all of them together: a row below that many others is none of it.
  int64_t wanted = 0, visible = 0;
  std::vector<double> ends;
  size_t first = 0;
  for (RunningSearch* one : searches) {
    wanted = std::max(wanted, one->search->wanted());
    visible += one->search->visible_to_walks(kind);
    one->search->AddLowerEnds(kind, std::span(*walked).subspan(first, one->search->walks(kind)), ends);
    first += one->search->walks(kind);
  }
  const SearchRequest& any = searches[0]->search->request();
  if (!any.keep && any.ids == nullptr) wanted = std::min(wanted, visible);
  const bool enough = static_cast<int64_t>(ends.size()) >= wanted;
  double floor = -std::numeric_limits<double>::infinity();
  if (enough && wanted > 0) {
    const auto kth = ends.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
    std::nth_element(ends.begin(), kth, ends.end(), std::greater<>());
    floor = *kth;
  }
  first = 0;
  for (RunningSearch* one : searches) {
    const auto of_one = std::span(*walked).subspan(first, one->search->walks(kind));
    one->search->TakeWalks(kind, of_one, floor, enough, kind == WalkKind::kLate ? one->again : one->scan);
    first += of_one.size();
  }
}

// First those that are filtered in the end: where they met too few that pass, what is done instead is done before the
// others are walked, whose rows then have better ones to be compared with.
void WalkAll(std::vector<RunningSearch*> searches) {
  WalkAll(searches, WalkKind::kLate);
  for (RunningSearch* one : searches) {
    for (size_t i = 0; one->answer->ok() && i < one->again.size(); ++i) {
      const absl::StatusOr<bool> scan = one->search->EnterAgain(one->again[i]);
      if (one->Goes(scan.status()) && *scan) one->scan.push_back(one->again[i]);
    }
  }
  std::erase_if(searches, [](RunningSearch* one) { return !one->answer->ok(); });
  if (!searches.empty()) WalkAll(searches, WalkKind::kFiltered);
}

// A block of rows of one segment for all searches of a scan, by their vectors or by their codes: it is read once.
class BlockScan {
 public:
  // REQUIRES: the searches have turned to the segment.
  explicit BlockScan(const SegmentScan& scan) : codes_(scan.pinned->codes()) { TurnTo(scan); }

  // The searches that are left.
  void TurnTo(const SegmentScan& scan) {
    const size_t n = scan.by.size();
    by_codes_ = ByCodes(scan);
    if (by_codes_) {
      std::vector<const CodeQuery*> queries;
      for (const auto& [one, index] : scan.by) queries.push_back(&one->search->code_query());
      coded_.emplace(queries);
      code_hits_.resize(n * kRowsABlock);
    } else {
      std::vector<const BoundQuery*> queries;
      for (const auto& [one, index] : scan.by) queries.push_back(&one->search->query());
      batch_.emplace(queries);
      row_hits_.resize(n * kRowsABlock);
    }
    floors_.resize(n);
    found_.resize(n);
  }

  // REQUIRES: the searches are those that were turned to last.
  void Scan(const SegmentScan& scan, int64_t begin, size_t n) {
    const std::span<const std::pair<RunningSearch*, uint32_t>> by = scan.by;
    if (by_codes_) {
      for (size_t i = 0; i < by.size(); ++i) floors_[i] = by[i].first->search->CodeFloor();
      ScanCodesBatch(*coded_, codes_->rows + static_cast<size_t>(begin) * codes_->stride, codes_->stride, n,
                     floors_.data(), code_hits_.data(), found_.data());
      for (size_t i = 0; i < by.size(); ++i) {
        by[i].first->search->TakeCodeHits(by[i].second, begin, {code_hits_.data() + i * n, found_[i]});
      }
      return;
    }
    const RowBlock& block = scan.pinned->segment->block();
    for (size_t i = 0; i < by.size(); ++i) floors_[i] = by[i].first->search->LeastScore();
    ScanRowsBatch(*batch_, block.rows + static_cast<size_t>(begin) * block.stride, block.stride, block.factors + begin,
                  n, floors_.data(), row_hits_.data(), found_.data());
    for (size_t i = 0; i < by.size(); ++i) {
      by[i].first->search->TakeRowHits(by[i].second, begin, {row_hits_.data() + i * n, found_[i]});
    }
  }

 private:
  // So many queries score a block of vectors, which are in memory, faster than each of them their codes.
  static constexpr size_t kQueriesForVectors = 6;

  static bool ByCodes(const SegmentScan& scan) {
    const CodeBlock* const codes = scan.pinned->codes();
    if (codes == nullptr) return false;
    const bool in_memory = scan.pinned->segment->kind() == "growing";
    return !in_memory || scan.by.size() < kQueriesForVectors || BatchesCodes(codes->kind);
  }

  const CodeBlock* const codes_;
  bool by_codes_ = false;
  std::optional<QueryBatch> batch_;
  std::vector<RowHit> row_hits_;
  std::optional<CodeQueryBatch> coded_;
  std::vector<CodeHit> code_hits_;
  std::vector<float> floors_;
  std::vector<size_t> found_;
};

// Leaves out searches that nobody waits for any more, which have that as their answer.
void LeaveOutInterrupted(SegmentScan& scan) {
  std::erase_if(scan.by, [](auto& one) { return !one.first->Goes(one.first->search->Interrupted()); });
}

// A block of rows is read once for all of them. `looked` is told which are left, each time after it was asked who still
// waits.
void ScanTogether(SegmentScan scan, absl::FunctionRef<void(const SegmentScan&)> looked) {
  const int64_t rows = scan.pinned->rows;
  for (const auto& [one, index] : scan.by) one->search->BeginScan(index);
  BlockScan blocks(scan);
  for (int64_t begin = 0; begin < rows && !scan.by.empty(); begin += kRowsABlock) {
    if (begin > 0 && begin % kRowsBetweenChecks == 0) {
      const size_t before = scan.by.size();
      LeaveOutInterrupted(scan);
      looked(scan);
      if (scan.by.size() != before) blocks.TurnTo(scan);
    }
    blocks.Scan(scan, begin, static_cast<size_t>(std::min(kRowsABlock, rows - begin)));
  }
}

// What a device has scanned needs no more of it. Segments of all searches are offered at once: they go in one launch.
void ScanOnDevice(std::vector<SegmentScan>& scans) {
  std::vector<DeviceTask> tasks;
  for (const SegmentScan& scan : scans) {
    for (const auto& [one, index] : scan.by) tasks.push_back({one->search.get(), index});
  }
  if (!ScanOnDevice(tasks)) return;
  size_t task = 0;
  for (SegmentScan& scan : scans) std::erase_if(scan.by, [&](const auto&) { return tasks[task++].done; });
}

// Every segment once, in the order of the searches. A segment is known by its rows: carried ones are made for a search.
std::vector<SegmentScan> ScansOf(std::span<RunningSearch> running) {
  std::vector<SegmentScan> scans;
  absl::flat_hash_map<std::pair<const float*, int64_t>, size_t> known;
  for (RunningSearch& one : running) {
    if (!one.answer->ok()) continue;
    std::sort(one.scan.begin(), one.scan.end());
    for (const uint32_t index : one.scan) {
      const PinnedSegment& pinned = one.search->segment(index);
      const auto [at, news] = known.try_emplace({pinned.segment->block().rows, pinned.rows}, scans.size());
      if (news) scans.push_back({&pinned, {}});
      scans[at->second].by.emplace_back(&one, index);
    }
  }
  return scans;
}

// What a scan reads of the segment's rows.
ScanQueue::Rows RowsOf(const PinnedSegment& pinned) {
  const Segment& segment = *pinned.segment;
  const int64_t a_row = pinned.codes() != nullptr ? static_cast<int64_t>(pinned.codes()->stride)
                                                  : static_cast<int64_t>(segment.block().stride * sizeof(float));
  return {segment.block().rows, pinned.rows, pinned.rows * a_row};
}

// Whether any search of `scan` is among those left of a joint one.
bool GoesOn(const SegmentScan& scan, const SegmentScan& left) {
  return std::any_of(scan.by.begin(), scan.by.end(),
                     [&](const auto& one) { return std::find(left.by.begin(), left.by.end(), one) != left.by.end(); });
}

// With those of other calls where they wait for a core. A call that nobody waits for any more is let go at the next
// look; one that scans for others ends the scan for them.
void ScanWithOthers(SegmentScan& scan) {
  const auto scan_all = [](std::span<SegmentScan* const> scans, ScanQueue::Release release) {
    SegmentScan all = *scans[0];
    std::vector<SegmentScan*> others(scans.begin() + 1, scans.end());
    for (SegmentScan* other : others) all.by.insert(all.by.end(), other->by.begin(), other->by.end());
    ScanTogether(std::move(all), [&](const SegmentScan& left) {
      std::erase_if(others, [&](SegmentScan* other) {
        if (GoesOn(*other, left)) return false;
        release(other);
        return true;
      });
    });
  };
  const auto gone = [](const auto& one) { return !one.first->search->Interrupted().ok(); };
  const auto gave_up = [&] { return std::all_of(scan.by.begin(), scan.by.end(), gone); };
  // A filter that reads payloads takes the time of its own call alone.
  const auto asks = [](const auto& one) { return one.first->search->request().keep != nullptr; };
  if (std::any_of(scan.by.begin(), scan.by.end(), asks)) {
    ScanTogether(std::move(scan), [](const SegmentScan&) {});
    return;
  }
  if (ScanQueue::OfProcess().Run(RowsOf(*scan.pinned), &scan, scan.by.size(), scan_all, gave_up)) return;
  LeaveOutInterrupted(scan);
  for (auto& [search, index] : scan.by) {
    search->Goes(Unavailable("a scan that this search shared with others failed: try again"));
  }
}

}  // namespace

std::vector<absl::StatusOr<SearchResult>> SearchSegments(std::span<const ScopedRequest> requests) {
  std::vector<absl::StatusOr<SearchResult>> answers(requests.size(), SearchResult());
  std::vector<RunningSearch> running;
  std::vector<size_t> adapting;
  for (size_t i = 0; i < requests.size(); ++i) {
    const absl::Status status = SearchContext{requests[i].scope, *requests[i].request}.Interrupted();
    if (!status.ok()) {
      answers[i] = status;
    } else if (AdaptsEveryRow(*requests[i].request)) {
      adapting.push_back(i);
    } else {
      running.push_back({std::make_unique<LegSearch>(requests[i]), &answers[i], {}, {}});
    }
  }
  std::vector<RunningSearch*> waiting, together;
  for (RunningSearch& one : running) {
    for (uint32_t index = 0; one.answer->ok() && index < one.search->segments(); ++index) {
      const absl::StatusOr<bool> scan = one.search->Enter(index);
      if (one.Goes(scan.status()) && *scan) one.scan.push_back(index);
    }
    if (one.answer->ok()) waiting.push_back(&one);
  }
  while (!waiting.empty()) {
    const SearchRequest& first = waiting[0]->search->request();
    together.assign(1, waiting[0]);
    for (size_t i = 1; i < waiting.size(); ++i) {
      if (GoTogether(first, waiting[i]->search->request())) together.push_back(waiting[i]);
    }
    std::erase_if(waiting, [&](RunningSearch* one) { return std::count(together.begin(), together.end(), one) > 0; });
    WalkAll(together);
  }
  std::vector<SegmentScan> scans = ScansOf(running);
  ScanOnDevice(scans);
  for (SegmentScan& scan : scans) {
    if (!scan.by.empty()) ScanWithOthers(scan);
  }
  for (RunningSearch& one : running) {
    if (one.answer->ok()) *one.answer = one.search->Finish();
  }
  // Last: carrying every row takes the longest, and the others are not to be late for it.
  for (const size_t i : adapting) answers[i] = AdaptAll(requests[i]);
  return answers;
}

}  // namespace lightcone
