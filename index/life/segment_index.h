// The implementation of CollectionIndex: one writer, background work in steps, views that are swapped atomically.
//
// The parts, each with a header of its own: RowWriter and GenerationDrop change rows, Builder seals and decides what is
// next, Rewrites merges and compacts, FileChecks and Repair deal with damage, Flushes answers those who wait. Threads
// of three pools, for all indexes of the process, run the steps of Builder, Rewrites and FileChecks. Threads: see
// collection_index.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "index/api/collection_index.h"
#include "index/life/builder.h"

namespace lightcone {

class SegmentIndex final : public CollectionIndex {
 public:
  SegmentIndex(std::string folder, const IndexSettings& settings, RowSource* source, const IndexLimits& limits)
      : state_(std::move(folder), settings, source, limits) {}
  ~SegmentIndex() override;

  // Reads the folder, then begins the background work. Called once, first.
  absl::Status Start(const std::vector<std::pair<uint32_t, Space>>& generations) ABSL_LOCKS_EXCLUDED(state_.mu);

  uint64_t replay_after() const override { return replay_after_; }
  bool WantsRows(uint32_t generation, uint64_t sequence) const override ABSL_LOCKS_EXCLUDED(state_.mu);
  uint64_t newest_sequence_in_files() const override { return newest_in_files_; }
  absl::Status AddGeneration(uint32_t generation, const Space& space) override {
    return writer_.AddGeneration(generation, space);
  }
  absl::Status PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled) override {
    return drop_.Prepare(generation, cancelled);
  }
  absl::Status DropGeneration(uint32_t generation) override ABSL_LOCKS_EXCLUDED(state_.mu);
  absl::Status Apply(uint64_t sequence, std::span<const RowChange> changes) override {
    return writer_.Apply(sequence, changes);
  }
  absl::StatusOr<bool> AwaitRoom(absl::Time deadline) override ABSL_LOCKS_EXCLUDED(state_.mu);
  std::shared_ptr<const IndexView> View() const override { return state_.view.Get(); }
  absl::Status Flush(absl::Time deadline, const std::function<bool()>& cancelled) override {
    return builder_.flushes().Await(deadline, cancelled);
  }
  absl::Status Reconfigure(const IndexSettings& settings, bool rebuild_now) override ABSL_LOCKS_EXCLUDED(state_.mu);
  IndexStats Stats() const override ABSL_LOCKS_EXCLUDED(state_.mu);

 private:
  IndexState state_;
  GenerationDrop drop_{state_};
  RowWriter writer_{state_, drop_};
  Builder builder_{state_, writer_};
  uint64_t replay_after_ = 0, newest_in_files_ = 0;  // set by Start
  std::unique_ptr<RecurringWork> building_, checking_;
};

}  // namespace lightcone
