#include "index/life/segment_index.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "base/priority.h"
#include "base/status.h"
#include "index/life/index_loader.h"
#include "index/rows/measured_recall.h"

namespace lightcone {
namespace {

// Linux: for the calling thread alone. Where the system refuses, the thread runs as others do.
constexpr int kByNiceness = 0, kIdleClass = 3 << 13;  // linux/ioprio.h, which not every system has
void SetDiskPriority(int priority) {
  constexpr int kOfThread = 1;
  ::syscall(SYS_ioprio_set, kOfThread, 0, priority);
}

// Searches and writes come first. The thread may have been started by one that gives way on the disk.
void StandBackForSearches() {
  StandBack(10);
  SetDiskPriority(kByNiceness);
}

void GiveWayOnDisk() {
  StandBackForSearches();
  SetDiskPriority(kIdleClass);
}

void SetDefaultSearch(const Segment& segment, const IndexSettings& settings, SegmentInfo& info) {
  const std::span<const RecallAt> measured = segment.measured();
  if (measured.empty()) return;
  if (segment.lists() == nullptr) {
    info.default_breadth = DefaultBreadth(measured, settings.hnsw_ef_search, kCalibrationK);
  } else if (segment.provisional()) {
    info.default_breadth = ProvisionalProbes(measured, kCalibrationK);
  } else {
    const int probes = DefaultProbes(measured, kCalibrationK);
    info.default_breadth = settings.ivf_nprobe > 0 ? settings.ivf_nprobe : probes;
  }
  info.default_recall = info.default_breadth == 0 ? 1.0 : RecallAtBreadth(measured, info.default_breadth);
}

// Threads that all indexes of the process share. Each kind of work has its own: a seal, for which writes wait, does not
// wait behind rewrites that take minutes.
struct IndexPools {
  SharedPool builds{StandBackForSearches}, rewrites{StandBackForSearches}, checks{GiveWayOnDisk};
};

IndexPools& Pools() {
  static auto* const pools = new IndexPools;
  return *pools;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectionIndex>> CollectionIndex::Open(
    const std::string& folder, const IndexSettings& settings,
    const std::vector<std::pair<uint32_t, Space>>& generations, RowSource* source, const IndexLimits& limits) {
  LC_RETURN_IF_ERROR(settings.Validate());
  std::vector<std::pair<uint32_t, Space>> normalized;
  for (const auto& [number, space] : generations) {
    LC_RETURN_IF_ERROR(space.Validate());
    LC_RETURN_IF_ERROR(CheckGenerationNumber(number));
    normalized.emplace_back(number, Normalized(space));
  }
  auto index = std::make_unique<SegmentIndex>(folder, settings, source, limits);
  LC_RETURN_IF_ERROR(index->Start(normalized));
  return std::unique_ptr<CollectionIndex>(std::move(index));
}

SegmentIndex::~SegmentIndex() {
  state_.stop.store(true);
  {
    absl::MutexLock lock(&state_.mu);
    state_.builder.work = nullptr;
    state_.room.SignalAll();
  }
  building_.reset();  // before the rewrites, which it starts
  builder_.rewrites().Close();
  checking_.reset();
}

absl::Status SegmentIndex::Start(const std::vector<std::pair<uint32_t, Space>>& generations) {
  LC_ASSIGN_OR_RETURN(const std::vector<uint32_t> incomplete, IndexLoader(state_).Load(generations));
  {
    absl::MutexLock lock(&state_.mu);
    replay_after_ = state_.applied;
    newest_in_files_ = state_.newest_in_files;
  }
  for (const uint32_t number : incomplete) LC_RETURN_IF_ERROR(builder_.repair().Recover(number));
  absl::MutexLock lock(&state_.mu);  // no step begins before all is set
  state_.Publish();
  builder_.rewrites().Open(Pools().rewrites.Get());
  building_ = std::make_unique<RecurringWork>(Pools().builds.Get(), [this] { return builder_.Step(); });
  state_.builder.work = building_.get();
  if (state_.unchecked.empty()) return absl::OkStatus();
  checking_ = std::make_unique<RecurringWork>(Pools().checks.Get(), [this] { return builder_.checks().CheckNext(); });
  return absl::OkStatus();
}

bool SegmentIndex::WantsRows(uint32_t generation, uint64_t sequence) const {
  absl::MutexLock lock(&state_.mu);
  const auto it = state_.generations.find(generation);
  return it != state_.generations.end() && sequence > it->second.floor;
}

absl::Status SegmentIndex::DropGeneration(uint32_t generation) {
  LC_RETURN_IF_ERROR(drop_.Drop(generation));
  builder_.rewrites().Cancel(generation);
  return absl::OkStatus();
}

absl::StatusOr<bool> SegmentIndex::AwaitRoom(absl::Time deadline) {
  if (!state_.crowded.load()) return true;
  absl::MutexLock lock(&state_.mu);
  while (state_.Crowded()) {
    if (const absl::Status& error = state_.builds.sealing_error; !error.ok()) {
      return ResourceExhausted(StrCat(state_.UnsealedBytes(), " bytes of rows wait to be sealed, ",
                                      "index.unsealed_bytes_max is ", state_.limits.unsealed_bytes_max,
                                      ", and sealing fails: ", MessageOf(error)));
    }
    const bool building = std::any_of(state_.generations.begin(), state_.generations.end(),
                                      [](const auto& entry) { return !entry.second.frozen.empty(); });
    if (!building) {  // Active segments alone take that much: none of them may ever be full.
      for (auto& [number, generation] : state_.generations) state_.Freeze(generation);
    }
    if (state_.stopping() || absl::Now() >= deadline) return false;
    state_.room.WaitWithDeadline(&state_.mu, deadline);
  }
  return true;
}

absl::Status SegmentIndex::Reconfigure(const IndexSettings& settings, bool rebuild_now) {
  LC_RETURN_IF_ERROR(settings.Validate());
  absl::MutexLock lock(&state_.mu);
  state_.settings = settings;
  if (rebuild_now) {
    ++state_.rebuilds_asked;
    for (auto& [number, generation] : state_.generations) {
      for (const auto& segment : generation.sealed) segment->set_stale();
    }
  }
  state_.Publish();
  state_.Wake();
  return absl::OkStatus();
}

IndexStats SegmentIndex::Stats() const {
  IndexStats stats;
  absl::MutexLock lock(&state_.mu);
  stats.sealed_sequence = state_.applied;
  const SealedSegment* largest = nullptr;
  const IndexSettings settings = state_.settings;
  for (const auto& [number, generation] : state_.generations) {
    const auto add = [&](const Segment& segment) {
      const int64_t mapped = segment.mapped_bytes(), heap = segment.heap_bytes();
      stats.mapped_bytes += mapped;
      stats.heap_bytes += heap;
      stats.segments.push_back({segment.generation(), segment.id(), std::string(segment.kind()),
                                std::string(segment.codes_name()), segment.rows(), segment.counts().Of(kDeleted),
                                mapped + heap});
      SetDefaultSearch(segment, settings, stats.segments.back());
    };
    for (const auto& segment : generation.damaged) add(*segment);
    for (const auto& segment : generation.sealed) {
      add(*segment);
      stats.segments_damaged += segment->damaged();  // A marked segment whose repair has not begun.
      if (largest == nullptr || segment->rows() > largest->rows()) largest = segment.get();
    }
    for (const auto& segment : generation.frozen) add(*segment);
    if (generation.active != nullptr) add(*generation.active);
    stats.segments_damaged += static_cast<int64_t>(generation.damaged.size());
    stats.sealed_sequence = std::min(stats.sealed_sequence, generation.persisted);
  }
  if (largest != nullptr) {
    stats.choice = state_.ChoiceOf(largest->space(), largest->rows(), largest, state_.AllRows()).reason;
  }
  stats.segments_unchecked = static_cast<int64_t>(state_.unchecked.size());
  stats.builds_running = state_.builds.running;
  stats.builds_total = state_.builds.total;
  stats.rebuilds_total = state_.builds.rebuilt;
  stats.last_error = state_.builds.sealing_error;
  stats.last_error.Update(state_.builds.mending_error);
  stats.last_error.Update(builder_.rewrites().LastError());
  return stats;
}

}  // namespace lightcone
