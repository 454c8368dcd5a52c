// Batches of augmented, normalised images, prepared by worker threads beside the training step.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "trainer/data/augment.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// One batch: `images` is size x channels x height x width floats; `indices` are rows of the ImageSet.
struct Batch {
  int64_t epoch = 0, step = 0;  // step counts within the epoch
  std::vector<float> images;
  std::vector<int32_t> labels;
  std::vector<int64_t> indices;
  std::vector<ImageChange> changes;  // in place of images, with LoaderOptions::draw_only

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

struct LoaderOptions {
  int64_t batch_size = 128;
  int64_t epochs = 1;  // Next() ends after this many, counted from 0.
  uint64_t seed = 0;   // Drives order and augmentation.
  AugmentKind augment = AugmentKind::kNone;
  bool shuffle = true;      // Another order each epoch.
  int64_t same_class = 1;   // With shuffle: images of one class come in runs of so many, the runs in random order.
                            // Images that fill no run of their class come at the end of the epoch.
  bool draw_only = false;   // Batches without images: whoever has them elsewhere applies `changes` there.
  bool drop_last = true;    // Leave out the images that do not fill a batch (another few each epoch).
  int64_t start_epoch = 0;  // Where a resumed training goes on: the first batch that Next() gives.
  int64_t start_step = 0;
  int workers = 1;        // Threads that prepare. Content does not depend on it.
  int queue_batches = 4;  // Batches prepared ahead. Cost: memory.

  // INVALID_ARGUMENT names the field, for a set of `images` images.
  absl::Status Validate(int64_t images) const;
};

// Order and content of batch (epoch, step) are a function of the seed and the image set alone, so a training that
// resumes at (epoch, step) sees exactly what it would have seen.
// Threads: Next() from one thread at a time. The destructor stops the workers after the batch they are at.
class BatchLoader {
 public:
  // `set` must outlive the loader. INVALID_ARGUMENT for options that do not fit.
  static absl::StatusOr<std::unique_ptr<BatchLoader>> Create(const ImageSet* set, const Normalisation& normalisation,
                                                             const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Waits for the next batch and swaps it into *batch, whose old buffers are used again. False after the last epoch,
  // and when an image cannot be read: ask status().
  bool Next(Batch* batch);

  // OK, or why Next() ended early: the first image that could not be read. Sets in memory never fail.
  absl::Status status();

  int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  struct Slot {
    bool ready = false;
    Batch batch;
  };

  BatchLoader(const ImageSet* set, const Normalisation& normalisation, const LoaderOptions& options);
  void Work();
  std::vector<int64_t> OrderOf(int64_t epoch) const;
  absl::Status Fill(int64_t ticket, const std::vector<int64_t>& order, Batch* batch) const;

  const ImageSet* const set_;
  const Normalisation normalisation_;
  const LoaderOptions options_;
  const int64_t steps_per_epoch_;
  const int64_t end_;  // tickets are epoch x steps_per_epoch + step

  absl::Mutex mutex_;
  absl::CondVar changed_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t to_make_ ABSL_GUARDED_BY(mutex_);
  int64_t to_take_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // ticket t lies in slot t % queue_batches

  std::vector<std::thread> workers_;  // last: they use everything above
};

}  // namespace lightcone
