// What an index does about damage: files are read through after a start and looked at while they serve, and the rows of
// segments that are found damaged come from the store again, beside searches and writes.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/priority.h"
#include "base/status.h"
#include "index/life/segment_index.h"
#include "index/rows/disk_pace.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr absl::Duration kSleepMax = absl::Milliseconds(20);
constexpr absl::Duration kCheckAgainAfter = absl::Seconds(5);
constexpr int kCheckerNice = 10;
constexpr size_t kCheckedRowsABatch = 512;  // that come from the store between two locks
constexpr size_t kUnsealedSegmentsMax = 4;  // full growing segments of a generation, while rows come from the store

// Linux: of the calling thread alone. Where it is refused, the thread runs as others do.
void GiveWay() {
  StandBack(kCheckerNice);
  constexpr int kOfThread = 1, kIdleClass = 3 << 13;  // linux/ioprio.h, which not every system has
  ::syscall(SYS_ioprio_set, kOfThread, 0, kIdleClass);
}

}  // namespace

void SegmentIndex::CheckerLoop() {
  GiveWay();
  while (true) {
    std::shared_ptr<SealedSegment> segment;
    {
      absl::MutexLock lock(&mu_);
      if (unchecked_.empty()) return;
      segment = unchecked_.back();
    }
    if (!CheckSegment(*segment, /*hurry=*/false, [this] { return stopping(); })) return;
    absl::MutexLock lock(&mu_);
    std::erase(unchecked_, segment);
    wake_.SignalAll();
  }
}

bool SegmentIndex::CheckSegment(const SealedSegment& segment, bool hurry, absl::FunctionRef<bool()> stop) {
  const auto go_on = [&](size_t bytes) {
    const auto at_once = [&] { return stop() || hurrying_.load(std::memory_order_relaxed); };
    if (!hurry && !at_once()) AwaitCheckPace(bytes, at_once);
    return !stop();
  };
  absl::Status status = segment.Check(go_on);
  while (!status.ok() && !absl::IsCancelled(status) && !absl::IsDataLoss(status)) {
    spdlog::warn("index '{}': segment {} cannot be checked now: {}", folder_, segment.id(), MessageOf(status));
    const absl::Time again = absl::Now() + kCheckAgainAfter;
    while (!stop() && absl::Now() < again) absl::SleepFor(kSleepMax);
    if (stop()) return false;
    status = segment.Check(go_on);
  }
  if (absl::IsCancelled(status)) return false;
  if (status.ok()) return true;
  absl::MutexLock lock(&mu_);
  const auto it = generations_.find(segment.generation());
  const auto is_it = [&segment](const auto& s) { return s.get() == &segment; };
  // Merged or dropped meanwhile: its files may have gone.
  if (it == generations_.end() || std::none_of(it->second.sealed.begin(), it->second.sealed.end(), is_it)) return true;
  spdlog::error("index '{}': segment {}: {}", folder_, segment.id(), MessageOf(status));
  segment.MarkDamaged();
  Wake();
  return true;
}

void SegmentIndex::LookAtFiles() {
  std::vector<std::shared_ptr<SealedSegment>> segments;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [number, generation] : generations_) {
      segments.insert(segments.end(), generation.sealed.begin(), generation.sealed.end());
    }
  }
  for (const auto& segment : segments) {
    if (segment->damaged()) continue;
    const absl::Status status = segment->CheckFiles();
    if (status.ok()) continue;
    spdlog::error("index '{}': segment {}: {}", folder_, segment->id(), MessageOf(status));
    segment->MarkDamaged();
  }
}

bool SegmentIndex::AnyDamaged() const {
  for (const auto& [number, generation] : generations_) {
    for (const auto& segment : generation.sealed) {
      if (segment->damaged()) return true;
    }
  }
  return false;
}

absl::Status SegmentIndex::MendDamage(std::map<uint32_t, absl::Status>* unmended) {
  std::vector<uint32_t> numbers;
  {
    absl::MutexLock lock(&mu_);
    if (source_ == nullptr && AnyDamaged()) {
      return DataLoss(StrCat("index '", folder_, "' is damaged and there is no store to ask"));
    }
    std::erase_if(*unmended, [this](const auto& entry) {
      mu_.AssertHeld();
      return !generations_.contains(entry.first);  // dropped
    });
    for (auto& [number, generation] : generations_) {
      for (const auto& segment : generation.sealed) {
        if (!segment->damaged()) continue;
        spdlog::error("index '{}': segment {} of generation {} is damaged: {} rows are taken from the store again",
                      folder_, segment->id(), number, segment->rows());
        generation.damaged.push_back(segment);
        std::erase(unchecked_, segment);
        ++rebuilds_total_;
      }
      std::erase_if(generation.sealed, [](const auto& segment) { return segment->damaged(); });
      if (generation.damaged.empty() || unmended->contains(number)) continue;
      generation.gone.clear();
      numbers.push_back(number);
    }
  }
  for (const uint32_t number : numbers) {
    absl::Status recovered;
    try {
      recovered = Recover(number);
    } catch (...) {
      recovered = StatusOfException();
    }
    absl::MutexLock lock(&mu_);
    const auto it = generations_.find(number);
    if (it == generations_.end()) continue;  // dropped
    if (!recovered.ok()) {
      unmended->emplace(number, recovered);
      continue;
    }
    Generation& generation = it->second;
    for (const auto& segment : generation.damaged) garbage_.push_back(segment->folder());
    generation.damaged.clear();
    generation.gone.clear();
    generation.touched = true;
    checkpoint_due_ = true;
    Publish();
  }
  return absl::OkStatus();
}

absl::Status SegmentIndex::Recover(uint32_t number) {
  // The store is read without the lock, which each batch then takes.
  std::vector<RowChange> batch;
  std::vector<float> vectors;
  int64_t rows = 0;
  absl::Status sealed;
  const auto begun = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration for_others{0};
  const auto append = [&]() -> absl::Status {
    if (stopping()) return MakeStatus(absl::StatusCode::kCancelled, "the index stops");
    // All rows of a generation would not fit into memory. Where they cannot be written they are served from there.
    if (sealed.ok()) {
      sealed = SealRecovered(number);
      // Writes to other generations may bring more than is sealed, for ever: that has no more than half of the time.
      const auto now = std::chrono::steady_clock::now();
      if (sealed.ok() && 2 * for_others <= now - begun) {
        sealed = SealOthers();
        for_others += std::chrono::steady_clock::now() - now;
      }
      if (!sealed.ok()) spdlog::warn("index '{}': generation {}: {}", folder_, number, MessageOf(sealed));
    }
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < batch.size(); ++i) {
      const size_t dimension = vectors.size() / batch.size();
      batch[i].z = std::span<const float>(vectors).subspan(i * dimension, dimension);
      LC_RETURN_IF_ERROR(AppendRecovered(number, batch[i]));
    }
    rows += static_cast<int64_t>(batch.size());
    batch.clear();
    vectors.clear();
    return absl::OkStatus();
  };
  Space space;
  {
    absl::MutexLock lock(&mu_);
    const auto it = generations_.find(number);
    if (it == generations_.end()) return NotFound("the generation has been dropped");
    space = it->second.space;
  }
  absl::Status status = source_->ForEachEmbedding(
      number, [&](uint64_t internal_id, std::span<const float> z, float uncertainty) -> absl::Status {
        LC_RETURN_IF_ERROR(CheckVector(space, z, "vector"));
        RowChange& change = batch.emplace_back();
        change.internal_id = internal_id;
        change.generation = number;
        change.uncertainty = uncertainty;
        vectors.insert(vectors.end(), z.begin(), z.end());
        return batch.size() < kCheckedRowsABatch ? absl::OkStatus() : append();
      });
  if (status.ok()) status = append();
  if (!status.ok()) return Annotate(status, StrCat("rebuild generation ", number, " of index '", folder_, "'"));
  absl::MutexLock lock(&mu_);
  const auto it = generations_.find(number);
  if (it == generations_.end()) return NotFound("the generation has been dropped");
  Freeze(it->second);
  it->second.recovering = false;
  checkpoint_due_ = true;  // It says that the generation is whole.
  Wake();
  if (rows > 0) spdlog::info("index '{}': generation {}: looked at {} embeddings of the store", folder_, number, rows);
  return absl::OkStatus();
}

absl::Status SegmentIndex::SealRecovered(uint32_t number) {
  while (!stopping()) {
    std::optional<Job> job;
    {
      absl::MutexLock lock(&mu_);
      const auto it = generations_.find(number);
      if (it == generations_.end() || it->second.frozen.size() <= kUnsealedSegmentsMax) return absl::OkStatus();
      job = SealOf(number, it->second);
    }
    LC_RETURN_IF_ERROR(Seal(*job));
  }
  return absl::OkStatus();
}

absl::Status SegmentIndex::SealOthers() {
  std::optional<Job> job;
  {
    absl::MutexLock lock(&mu_);
    const int64_t rows_max = static_cast<int64_t>(kUnsealedSegmentsMax) * settings_.growing_rows_max;
    job = InTurn(seal_turn_, [this, rows_max](uint32_t number, Generation& generation) {
      mu_.AssertHeld();
      return generation.frozen.size() > kUnsealedSegmentsMax ? SealOf(number, generation, rows_max) : std::nullopt;
    });
  }
  return job ? Seal(*job) : absl::OkStatus();
}

absl::Status SegmentIndex::AppendRecovered(uint32_t number, const RowChange& change) {
  const auto it = generations_.find(number);
  if (it == generations_.end()) return NotFound("the generation has been dropped");
  Generation& generation = it->second;
  // The store was read a while ago: what has been deleted since must not come back.
  if (generation.gone.contains(change.internal_id) || Find(generation, change.internal_id)) return absl::OkStatus();
  // So that the checkpoint's sequence stays until the rows are sealed.
  const uint64_t sequence = std::max(generation.floor, applied_) + 1;
  LC_RETURN_IF_ERROR(AppendRow(number, generation, change, sequence, /*recovered=*/true));
  for (auto older = generations_.begin(); older->first < number; ++older) {
    Supersede(older->second, change.internal_id, number, applied_);
  }
  return absl::OkStatus();
}

}  // namespace lightcone
