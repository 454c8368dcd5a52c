// What a snapshot costs: how long it takes, how long a write waits beside it, what a second one adds where a part of
// the items has changed, and how long a restored server takes to its first answer.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/engine_gallery.h"
#include "snapshot/copy.h"
#include "snapshot/restore.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBatch = 100;
constexpr int kSnapshots = 5;
constexpr int kChangedBatches = 500;
constexpr double kMiB = 1 << 20;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Writes batches of new items beside the gallery until it is told to stop.
class Writer {
 public:
  explicit Writer(EngineGallery& gallery)
      : thread_([this, &gallery] {
          for (int64_t next = gallery.items(); !stopping_ && error_.ok(); next += kBatch) {
            const Clock::time_point begin = Clock::now();
            error_ = gallery.Upsert(next, kBatch, Durability::kDurable);
            const double took = SecondsSince(begin);
            if (took > longest_) longest_ = took;
            ++writes_;
          }
        }) {}
  ~Writer() { (void)Stop(); }

  // The longest write since the last call of this.
  double TakeLongest() { return longest_.exchange(0); }
  int64_t writes() const { return writes_; }
  absl::Status Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return error_;
  }

 private:
  std::atomic<bool> stopping_{false};
  std::atomic<double> longest_{0};
  std::atomic<int64_t> writes_{0};
  absl::Status error_;
  std::thread thread_;
};

absl::StatusOr<std::string> Make(EngineGallery& gallery, const std::string& name) {
  LC_ASSIGN_OR_RETURN(const server::SnapshotStatus made, gallery.engine().snapshots().Create({name}, {}));
  return made.folder;
}

absl::Status MeasureBesideWrites(EngineGallery& gallery, Report& report) {
  std::vector<double> seconds, waits, plain;
  Writer writer(gallery);
  for (int i = 0; i < kSnapshots; ++i) {
    const Clock::time_point quiet = Clock::now();
    for (const int64_t before = writer.writes(); writer.writes() < before + 20 && SecondsSince(quiet) < 30;) {
      std::this_thread::yield();
    }
    plain.push_back(writer.TakeLongest() * 1'000);
    const Clock::time_point begin = Clock::now();
    LC_RETURN_IF_ERROR(Make(gallery, StrCat("beside-", i)).status());
    seconds.push_back(SecondsSince(begin));
    // The write that the snapshot's end has met is done too.
    for (const int64_t before = writer.writes(); writer.writes() < before + 2;) std::this_thread::yield();
    waits.push_back(writer.TakeLongest() * 1'000);
    LC_RETURN_IF_ERROR(gallery.engine().snapshots().Delete(StrCat("beside-", i)));
  }
  LC_RETURN_IF_ERROR(writer.Stop());
  const std::string what = StrCat("a snapshot of ", gallery.items(), " items beside a writer: ");
  report.AddAtMost(what + "time", Median(seconds), "s", 1, Spread(seconds));
  report.Add({.name = what + "its longest durable write of 100",
              .value = Median(waits),
              .unit = "ms",
              .peer = "the longest of twenty such writes without a snapshot",
              .peer_value = Median(plain),
              .ratio = Median(waits) / Median(plain),
              .goal = "value <= 100 ms",
              .met = Median(waits) <= 100,
              .spread = Spread(waits)});
  return absl::OkStatus();
}

// The bytes that the copy of a second snapshot adds, beside those that the changed items are stored in.
absl::Status MeasureIncrement(EngineGallery& gallery, const std::string& folder, int dimension, Report& report) {
  LC_ASSIGN_OR_RETURN(const std::string first, Make(gallery, "first"));
  LC_RETURN_IF_ERROR(CopySnapshot(first, folder).status());
  const int64_t changed = std::min<int64_t>(kChangedBatches * kBatch, gallery.items() / 20);
  const int64_t step = gallery.items() / (changed / kBatch);
  for (int64_t begin = 0; begin + kBatch <= gallery.items(); begin += step) {
    LC_RETURN_IF_ERROR(gallery.Upsert(begin, kBatch, Durability::kProcess));
  }
  LC_ASSIGN_OR_RETURN(const std::string second, Make(gallery, "second"));
  LC_ASSIGN_OR_RETURN(const SnapshotCopy copy, CopySnapshot(second, folder));
  const double written = static_cast<double>(changed) * (dimension * sizeof(float));
  report.Add({.name = StrCat("bytes of a second copy after ", changed, " of ", gallery.items(), " items have changed"),
              .value = static_cast<double>(copy.copied_bytes) / kMiB,
              .unit = "MiB",
              .peer = "vectors of the changed items",
              .peer_value = written / kMiB,
              .ratio = static_cast<double>(copy.copied_bytes) / written,
              .goal = "ratio <= 1.2",
              .met = static_cast<double>(copy.copied_bytes) <= 1.2 * written});
  return absl::OkStatus();
}

absl::Status MeasureRestore(const BenchOptions& options, const std::string& snapshot, int64_t items, Report& report) {
  EngineGallery restored(options.folder + "/restored", options.dimension, items);
  const Clock::time_point begin = Clock::now();
  LC_RETURN_IF_ERROR(RestoreSnapshot(snapshot, restored.folder()).status());
  LC_RETURN_IF_ERROR(restored.Reopen());
  LC_RETURN_IF_ERROR(restored.Search(0).status());
  report.AddAtMost(StrCat("restore of ", items, " items and the first answer"), SecondsSince(begin), "s", 60);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchSnapshots(const BenchOptions& options, Report& report) {
  EngineGallery gallery(options.folder + "/snapshots", options.dimension, options.life_items);
  LC_RETURN_IF_ERROR(gallery.Fill());
  LC_RETURN_IF_ERROR(MeasureBesideWrites(gallery, report));
  LC_RETURN_IF_ERROR(MeasureIncrement(gallery, options.folder + "/copies", options.dimension, report));
  gallery.Close();
  return MeasureRestore(options, options.folder + "/copies/second", options.life_items, report);
}

}  // namespace lightcone::bench
