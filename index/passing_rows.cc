#include "index/passing_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kSampledRows = 1'024;
constexpr size_t kRowsACall = 512;

}  // namespace

PassingRows::PassingRows(const SearchContext& context, const PinnedSegment& pinned)
    : context_(context),
      pinned_(pinned),
      ids_(context.request.ids),
      served_share_(static_cast<double>(pinned.counts->Visible(context.request.view_generation)) /
                    static_cast<double>(pinned.rows)),
      all_served_(served_share_ == 1) {}

bool PassingRows::listed() const {
  return ids_ != nullptr && !ids_->others && pinned_.segment->ordered_by_id();
}

double PassingRows::Share() const {
  if (ids_ != nullptr && !pinned_.segment->ordered_by_id()) {
    std::vector<uint32_t> passing, others;
    return Sample(&passing, &others);
  }
  double share = served_share_;
  if (ids_ != nullptr) {
    const uint64_t* const of_rows = pinned_.segment->block().ids;
    const double listed = static_cast<double>(ids_->ids.CountIn(of_rows[0], of_rows[pinned_.rows - 1]));
    const double those = std::min(1.0, listed / static_cast<double>(pinned_.rows));
    share *= ids_->others ? 1 - those : those;
  }
  return std::clamp(share, 0.0, 1.0);
}

double PassingRows::Sample(std::vector<uint32_t>* rows, std::vector<uint32_t>* others) const {
  const int64_t asked = std::min(kSampledRows, pinned_.rows);
  for (int64_t i = 0; i < asked; ++i) {
    const uint32_t row = static_cast<uint32_t>(i * pinned_.rows / asked);
    (Passes(row) ? rows : others)->push_back(row);
  }
  return static_cast<double>(rows->size()) / static_cast<double>(asked);
}

absl::Status PassingRows::ForEach(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const {
  if (listed()) return ForEachListed(visit);
  std::array<uint32_t, kRowsACall> found;
  size_t n = 0;
  for (int64_t row = 0; row < pinned_.rows; ++row) {
    found[n] = static_cast<uint32_t>(row);
    n += Passes(static_cast<uint32_t>(row));
    if (n == found.size() || row + 1 == pinned_.rows) {
      LC_RETURN_IF_ERROR(visit({found.data(), std::exchange(n, 0)}));
    }
  }
  return absl::OkStatus();
}

absl::Status PassingRows::ForEachListed(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const {
  const uint64_t* const begin = pinned_.segment->block().ids;
  const uint64_t* const end = begin + pinned_.rows;
  const uint64_t* at = begin;
  std::array<uint32_t, kRowsACall> found;
  absl::Status status;
  ids_->ids.ForEachIn(begin[0], end[-1], [&](std::span<const uint64_t> ids) {
    size_t n = 0;
    for (const uint64_t id : ids) {
      // In steps that double, from where the last one was: ids that follow one another are next to one another.
      size_t step = 1;
      while (static_cast<size_t>(end - at) > step && at[step] <= id) {
        at += step;
        step *= 2;
      }
      at = std::lower_bound(at, std::min(at + step + 1, end), id);
      if (at == end) break;
      if (*at != id) continue;
      const uint32_t row = static_cast<uint32_t>(at - begin);
      if (Served(row)) found[n++] = row;
    }
    status = visit({found.data(), n});
    return status.ok() && at != end;
  });
  return status;
}

}  // namespace lightcone
