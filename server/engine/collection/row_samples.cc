#include "server/engine/collection/row_samples.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/dcheck.h"
#include "base/status.h"
#include "store/keys.h"
#include "store/records.h"

namespace lightcone::server {
namespace {

constexpr int64_t kChangedParts = 4;    // a sample is drawn anew when one part in so many has changed
constexpr int64_t kChangesMin = 1'024;  // changes of a small gallery that its sample stays for

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
    const size_t size = kernel->features();
    std::vector<float> features(rows.size() * size);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].empty()) kernel->FeaturesOf(rows[i], std::span(features).subspan(i * size, size));
    }
    likeness_.emplace(SampleLikeness{*std::move(kernel), std::move(features)});
  });
  return likeness_ ? &*likeness_ : nullptr;
}

bool RowSamples::StillStands(const Kept& kept, int64_t rows, uint64_t sequence) {
  // A search may hold an older view than the one that drew.
  const auto changes = static_cast<int64_t>(std::max(sequence, kept.sequence) - std::min(sequence, kept.sequence));
  const int64_t share = kept.rows / kChangedParts;
  return std::abs(rows - kept.rows) <= share && changes <= std::max(kChangesMin, share);
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
    if (kept != kept_.end() && StillStands(kept->second, rows, sequence)) return kept->second.sample;
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
  auto carried = std::make_shared<RowSample>();
  for (const std::vector<float>& row : plain->rows) {
    std::vector<float>& to = carried->rows.emplace_back(static_cast<size_t>(adapter.adapter.output_dimension()));
    adapter.adapter.ApplyOne(row, to);
    if (!CheckVector(adapter.adapter.target(), to, "vector").ok()) to.clear();
  }
  RowSamplePtr sample = std::move(carried);
  absl::MutexLock lock(&mu_);
  kept_[key] = {sample, plain, adapter.status.version, 0, 0};
  return sample;
}

}  // namespace lightcone::server
