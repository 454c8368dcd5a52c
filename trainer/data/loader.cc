#include "trainer/data/loader.h"

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "base/status.h"

namespace lightcone {
namespace {

int64_t StepsPerEpoch(int64_t images, const LoaderOptions& options) {
  const int64_t size = options.batch_size;
  return options.drop_last ? images / size : (images + size - 1) / size;
}

absl::Status CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(low, " .. ", high));
}

// Turns a random order into one of runs of `run` images of a class.
void GroupByClass(const std::vector<int32_t>& labels, int64_t run, Rng& rng, std::vector<int64_t>* order) {
  std::vector<int64_t> by_class = *order;  // a stable sort keeps the random order within a class
  std::stable_sort(by_class.begin(), by_class.end(), [&](int64_t a, int64_t b) { return labels[a] < labels[b]; });
  std::vector<int64_t> starts, rest;
  const int64_t n = static_cast<int64_t>(by_class.size());
  for (int64_t i = 0; i < n;) {
    int64_t end = i;
    while (end < n && labels[by_class[end]] == labels[by_class[i]]) ++end;
    for (; i + run <= end; i += run) starts.push_back(i);
    rest.insert(rest.end(), by_class.begin() + i, by_class.begin() + end);
    i = end;
  }
  rng.Shuffle(&starts);
  rng.Shuffle(&rest);
  order->clear();
  for (const int64_t start : starts) {
    order->insert(order->end(), by_class.begin() + start, by_class.begin() + start + run);
  }
  order->insert(order->end(), rest.begin(), rest.end());
}

}  // namespace

absl::Status LoaderOptions::Validate(int64_t images) const {
  if (images < 1) return InvalidField("training images", "0", "at least 1");
  LC_RETURN_IF_ERROR(CheckRange("batch_size", batch_size, 1, drop_last ? images : int64_t{1} << 20));
  LC_RETURN_IF_ERROR(CheckRange("epochs", epochs, 1, 1'000'000));
  LC_RETURN_IF_ERROR(CheckRange("workers", workers, 1, 64));
  LC_RETURN_IF_ERROR(CheckRange("same_class", same_class, 1, 1024));
  LC_RETURN_IF_ERROR(CheckRange("queue_batches", queue_batches, 1, 1024));
  LC_RETURN_IF_ERROR(CheckRange("start_epoch", start_epoch, 0, epochs));
  return CheckRange("start_step", start_step, 0, StepsPerEpoch(images, *this));
}

absl::StatusOr<std::unique_ptr<BatchLoader>> BatchLoader::Create(const ImageSet* set,
                                                                 const Normalisation& normalisation,
                                                                 const LoaderOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate(set->size()));
  if (normalisation.mean.size() != set->channels || normalisation.stddev.size() != set->channels) {
    return InvalidField("normalisation channels", StrCat(normalisation.mean.size()), StrCat(set->channels));
  }
  std::unique_ptr<BatchLoader> loader(new BatchLoader(set, normalisation, options));
  for (int i = 0; i < options.workers; ++i) loader->workers_.emplace_back([raw = loader.get()] { raw->Work(); });
  return loader;
}

BatchLoader::BatchLoader(const ImageSet* set, const Normalisation& normalisation, const LoaderOptions& options)
    : set_(set),
      normalisation_(normalisation),
      options_(options),
      steps_per_epoch_(StepsPerEpoch(set->size(), options)),
      end_(options.epochs * steps_per_epoch_),
      to_make_(options.start_epoch * steps_per_epoch_ + options.start_step),
      to_take_(to_make_),
      slots_(static_cast<size_t>(options.queue_batches)) {}

BatchLoader::~BatchLoader() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  for (std::thread& worker : workers_) worker.join();
}

bool BatchLoader::Next(Batch* batch) {
  absl::MutexLock lock(&mutex_);
  if (to_take_ >= end_) return false;
  Slot& slot = slots_[static_cast<size_t>(to_take_ % options_.queue_batches)];
  while (!slot.ready && failed_.ok()) changed_.Wait(&mutex_);
  if (!slot.ready) return false;
  std::swap(*batch, slot.batch);
  slot.ready = false;
  ++to_take_;
  changed_.SignalAll();
  return true;
}

absl::Status BatchLoader::status() {
  absl::MutexLock lock(&mutex_);
  return failed_;
}

void BatchLoader::Work() {
  int64_t order_epoch = -1;
  std::vector<int64_t> order;
  while (true) {
    int64_t ticket = 0;
    Batch batch;
    {
      absl::MutexLock lock(&mutex_);
      while (!stop_ && to_make_ < end_ && to_make_ >= to_take_ + options_.queue_batches) changed_.Wait(&mutex_);
      if (stop_ || to_make_ >= end_) return;
      ticket = to_make_++;
      std::swap(batch, slots_[static_cast<size_t>(ticket % options_.queue_batches)].batch);
    }
    if (ticket / steps_per_epoch_ != order_epoch) {
      order_epoch = ticket / steps_per_epoch_;
      order = OrderOf(order_epoch);
    }
    const absl::Status filled = Fill(ticket, order, &batch);
    absl::MutexLock lock(&mutex_);
    if (!filled.ok()) {
      if (failed_.ok()) failed_ = filled;
      stop_ = true;
      changed_.SignalAll();
      return;
    }
    Slot& slot = slots_[static_cast<size_t>(ticket % options_.queue_batches)];
    std::swap(slot.batch, batch);
    slot.ready = true;
    changed_.SignalAll();
  }
}

std::vector<int64_t> BatchLoader::OrderOf(int64_t epoch) const {
  std::vector<int64_t> order(static_cast<size_t>(set_->size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (options_.shuffle) {
    Rng rng(MixSeed({options_.seed, 0x04de4, static_cast<uint64_t>(epoch)}));
    rng.Shuffle(&order);
    if (options_.same_class > 1) GroupByClass(set_->labels, options_.same_class, rng, &order);
  }
  return order;
}

absl::Status BatchLoader::Fill(int64_t ticket, const std::vector<int64_t>& order, Batch* batch) const {
  batch->epoch = ticket / steps_per_epoch_;
  batch->step = ticket % steps_per_epoch_;
  const int64_t begin = batch->step * options_.batch_size;
  const int64_t end = std::min(set_->size(), begin + options_.batch_size);
  const int64_t floats = set_->bytes_per_image();
  batch->images.resize(options_.draw_only ? 0 : static_cast<size_t>((end - begin) * floats));
  batch->labels.clear();
  batch->changes.clear();
  batch->indices.assign(order.begin() + begin, order.begin() + end);
  std::vector<uint8_t> decoded(set_->in_memory() ? 0 : static_cast<size_t>(floats));
  for (int64_t i = 0; i < end - begin; ++i) {
    const int64_t row = batch->indices[i];
    batch->labels.push_back(set_->labels[row]);
    const uint64_t seed =
        MixSeed({options_.seed, 0xa06, static_cast<uint64_t>(batch->epoch), static_cast<uint64_t>(row)});
    if (options_.draw_only) {
      batch->changes.push_back(DrawChange(options_.augment, set_->height, set_->width, seed));
      continue;
    }
    if (!set_->in_memory()) LC_RETURN_IF_ERROR(set_->Read(row, decoded.data()));
    const uint8_t* pixels = set_->in_memory() ? set_->image(row) : decoded.data();
    AugmentImage(options_.augment, pixels, set_->height, set_->width, set_->channels, seed, normalisation_,
                 batch->images.data() + i * floats);
  }
  return absl::OkStatus();
}

}  // namespace lightcone
