#include "index/search/passing_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/mix.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kSampledForTests = 64;     // rows sampled for a rough share
constexpr int64_t kRowsBetweenLooks = 4096;  // rows between looks at the deadline where few rows pass

}  // namespace

PassingRows::PassingRows(const ScopedRequest& scoped, const PinnedSegment& pinned)
    : scoped_(scoped),
      pinned_(pinned),
      ids_(scoped.request->ids),
      served_share_(static_cast<double>(scoped.VisibleRows(pinned)) / static_cast<double>(pinned.rows)),
      all_served_(served_share_ == 1) {
  if (ids_ == nullptr || !pinned.segment->ordered_by_id()) return;
  const uint64_t* const of_rows = pinned.segment->block().ids;
  first_id_ = of_rows[0];
  gapless_ = of_rows[pinned.rows - 1] - first_id_ == static_cast<uint64_t>(pinned.rows) - 1;
}

bool PassingRows::listed() const { return ids_ != nullptr && !ids_->others && pinned_.segment->ordered_by_id(); }

double PassingRows::Share() const {
  if (ids_ != nullptr && !pinned_.segment->ordered_by_id()) return Sample().share;
  double share = served_share_;
  if (ids_ != nullptr) {
    const uint64_t* const of_rows = pinned_.segment->block().ids;
    const double listed = static_cast<double>(ids_->ids.CountIn(of_rows[0], of_rows[pinned_.rows - 1]));
    const double those = std::min(1.0, listed / static_cast<double>(pinned_.rows));
    if (!ids_->tests.empty()) {
      if (!MayPass(0, pinned_.rows)) return 0;
      const double sampled = Sample(kSampledForTests).share;
      return ids_->others ? sampled : std::min(share * those, sampled);
    }
    share *= ids_->others ? 1 - those : those;
  }
  return std::clamp(share, 0.0, 1.0);
}

PassingRows::Sampled PassingRows::Sample(int64_t asked) const {
  Sampled sampled;
  asked = std::min(asked, pinned_.rows);
  for (int64_t i = 0; i < asked; ++i) {
    // A random row of its part: rows that pass may come at even distances.
    const int64_t begin = i * pinned_.rows / asked, end = (i + 1) * pinned_.rows / asked;
    const uint64_t within = Mixed(static_cast<uint64_t>(i)) % static_cast<uint64_t>(end - begin);
    const uint32_t row = static_cast<uint32_t>(begin + static_cast<int64_t>(within));
    (Passes(row) ? sampled.passing : sampled.others).push_back(row);
  }
  sampled.share = static_cast<double>(sampled.passing.size()) / static_cast<double>(asked);
  return sampled;
}

absl::Status PassingRows::ForEach(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const {
  if (!MayPass(0, pinned_.rows)) return absl::OkStatus();
  if (listed()) return ForEachListed(visit);
  std::array<uint32_t, kRowsACall> found;
  size_t n = 0;
  for (int64_t begin = 0; begin < pinned_.rows; begin += kRowsBetweenLooks) {
    const int64_t end = std::min(begin + kRowsBetweenLooks, pinned_.rows);
    for (int64_t row = MayPass(begin, end) ? begin : end; row < end; ++row) {
      found[n] = static_cast<uint32_t>(row);
      n += Passes(static_cast<uint32_t>(row));
      if (n == found.size()) LC_RETURN_IF_ERROR(visit({found.data(), std::exchange(n, 0)}));
    }
    if (end - begin == kRowsBetweenLooks) LC_RETURN_IF_ERROR(scoped_.Interrupted());
  }
  return visit({found.data(), n});
}

bool PassingRows::MayPass(int64_t begin, int64_t end) const {
  if (ids_ == nullptr || ids_->tests.empty() || !pinned_.segment->ordered_by_id()) return true;
  return ids_->MayHold(IdOf(static_cast<uint32_t>(begin)), IdOf(static_cast<uint32_t>(end - 1)));
}

absl::Status PassingRows::ForEachListed(absl::FunctionRef<absl::Status(std::span<const uint32_t>)> visit) const {
  const uint64_t* const begin = pinned_.segment->block().ids;
  const uint64_t* const end = begin + pinned_.rows;
  const uint64_t* at = begin;
  std::array<uint32_t, kRowsACall> found;
  absl::Status status;
  ids_->ids.ForEachIn(begin[0], end[-1], [&](std::span<const uint64_t> ids) {
    if (!ids_->MayHold(ids.front(), ids.back())) return true;
    size_t n = 0;
    for (const uint64_t id : ids) {
      if (!ids_->MeetsTests(id)) continue;
      if (gapless_) {
        const uint32_t row = static_cast<uint32_t>(id - first_id_);
        if (Served(row)) found[n++] = row;
        continue;
      }
      // Steps double from the last row found: consecutive ids lie next to each other.
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
