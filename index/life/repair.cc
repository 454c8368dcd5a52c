#include "index/life/repair.h"

#include <algorithm>
#include <chrono>

#include "base/exceptions.h"
#include "base/status.h"
#include "base/work_pool.h"
#include "spdlog/spdlog.h"

namespace lightcone {

// Rows of the store on their way into growing segments. The store is read without the lock, which each batch takes.
class Repair::Batches {
 public:
  Batches(Repair& repair, uint32_t number) : repair_(repair), state_(repair.state_), number_(number) {}

  absl::Status Add(uint64_t internal_id, std::span<const float> z, float uncertainty) {
    constexpr size_t kRowsABatch = 512;
    RowChange& change = batch_.emplace_back();
    change.internal_id = internal_id;
    change.generation = number_;
    change.uncertainty = uncertainty;
    vectors_.insert(vectors_.end(), z.begin(), z.end());
    return batch_.size() < kRowsABatch ? absl::OkStatus() : Append();
  }

  absl::Status Append() ABSL_LOCKS_EXCLUDED(state_.mu) {
    if (state_.stopping()) return MakeStatus(absl::StatusCode::kCancelled, "the index stops");
    if (sealed_.ok()) SealSome();
    absl::MutexLock lock(&state_.mu);
    for (size_t i = 0; i < batch_.size(); ++i) {
      const size_t dimension = vectors_.size() / batch_.size();
      batch_[i].z = std::span<const float>(vectors_).subspan(i * dimension, dimension);
      LC_RETURN_IF_ERROR(repair_.writer_.AppendRecovered(batch_[i]));
    }
    rows_ += static_cast<int64_t>(batch_.size());
    batch_.clear();
    vectors_.clear();
    return absl::OkStatus();
  }

  int64_t rows() const { return rows_; }

 private:
  using Clock = std::chrono::steady_clock;

  // All rows of a generation would not fit into memory. Where they cannot be sealed, memory serves them.
  void SealSome() {
    sealed_ = repair_.sealer_.SealMany(number_);
    // Writes to other generations may bring more than is sealed, for ever: that has no more than half of the time.
    const Clock::time_point now = Clock::now();
    if (sealed_.ok() && 2 * for_others_ <= now - begun_) {
      sealed_ = repair_.sealer_.SealOfAny();
      for_others_ += Clock::now() - now;
    }
    if (sealed_.ok()) return;
    spdlog::warn("index '{}': generation {}: {}", state_.folder, number_, MessageOf(sealed_));
  }

  Repair& repair_;
  IndexState& state_;
  const uint32_t number_;
  const Clock::time_point begun_ = Clock::now();
  Clock::duration for_others_{0};  // time that sealing other generations took
  absl::Status sealed_;
  std::vector<RowChange> batch_;
  std::vector<float> vectors_;  // of the batch, one after another
  int64_t rows_ = 0;
};

absl::StatusOr<bool> Repair::MendDamage(std::map<uint32_t, absl::Status>* unmended) {
  std::vector<uint32_t> numbers;
  {
    absl::MutexLock lock(&state_.mu);
    if (state_.source == nullptr && checks_.AnyDamaged()) {
      return DataLoss(StrCat("index '", state_.folder, "' is damaged and there is no store to ask"));
    }
    std::erase_if(*unmended, [this](const auto& entry) {
      state_.mu.AssertHeld();
      return !state_.generations.contains(entry.first);  // dropped
    });
    numbers = BeginRepairs(*unmended);
  }
  if (numbers.empty()) return true;
  const WorkPool::LongStep long_step;  // The store may be read for hours.
  if (!long_step.granted()) return false;
  for (const uint32_t number : numbers) {
    absl::Status mended;
    try {
      mended = MendGeneration(number);
    } catch (...) {
      mended = StatusOfException();
    }
    absl::MutexLock lock(&state_.mu);
    if (!mended.ok() && state_.generations.contains(number)) unmended->emplace(number, mended);
  }
  return true;
}

std::vector<uint32_t> Repair::BeginRepairs(const std::map<uint32_t, absl::Status>& unmended) {
  std::vector<uint32_t> numbers;
  for (auto& [number, generation] : state_.generations) {
    for (const auto& segment : generation.sealed) {
      if (!segment->damaged()) continue;
      spdlog::error("index '{}': segment {} of generation {} is damaged: {} rows are taken from the store again",
                    state_.folder, segment->id(), number, segment->rows());
      generation.damaged.push_back(segment);
      std::erase(state_.unchecked, segment);
      ++state_.builds.rebuilt;
    }
    std::erase_if(generation.sealed, [&moved = generation.damaged](const auto& segment) {
      return std::find(moved.begin(), moved.end(), segment) != moved.end();
    });
    if (generation.damaged.empty() || unmended.contains(number)) continue;
    generation.gone.clear();
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status Repair::MendGeneration(uint32_t number) {
  LC_RETURN_IF_ERROR(Recover(number));
  absl::MutexLock lock(&state_.mu);
  const auto it = state_.generations.find(number);
  if (it == state_.generations.end()) return absl::OkStatus();  // dropped
  GenerationRows& generation = it->second;
  for (const auto& segment : generation.damaged) state_.garbage.push_back(segment->folder());
  generation.damaged.clear();
  generation.gone.clear();
  generation.touched = true;
  state_.checkpoint_due = true;
  state_.Publish();
  return absl::OkStatus();
}

absl::Status Repair::Recover(uint32_t number) {
  Space space;
  {
    absl::MutexLock lock(&state_.mu);
    const auto it = state_.generations.find(number);
    if (it == state_.generations.end()) return NotFound("the generation has been dropped");
    space = it->second.space;
  }
  Batches batches(*this, number);
  absl::Status status = state_.source->ForEachEmbedding(
      number, [&](uint64_t internal_id, std::span<const float> z, float uncertainty) -> absl::Status {
        LC_RETURN_IF_ERROR(CheckVector(space, z, "vector"));
        return batches.Add(internal_id, z, uncertainty);
      });
  if (status.ok()) status = batches.Append();
  if (!status.ok()) return Annotate(status, StrCat("rebuild generation ", number, " of index '", state_.folder, "'"));
  absl::MutexLock lock(&state_.mu);
  const auto it = state_.generations.find(number);
  if (it == state_.generations.end()) return NotFound("the generation has been dropped");
  state_.Freeze(it->second);
  it->second.recovering = false;
  state_.checkpoint_due = true;  // It says that the generation is whole.
  state_.Wake();
  if (batches.rows() > 0) {
    spdlog::info("index '{}': generation {}: looked at {} embeddings of the store", state_.folder, number,
                 batches.rows());
  }
  return absl::OkStatus();
}

}  // namespace lightcone
