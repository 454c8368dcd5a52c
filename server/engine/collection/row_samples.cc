#include "server/engine/collection/row_samples.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/dcheck.h"
#include "base/status.h"
#include "stats/distance_fusion.h"
#include "store/keys.h"
#include "store/records.h"

namespace lightcone::server {
namespace {

constexpr int64_t kChangedParts = 4;    // a sample is drawn anew when one part in so many has changed
constexpr int64_t kChangesMin = 1'024;  // changes of a small gallery that its sample stays for
constexpr int64_t kScaleLooks = 4'096;  // rows of the newer generation that are looked at for common items

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

const SampleLikeness* RowSample::likeness() const {
  absl::call_once(made_, [this] {
    std::optional<LikenessKernel> kernel = LikenessKernel::Make(rows);
    if (!kernel) return;
    std::vector<float> features = FeaturesOf(*kernel, *this);
    likeness_.emplace(SampleLikeness{*std::move(kernel), std::move(features)});
  });
  return likeness_ ? &*likeness_ : nullptr;
}

bool RowSamples::StillStands(int64_t rows_then, uint64_t sequence_then, int64_t rows, uint64_t sequence) {
  // A search may hold an older view than the one that drew.
  const auto changes = static_cast<int64_t>(std::max(sequence, sequence_then) - std::min(sequence, sequence_then));
  const int64_t share = rows_then / kChangedParts;
  return std::abs(rows - rows_then) <= share && changes <= std::max(kChangesMin, share);
}

absl::StatusOr<RowSamplePtr> RowSamples::Draw(const IndexView& view, uint32_t generation) const {
  const uint32_t generations[] = {generation};
  std::vector<std::string> embedding_keys;
  for (const SampledRow& row : view.SampleRows(generations, generation, kRowsMax)) {
    embedding_keys.push_back(keys::Embedding(collection_, generation, row.internal_id));
  }
  auto sample = std::make_shared<RowSample>();
  for (const absl::StatusOr<std::string>& bytes : store_->MultiGet(Table::kEmbeddings, embedding_keys)) {
    if (absl::IsNotFound(bytes.status())) continue;  // The item was replaced since the view was pinned.
    LC_RETURN_IF_ERROR(bytes.status());
    LC_ASSIGN_OR_RETURN(EmbeddingRecord record, DecodeEmbedding(*bytes));
    sample->rows.push_back(std::move(record.z));
  }
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

absl::StatusOr<RowSamplePtr> RowSamples::Read(std::span<const uint64_t> ids, uint32_t generation) const {
  std::vector<std::string> embedding_keys;
  for (const uint64_t id : ids) embedding_keys.push_back(keys::Embedding(collection_, generation, id));
  auto sample = std::make_shared<RowSample>();
  for (const absl::StatusOr<std::string>& bytes : store_->MultiGet(Table::kEmbeddings, embedding_keys)) {
    std::vector<float>& row = sample->rows.emplace_back();
    if (absl::IsNotFound(bytes.status())) continue;
    LC_RETURN_IF_ERROR(bytes.status());
    LC_ASSIGN_OR_RETURN(EmbeddingRecord record, DecodeEmbedding(*bytes));
    row = std::move(record.z);
  }
  return RowSamplePtr(std::move(sample));
}

absl::StatusOr<std::vector<uint64_t>> RowSamples::CommonIds(const IndexView& view, uint32_t older, uint32_t newer,
                                                            std::span<const ServedAdapter* const> adapters) const {
  const bool known = !adapters.empty() && std::all_of(adapters.begin(), adapters.end(),
                                                      [](const ServedAdapter* a) { return a->fit.held_out_from != 0; });
  const uint32_t generations[] = {newer};
  std::vector<uint64_t> all, held_out;
  for (const SampledRow& row : view.SampleRows(generations, newer, kScaleLooks)) {
    all.push_back(row.internal_id);
    const auto holds = [&](const ServedAdapter* a) { return a->HeldOut(row.internal_id); };
    if (known && std::all_of(adapters.begin(), adapters.end(), holds)) held_out.push_back(row.internal_id);
  }
  for (const std::vector<uint64_t>* ids : {&held_out, &all}) {
    if (ids->size() < DistanceScale::kRowsMin) continue;
    LC_ASSIGN_OR_RETURN(const RowSamplePtr rows, Read(*ids, older));
    std::vector<uint64_t> common;
    for (size_t i = 0; i < ids->size(); ++i) {
      if (!rows->rows[i].empty()) common.push_back((*ids)[i]);
    }
    if (common.size() < DistanceScale::kRowsMin) continue;
    // Evenly spread ones of those found.
    const size_t n = std::min(common.size(), static_cast<size_t>(kRowsMax));
    for (size_t i = 0; i < n; ++i) common[i] = common[i * common.size() / n];
    common.resize(n);
    return common;
  }
  return std::vector<uint64_t>();
}

absl::StatusOr<ScaleSamplePtr> RowSamples::DrawScale(const IndexView& view, uint32_t older, uint32_t newer,
                                                     const RowSamplePtr& rows,
                                                     std::span<const ServedAdapter* const> adapters) {
  auto sample = std::make_shared<ScaleSample>();
  LC_ASSIGN_OR_RETURN(const std::vector<uint64_t> common, CommonIds(view, older, newer, adapters));
  const SampleLikeness* const likeness = rows->likeness();
  if (common.empty()) {
    sample->older = rows;
    LC_ASSIGN_OR_RETURN(sample->newer, Of(view, newer));
    if (likeness != nullptr) sample->features = likeness->features;
  } else {
    LC_ASSIGN_OR_RETURN(sample->older, Read(common, older));
    LC_ASSIGN_OR_RETURN(sample->newer, Read(common, newer));
    if (likeness != nullptr) sample->features = FeaturesOf(likeness->kernel, *sample->older);
  }
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
