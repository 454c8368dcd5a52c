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
  int64_t epoch = 0, step = 0;  // epoch, and step within the epoch
  std::vector<float> images;
  std::vector<int32_t> labels;
  std::vector<int64_t> indices;
  std::vector<ImageChange> changes;  // drawn changes in place of images (LoaderOptions::draw_only)

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

struct LoaderOptions {
  int64_t batch_size = 128;
  int64_t epochs = 1;  // number of epochs
  uint64_t seed = 0;   // seed of order and augmentation
  AugmentKind augment = AugmentKind::kNone;
  bool shuffle = true;      // whether each epoch has an order of its own
  int64_t same_class = 1;   // length of the shuffled runs of images of one class; the rest ends the epoch
  bool draw_only = false;   // whether batches hold changes in place of images, for images that lie elsewhere
  bool drop_last = true;    // whether to leave out images that do not fill a batch
  int64_t start_epoch = 0;  // epoch of the first batch of a resumed training
  int64_t start_step = 0;
  int workers = 1;        // number of threads, without effect on the content
  int queue_batches = 4;  // number of batches prepared ahead; cost: memory

  // INVALID_ARGUMENT names the field, for a set of `images` images.
  absl::Status Validate(int64_t images) const;
};

// Order and content of batch (epoch, step) are a function of the seed and the image set. A training that resumes there
// sees the same batches. Threads: Next() from one thread at a time. The destructor stops each worker after its batch.
class BatchLoader {
 public:
  // `set` must outlive the loader. INVALID_ARGUMENT for options that do not fit.
  static absl::StatusOr<std::unique_ptr<BatchLoader>> Create(const ImageSet* set, const Normalisation& normalisation,
                                                             const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Waits for the next batch and swaps it into *batch, whose old buffers are reused. False after the last epoch, and
  // for an unreadable image, which status() reports.
  bool Next(Batch* batch);

  // OK, or the error of the first unreadable image. Sets in memory never fail.
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
  const int64_t end_;  // first ticket after the last batch

  absl::Mutex mutex_;
  absl::CondVar changed_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t to_make_ ABSL_GUARDED_BY(mutex_);
  int64_t to_take_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // batch of ticket t in slot t % queue_batches

  std::vector<std::thread> workers_;  // threads that use all members above
};

}  // namespace lightcone
