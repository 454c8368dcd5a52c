#include "index/passing_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr size_t kRowsACall = 512;
constexpr int64_t kSampledForTests = 64;  // the plan asks no more than about how many pass
constexpr int64_t kRowsBetweenLooks = 4096;  // where none passes `visit` has no chance to look at the deadline

}  // namespace

PassingRows::PassingRows(const SearchContext& context, const PinnedSegment& pinned)
    : context_(context),
      pinned_(pinned),
      ids_(context.request.ids),
      served_share_(static_cast<double>(pinned.counts->Visible(context.request.view_generation)) /
                    static_cast<double>(pinned.rows)),
      all_served_(served_share_ == 1) {
  if (ids_ == nullptr || !pinned.segment->ordered_by_id()) return;
  const uint64_t* const of_rows = pinned.segment->block().ids;
  first_id_ = of_rows[0];
  gapless_ = of_rows[pinned.rows - 1] - first_id_ == static_cast<uint64_t>(pinned.rows) - 1;
}

bool PassingRows::listed() const {
  return ids_ != nullptr && !ids_->others && pinned_.segment->ordered_by_id();
}

double PassingRows::Share() const {
  if (sampled()) return pinned_.segment->ordered_by_id() ? Sample(kSampledForTests).share : Sample().share;
  double share = served_share_;
  if (ids_ != nullptr) {
    const uint64_t* const of_rows = pinned_.segment->block().ids;
    const double listed = static_cast<double>(ids_->ids.CountIn(of_rows[0], of_rows[pinned_.rows - 1]));
    const double those = std::min(1.0, listed / static_cast<double>(pinned_.rows));
    share *= ids_->others ? 1 - those : those;
  }
  return std::clamp(share, 0.0, 1.0);
}

PassingRows::Sampled PassingRows::Sample(int64_t asked) const {
  Sampled sampled;
  asked = std::min(asked, pinned_.rows);
  for (int64_t i = 0; i < asked; ++i) {
    const uint32_t row = static_cast<uint32_t>(i * pinned_.rows / asked);
    (Passes(row) ? sampled.passing : sampled.others).push_back(row);
  }
  sampled.share = static_cast<double>(sampled.passing.size()) / static_cast<double>(asked);
  return sampled;
}

absl::Status PassingRows::ForEach(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const {
  if (listed()) return ForEachListed(visit);
  std::array<uint32_t, kRowsACall> found;
  size_t n = 0;
  for (int64_t row = 0; row < pinned_.rows; ++row) {
    if (row % kRowsBetweenLooks == kRowsBetweenLooks - 1) LC_RETURN_IF_ERROR(context_.Interrupted());
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
      if (!ids_->MeetsTests(id)) continue;
      if (gapless_) {
        const uint32_t row = static_cast<uint32_t>(id - first_id_);
        if (Served(row)) found[n++] = row;
        continue;
      }
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
