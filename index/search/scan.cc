// Scans of segments: by a device, together with other legs and calls, or of passing rows alone.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "index/search/device_search.h"
#include "index/search/leg_search.h"
#include "index/search/passing_rows.h"
#include "index/search/scan_queue.h"

namespace lightcone {

// A segment and the legs that scan it, each with its own number of the segment.
struct SegmentScan {
  const PinnedSegment* pinned = nullptr;
  std::vector<LegSegment> by;
};

namespace {

// One block of rows after the other for all legs of a scan, by their vectors or by their codes.
class BlockScan {
 public:
  // REQUIRES: the legs have begun their scans.
  explicit BlockScan(const SegmentScan& scan) : codes_(scan.pinned->codes()) { SetLegs(scan); }

  void SetLegs(const SegmentScan& scan) {
    const size_t n = scan.by.size();
    by_codes_ = ByCodes(scan);
    if (by_codes_) {
      std::vector<const CodeQuery*> queries;
      for (const LegSegment& one : scan.by) queries.push_back(&one.leg->code_query());
      coded_.emplace(queries);
      code_hits_.resize(n * kRowsABlock);
    } else {
      std::vector<const BoundQuery*> queries;
      for (const LegSegment& one : scan.by) queries.push_back(&one.leg->query());
      batch_.emplace(queries);
      row_hits_.resize(n * kRowsABlock);
    }
    floors_.resize(n);
    found_.resize(n);
  }

  // REQUIRES: the legs are those of the last SetLegs.
  void Scan(const SegmentScan& scan, int64_t begin, size_t n) {
    const std::vector<LegSegment>& by = scan.by;
    LC_DCHECK(by.size() == floors_.size());
    const size_t first = static_cast<size_t>(begin);
    if (by_codes_) {
      // The errors' slack has room for the rounding to float.
      for (size_t i = 0; i < by.size(); ++i) floors_[i] = static_cast<float>(by[i].leg->floor());
      ScanCodesBatch(*coded_, codes_->rows + first * codes_->stride, codes_->stride, n, floors_.data(),
                     code_hits_.data(), found_.data());
      for (size_t i = 0; i < by.size(); ++i) {
        by[i].leg->TakeCodeHits(by[i].index, begin, {code_hits_.data() + i * n, found_[i]});
      }
      return;
    }
    const RowBlock& block = scan.pinned->segment->block();
    for (size_t i = 0; i < by.size(); ++i) floors_[i] = by[i].leg->LeastScore();
    ScanRowsBatch(*batch_, block.rows + first * block.stride, block.stride, block.factors + begin, n, floors_.data(),
                  row_hits_.data(), found_.data());
    for (size_t i = 0; i < by.size(); ++i) {
      by[i].leg->TakeRowHits(by[i].index, begin, {row_hits_.data() + i * n, found_[i]});
    }
  }

 private:
  // From this many queries on, vectors in memory are scored faster than codes.
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

bool IsInterrupted(const LegSegment& one) { return !one.leg->scoped().Interrupted().ok(); }

// Ends searches that nobody waits for any more.
void EraseInterrupted(SegmentScan& scan) {
  std::erase_if(scan.by, [](const LegSegment& one) { return !one.leg->Continue(one.leg->scoped().Interrupted()); });
}

// Reads each block of rows once for all legs. `checked` gets the legs that are left after each look at who still waits.
void ScanTogether(SegmentScan scan, absl::FunctionRef<void(const SegmentScan&)> checked) {
  const int64_t rows = scan.pinned->rows;
  for (const LegSegment& one : scan.by) one.leg->BeginScan(one.index);
  BlockScan blocks(scan);
  for (int64_t begin = 0; begin < rows && !scan.by.empty(); begin += kRowsABlock) {
    if (begin > 0 && begin % kRowsBetweenChecks == 0) {
      const size_t before = scan.by.size();
      EraseInterrupted(scan);
      checked(scan);
      if (scan.by.size() != before) blocks.SetLegs(scan);
    }
    blocks.Scan(scan, begin, static_cast<size_t>(std::min(kRowsABlock, rows - begin)));
  }
}

// What a scan reads of the segment's rows.
ScanQueue::Rows RowsOf(const PinnedSegment& pinned) {
  const RowBlock& block = pinned.segment->block();
  const size_t row_bytes = pinned.codes() != nullptr ? pinned.codes()->stride : block.stride * sizeof(float);
  return {block.rows, pinned.rows, pinned.rows * static_cast<int64_t>(row_bytes)};
}

bool ShareALeg(const SegmentScan& x, const SegmentScan& y) {
  return std::find_first_of(x.by.begin(), x.by.end(), y.by.begin(), y.by.end()) != x.by.end();
}

// Scans for itself and for other calls that wait for the same rows, or lets another call scan. A call that nobody waits
// for any more is released at the next look.
void ScanWithOthers(SegmentScan& scan) {
  // A filter that reads payloads takes the time of its own call alone.
  if (std::any_of(scan.by.begin(), scan.by.end(),
                  [](const LegSegment& one) { return one.leg->request().keep != nullptr; })) {
    ScanTogether(std::move(scan), [](const SegmentScan&) {});
    return;
  }
  const auto scan_all = [](std::span<SegmentScan* const> scans, ScanQueue::Release release) {
    SegmentScan all = *scans[0];
    std::vector<SegmentScan*> others(scans.begin() + 1, scans.end());
    for (SegmentScan* other : others) all.by.insert(all.by.end(), other->by.begin(), other->by.end());
    ScanTogether(std::move(all), [&](const SegmentScan& left) {
      std::erase_if(others, [&](SegmentScan* other) {
        if (ShareALeg(*other, left)) return false;
        release(other);
        return true;
      });
    });
  };
  const auto gave_up = [&] { return std::all_of(scan.by.begin(), scan.by.end(), IsInterrupted); };
  if (ScanQueue::OfProcess().Run(RowsOf(*scan.pinned), &scan, scan.by.size(), scan_all, gave_up)) return;
  EraseInterrupted(scan);
  for (const LegSegment& one : scan.by) {
    one.leg->Continue(Unavailable("a scan that this search shared with others failed: try again"));
  }
}

// Every segment once, in the order of the legs. Its rows identify a segment: carried ones are made for a search.
std::vector<SegmentScan> ScansOf(std::deque<LegSearch>& legs) {
  std::vector<SegmentScan> scans;
  absl::flat_hash_map<std::pair<const float*, int64_t>, size_t> known;
  for (LegSearch& leg : legs) {
    if (!leg.ok()) continue;
    std::sort(leg.scans().begin(), leg.scans().end());
    for (const uint32_t index : leg.scans()) {
      const PinnedSegment& pinned = leg.segment(index);
      const auto [at, is_new] = known.try_emplace({pinned.segment->block().rows, pinned.rows}, scans.size());
      if (is_new) scans.push_back({&pinned, {}});
      scans[at->second].by.push_back({&leg, index});
    }
  }
  return scans;
}

}  // namespace

void ScanLegs(std::deque<LegSearch>& legs) {
  std::vector<SegmentScan> scans = ScansOf(legs);
  // The device gets the segments of all legs at once: they go in one launch.
  std::vector<LegSegment> segments;
  for (const SegmentScan& scan : scans) segments.insert(segments.end(), scan.by.begin(), scan.by.end());
  const std::vector<bool> done = ScanOnDevice(segments);
  size_t segment = 0;
  for (SegmentScan& scan : scans) {
    std::erase_if(scan.by, [&](const LegSegment&) { return done[segment++]; });
  }
  for (SegmentScan& scan : scans) {
    if (!scan.by.empty()) ScanWithOthers(scan);
  }
}

void LegSearch::BeginScan(uint32_t index) {
  Bind(index);
  result_.rows_scored += segment(index).rows;
}

void LegSearch::TakeCodeHits(uint32_t index, int64_t begin, std::span<const CodeHit> hits) {
  const PinnedSegment& pinned = segment(index);
  for (const CodeHit& hit : hits) {
    if (double{hit.score} + hit.error < candidates_.floor()) continue;
    const uint32_t row = static_cast<uint32_t>(begin) + hit.row;
    if (scoped_.Accepts(pinned, row)) candidates_.Add(hit.score, hit.error, index, row);
  }
}

void LegSearch::TakeRowHits(uint32_t index, int64_t begin, std::span<const RowHit> hits) {
  for (const RowHit& hit : hits) TakeRow(index, static_cast<uint32_t>(begin) + hit.row, hit.score);
}

void LegSearch::TakeDeviceRow(uint32_t index, float score, double error, uint32_t row) {
  if (score + error >= candidates_.floor()) candidates_.Add(score, error, index, row);
  any_coded_ = true;
}

absl::Status LegSearch::Scan(uint32_t index, SearchPlan scan, double error_share) {
  if (scan == SearchPlan::kPassingScan) return ScanPassing(index, error_share);
  scans_.push_back(index);
  return absl::OkStatus();
}

absl::Status LegSearch::ScanPassing(uint32_t index, double error_share) {
  const PinnedSegment& pinned = segment(index);
  const ScoredRows score = Scorer(index);
  std::array<float, PassingRows::kRowsACall> scores;
  return PassingRows(scoped_, pinned).ForEach([&](std::span<const uint32_t> rows) {
    score(rows.data(), rows.size(), scores.data());
    for (size_t i = 0; i < rows.size(); ++i) {
      const double error = error_share * ErrorOf(index, scores[i]);
      if (scores[i] + error < candidates_.floor() || !scoped_.Keeps(pinned, rows[i])) continue;
      candidates_.Add(scores[i], error, index, rows[i]);
    }
    result_.rows_scored += static_cast<int64_t>(rows.size());
    return scoped_.Interrupted();
  });
}

}  // namespace lightcone
