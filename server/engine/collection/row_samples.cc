#include "server/engine/collection/row_samples.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <string>

#include "base/dcheck.h"
#include "base/status.h"
#include "stats/distance_fusion.h"
#include "store/keys.h"
#include "store/records.h"

namespace lightcone::server {
namespace {

constexpr int64_t kChangedParts = 4;     // a sample is drawn anew when one part in so many has changed
constexpr int64_t kChangesMin = 1'024;   // changes of a small gallery that its sample stays for
constexpr int64_t kScaleLooks = 16'384;  // rows of the newer generation that are looked at for common items
constexpr size_t kScaleReads = 4'096;    // rows of these whose vectors are read at once

RowSamplePtr Carried(const RowSample& plain, const ServedAdapter& adapter) {
  std::vector<float> in;
  for (const std::vector<float>& row : plain.rows) in.insert(in.end(), row.begin(), row.end());
  const auto dimension = static_cast<size_t>(adapter.adapter.output_dimension());
  std::vector<float> out(in.size() / static_cast<size_t>(adapter.adapter.input_dimension()) * dimension);
  adapter.adapter.Apply(in, out);
  auto carried = std::make_shared<RowSample>();
  auto next = out.begin();
  for (const std::vector<float>& row : plain.rows) {
    std::vector<float>& to = carried->rows.emplace_back();
    if (row.empty()) continue;
    to.assign(next, next + static_cast<ptrdiff_t>(dimension));
    next += static_cast<ptrdiff_t>(dimension);
    if (!CheckVector(adapter.adapter.target(), to, "vector").ok()) to.clear();
  }
  return carried;
}

// Of the rows, by row; zeros of an empty one.
std::vector<float> FeaturesOf(const LikenessKernel& kernel, const RowSample& rows) {
  const size_t size = kernel.features();
  std::vector<float> features(rows.rows.size() * size);
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    if (!rows.rows[i].empty()) kernel.FeaturesOf(rows.rows[i], std::span(features).subspan(i * size, size));
  }
  return features;
}

}  // namespace

std::vector<double> RowSample::DistancesTo(const BoundQuery& query) const {
  std::vector<double> distances;
  distances.reserve(rows.size());
  for (const std::vector<float>& row : rows) {
    distances.push_back(row.empty() ? std::numeric_limits<double>::infinity() : query.Distance(row));
  }
  return distances;
}

const LikenessKernel* RowSample::likeness() const {
  absl::call_once(made_, [this] { likeness_ = LikenessKernel::Make(rows); });
  return likeness_ ? &*likeness_ : nullptr;
}

std::vector<uint64_t> SpreadRows(const IndexView& view, std::span<const uint32_t> generations, uint32_t view_generation,
                                 int64_t wanted) {
  constexpr int64_t kLooksARowMin = 4, kLooksARowMax = 64;
  std::vector<SampledRow> rows;
  for (int64_t asked = kLooksARowMin * wanted; asked <= kLooksARowMax * wanted; asked *= 4) {
    rows = view.SampleRows(generations, view_generation, asked);
    if (static_cast<int64_t>(rows.size()) >= wanted) break;
  }
  const size_t kept = std::min(rows.size(), static_cast<size_t>(wanted));
  std::vector<uint64_t> ids;
  // Any of each part, so that what comes at equal distances, such as one subject after the other, is met as often.
  std::minstd_rand random(1);
  for (size_t i = 0; i < kept; ++i) {
    const size_t begin = i * rows.size() / kept, end = (i + 1) * rows.size() / kept;
    ids.push_back(rows[begin + random() % (end - begin)].internal_id);
  }
  return ids;
}

bool RowSamples::StillStands(int64_t rows_then, uint64_t sequence_then, int64_t rows, uint64_t sequence) {
  // A search may hold an older view than the one that drew.
  const auto changes = static_cast<int64_t>(std::max(sequence, sequence_then) - std::min(sequence, sequence_then));
  const int64_t share = rows_then / kChangedParts;
  return std::abs(rows - rows_then) <= share && changes <= std::max(kChangesMin, share);
}

absl::StatusOr<std::vector<std::vector<float>>> RowSamples::Read(std::span<const uint64_t> ids,
                                                                 uint32_t generation) const {
  std::vector<std::string> embedding_keys;
  for (const uint64_t id : ids) embedding_keys.push_back(keys::Embedding(collection_, generation, id));
  std::vector<std::vector<float>> rows;
  for (const absl::StatusOr<std::string>& bytes : store_->MultiGet(Table::kEmbeddings, embedding_keys)) {
    std::vector<float>& row = rows.emplace_back();
    if (absl::IsNotFound(bytes.status())) continue;
    LC_RETURN_IF_ERROR(bytes.status());
    LC_ASSIGN_OR_RETURN(EmbeddingRecord record, DecodeEmbedding(*bytes));
    row = std::move(record.z);
  }
  return rows;
}

absl::StatusOr<std::vector<std::vector<float>>> RowSamples::Runs(const IndexView& view, uint32_t generation,
                                                                 int64_t runs, int64_t rows_a_run) const {
  const uint32_t generations[] = {generation};
  std::vector<uint64_t> ids;
  for (const uint64_t first : SpreadRows(view, generations, generation, runs)) {
    for (int64_t i = 0; i < rows_a_run; ++i) ids.push_back(first + static_cast<uint64_t>(i));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  LC_ASSIGN_OR_RETURN(std::vector<std::vector<float>> rows, Read(ids, generation));
  std::erase_if(rows, [](const std::vector<float>& row) { return row.empty(); });
  return rows;
}

absl::StatusOr<RowSamplePtr> RowSamples::Draw(const IndexView& view, uint32_t generation) const {
  const uint32_t generations[] = {generation};
  std::vector<uint64_t> ids;
  for (const SampledRow& row : view.SampleRows(generations, generation, kRowsMax)) ids.push_back(row.internal_id);
  auto sample = std::make_shared<RowSample>();
  LC_ASSIGN_OR_RETURN(sample->rows, Read(ids, generation));
  std::erase_if(sample->rows, [](const std::vector<float>& row) { return row.empty(); });
  return RowSamplePtr(std::move(sample));
}

absl::StatusOr<RowSamplePtr> RowSamples::Of(const IndexView& view, uint32_t generation) {
  const std::pair key(generation, 0u);
  const int64_t rows = view.VisibleRows(generation, generation);
  const uint64_t sequence = view.sequence();
  {
    absl::MutexLock lock(&mu_);
    const auto kept = kept_.find(key);
    if (kept != kept_.end() && StillStands(kept->second.rows, kept->second.sequence, rows, sequence))
      return kept->second.sample;
  }
  LC_ASSIGN_OR_RETURN(RowSamplePtr drawn, Draw(view, generation));
  absl::MutexLock lock(&mu_);
  kept_[key] = {drawn, nullptr, 0, rows, sequence};
  return drawn;
}

RowSamplePtr RowSamples::CarriedOf(const RowSamplePtr& plain, const ServedAdapter& adapter) {
  LC_DCHECK(plain != nullptr && adapter.status.direction == AdapterDirection::kItem);
  const std::pair key(adapter.status.from, adapter.status.to);
  {
    absl::MutexLock lock(&mu_);
    const auto kept = kept_.find(key);
    const bool same = kept != kept_.end() && kept->second.version == adapter.status.version;
    if (same && kept->second.from == plain) return kept->second.sample;
  }
  RowSamplePtr sample = Carried(*plain, adapter);
  absl::MutexLock lock(&mu_);
  kept_[key] = {sample, plain, adapter.status.version, 0, 0};
  return sample;
}

absl::StatusOr<RowSamples::CommonRows> RowSamples::DrawCommon(const IndexView& view, uint32_t older, uint32_t newer,
                                                              std::span<const ServedAdapter* const> adapters) const {
  const uint32_t generations[] = {newer};
  std::vector<uint64_t> all, held_out;
  for (const SampledRow& row : view.SampleRows(generations, newer, kScaleLooks)) all.push_back(row.internal_id);
  if (KnowHeldOut(adapters)) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(held_out),
                 [&](uint64_t id) { return AllHeldOut(adapters, id); });
  }
  for (const std::vector<uint64_t>* ids : {&held_out, &all}) {
    if (ids->size() < DistanceScale::kRowsMin) continue;
    // Some evenly spread ones after the others, until enough are found.
    std::vector<std::pair<uint64_t, std::vector<float>>> common;
    const size_t parts = (ids->size() + kScaleReads - 1) / kScaleReads;
    for (size_t part = 0; part < parts && common.size() < static_cast<size_t>(kRowsMax); ++part) {
      std::vector<uint64_t> some;
      for (size_t i = part; i < ids->size(); i += parts) some.push_back((*ids)[i]);
      LC_ASSIGN_OR_RETURN(std::vector<std::vector<float>> rows, Read(some, older));
      for (size_t i = 0; i < rows.size(); ++i) {
        if (!rows[i].empty()) common.emplace_back(some[i], std::move(rows[i]));
      }
    }
    if (common.size() < DistanceScale::kRowsMin) continue;
    const size_t n = std::min(common.size(), static_cast<size_t>(kRowsMax));
    const auto by_older = std::make_shared<RowSample>(), by_newer = std::make_shared<RowSample>();
    std::vector<uint64_t> chosen;
    for (size_t i = 0; i < n; ++i) {
      auto& [id, row] = common[i * common.size() / n];
      chosen.push_back(id);
      by_older->rows.push_back(std::move(row));
    }
    LC_ASSIGN_OR_RETURN(by_newer->rows, Read(chosen, newer));
    return CommonRows{by_older, by_newer};
  }
  return CommonRows();
}

absl::StatusOr<ScaleSamplePtr> RowSamples::DrawScale(const IndexView& view, uint32_t older, uint32_t newer,
                                                     const RowSamplePtr& rows,
                                                     std::span<const ServedAdapter* const> adapters) {
  auto sample = std::make_shared<ScaleSample>();
  LC_ASSIGN_OR_RETURN(CommonRows common, DrawCommon(view, older, newer, adapters));
  sample->older = std::move(common.older);
  sample->newer = std::move(common.newer);
  if (sample->older == nullptr) {
    sample->older = rows;
    LC_ASSIGN_OR_RETURN(sample->newer, Of(view, newer));
  }
  if (const LikenessKernel* const kernel = rows->likeness()) sample->features = FeaturesOf(*kernel, *sample->older);
  for (const ServedAdapter* adapter : adapters) {
    if (adapter->status.direction == AdapterDirection::kItem) sample->carried = Carried(*sample->older, *adapter);
  }
  return ScaleSamplePtr(std::move(sample));
}

absl::StatusOr<ScaleSamplePtr> RowSamples::ScaleOf(const IndexView& view, uint32_t older, uint32_t newer,
                                                   const RowSamplePtr& rows,
                                                   std::span<const ServedAdapter* const> adapters) {
  LC_DCHECK(rows != nullptr && older < newer);
  const std::pair key(older, newer);
  const int64_t visible = view.VisibleRows(newer, newer);
  std::vector<uint64_t> versions;
  for (const ServedAdapter* adapter : adapters) versions.push_back(adapter->status.version);
  {
    absl::MutexLock lock(&mu_);
    const auto kept = scales_.find(key);
    if (kept != scales_.end() && kept->second.from == rows && kept->second.versions == versions &&
        StillStands(kept->second.rows, kept->second.sequence, visible, view.sequence())) {
      return kept->second.sample;
    }
  }
  LC_ASSIGN_OR_RETURN(ScaleSamplePtr drawn, DrawScale(view, older, newer, rows, adapters));
  absl::MutexLock lock(&mu_);
  scales_[key] = {drawn, rows, std::move(versions), visible, view.sequence()};
  return drawn;
}

}  // namespace lightcone::server
