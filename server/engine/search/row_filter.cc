#include <random>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/search/search.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kSampleRows = 256;          // items whose payloads are read
constexpr int64_t kSampleRowsAlone = 1'024;  // rows of the index, where no payload has to be read
constexpr size_t kSampleRowsMin = 32;        // fewer say nothing

constexpr int64_t kAskedMax = 1'000;           // rows; then all are looked at in one walk
constexpr uint64_t kLoadItemsMax = 8'000'000;  // bounds the memory of one call: about 20 bytes each
constexpr uint64_t kLoadShareMin = 8;          // share of the items below which each is looked up alone
constexpr int64_t kRowsBetweenChecks = 1'024;  // items between looks at the deadline

}  // namespace

void RowFilter::LoadAll() {
  absl::MutexLock loading(&load_mu_);
  if (loaded_) return;
  loaded_ = true;
  const uint64_t items = collection_->progress().ItemCount();
  if (items > kLoadItemsMax || expected_ < items / kLoadShareMin) return;
  const keys::Range range = keys::ItemRange(collection_->number());
  const auto iterator = collection_->store()->Scan(Table::kItems, range.begin, range.end);
  for (int64_t i = 0; iterator->Valid(); ++i, iterator->Next()) {
    if (i % kRowsBetweenChecks == 0 && !CheckAlive(context_, "filter").ok()) return;
    const auto record = DecodeItem(iterator->value());
    if (!record.ok()) return;  // Whoever meets this item's row reports it.
    read_.fetch_add(1, std::memory_order_relaxed);
    const auto id = keys::ParseItem(iterator->key());
    if (!id.ok()) return;
    const bool keeps = filter_->Matches({&record->payload_json, 0, 0, &*id});
    absl::MutexLock lock(&mu_);
    known_[record->internal_id] = keeps;
  }
}

bool RowFilter::Keeps(uint64_t internal_id, uint32_t generation, float uncertainty) {
  FilterSubject subject{nullptr, generation, uncertainty};
  if (!filter_->needs_payload() && !filter_->needs_id()) return filter_->Matches(subject);
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto known = known_.find(internal_id);
    if (known != known_.end()) return known->second;
  }
  if (asked_.fetch_add(1) == kAskedMax && !filter_->needs_generation() && !filter_->needs_uncertainty()) {
    LoadAll();
    absl::ReaderMutexLock lock(&mu_);
    const auto known = known_.find(internal_id);
    if (known != known_.end()) return known->second;
  }
  const uint64_t ids[] = {internal_id};
  const auto resolved = collection_->ResolveRows(ids, /*with_record=*/true);
  if (!resolved.ok()) {
    absl::MutexLock lock(&mu_);
    if (status_.ok()) status_ = resolved.status();
    return false;
  }
  read_.fetch_add(1, std::memory_order_relaxed);
  const ResolvedRow& row = (*resolved)[0];
  if (row.found) subject.payload_json = &row.record.payload_json, subject.id = &row.id;
  const bool keeps = row.found && filter_->Matches(subject);
  absl::MutexLock lock(&mu_);
  if (known_.size() < kLoadItemsMax) known_[internal_id] = keeps;
  return keeps;
}

double RowFilter::EstimateShare(uint64_t next_internal_id, uint32_t view_generation) {
  if (next_internal_id <= 1) return 1.0;
  std::mt19937_64 random(next_internal_id);
  std::uniform_int_distribution<uint64_t> any(1, next_internal_id - 1);
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < kSampleRows; ++i) ids.push_back(any(random));
  const auto rows = collection_->ResolveRows(ids, /*with_record=*/true);
  if (!rows.ok()) return 0.0;
  read_.fetch_add(static_cast<int64_t>(rows->size()), std::memory_order_relaxed);
  size_t seen = 0, kept = 0;
  for (const ResolvedRow& row : *rows) {
    if (!row.found || row.record.generations.empty()) continue;
    ++seen;
    kept += filter_->Matches(
        {&row.record.payload_json, HeadGeneration(row.record.generations, view_generation), 0, &row.id});
  }
  if (seen < kSampleRowsMin) return 0.0;
  return static_cast<double>(kept) / static_cast<double>(seen);
}

double RowFilter::EstimateShareOfRows(const IndexView& view, std::span<const uint32_t> generations,
                                      uint32_t view_generation) {
  const bool payloads = filter_->needs_payload() || filter_->needs_id();
  const auto sample = view.SampleRows(generations, view_generation, payloads ? kSampleRows : kSampleRowsAlone);
  std::vector<ResolvedRow> records;
  if (payloads) {
    std::vector<uint64_t> ids;
    for (const SampledRow& row : sample) ids.push_back(row.internal_id);
    auto rows = collection_->ResolveRows(ids, /*with_record=*/true);
    if (!rows.ok()) return 0.0;
    read_.fetch_add(static_cast<int64_t>(rows->size()), std::memory_order_relaxed);
    records = *std::move(rows);
  }
  size_t seen = 0, kept = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    if (payloads && !records[i].found) continue;
    ++seen;
    kept += filter_->Matches({payloads ? &records[i].record.payload_json : nullptr, sample[i].generation,
                              sample[i].uncertainty, payloads ? &records[i].id : nullptr});
  }
  if (seen < kSampleRowsMin) return 0.0;
  return static_cast<double>(kept) / static_cast<double>(seen);
}

absl::Status RowFilter::status() const {
  absl::ReaderMutexLock lock(&mu_);
  return status_;
}

}  // namespace lightcone::server
