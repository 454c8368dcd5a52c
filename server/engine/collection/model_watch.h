// Notices vectors that do not come from the model of their generation, of a collection's upserts and searches.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"
#include "server/engine/collection/row_samples.h"
#include "stats/embedding_profile.h"
#include "stats/foreign_stream.h"

namespace lightcone::server {

// What a call learns about its vectors.
struct ForeignFinding {
  std::string warning;          // empty: none
  std::vector<size_t> refused;  // places of vectors that may be refused: so odd that right ones hardly are
  bool most_refused = false;    // Most of them are foreign, so that all may be refused.
  bool some_refused = false;    // One of twenty may be refused, or most.
};

// Learns what the rows of each generation have in common, and watches rows and queries, each as a stream.
// Threads: every method is safe from any thread; Learn from one at a time.
class ModelWatch {
 public:
  explicit ModelWatch(const Collection* collection) : collection_(collection) {}  // must outlive it

  // Whether any generation has been learnt. Costs an atomic read.
  bool watches() const { return watches_.load(std::memory_order_relaxed); }

  // Looks at up to 128 of the vectors, evenly spread, and at queries while there are fewer than 10,000 a second.
  // Nothing is found before the generation has been learnt. Logs when an alarm begins or ends. `by_time`: the rows come
  // when they were made, not in an order of somebody's.
  // REQUIRES: every vector has the dimension of the generation.
  ForeignFinding LookAtRows(uint32_t generation, std::span<const std::span<const float>> vectors, bool by_time);
  ForeignFinding LookAtQueries(uint32_t generation, std::span<const std::span<const float>> vectors);

  // Learns generations that have 1,024 rows, and those that have twice as many as when they were learnt; with 16,384 or
  // more not while an alarm is on. What the oldest generation's rows need to know of the past is taken from rows that
  // were written one after the other. Ends alarms of streams that have been silent for a quarter of an hour, and
  // forgets everything where the collection ignores foreign vectors. Cheap when nothing is due. Errors of the store,
  // after all generations were tried.
  absl::Status Learn(Collection& collection, RowSamples& samples, const std::function<bool()>& cancelled);

  std::vector<ModelWatchStatus> Status() const;

 private:
  using ProfilePtr = std::shared_ptr<const EmbeddingProfile>;
  using Alarms = std::array<bool, kForeignReasons>;
  struct Stream {
    ForeignStream of;
    std::array<bool, kForeignReasons> logged{};       // alarms as log, status and metrics have them
    int64_t foreign = 0;                              // vectors that the model hardly gives
    absl::Time noted_at = {};                         // time of the last vector that counted
    std::array<absl::Time, kForeignReasons> on_at{};  // time at which each alarm was last on
  };
  struct Watched {
    ProfilePtr profile;  // never nullptr
    int64_t rows = 0;    // rows of the generation when it was learnt
    Stream items, queries;
  };
  // Looks at queries that may begin now.
  class Budget {
   public:
    size_t Take(size_t wanted);

   private:
    double left_ = 0;
    std::chrono::steady_clock::time_point last_{};
  };
  enum class Of { kRowsByTime, kRowsInSomeOrder, kQueries };
  ForeignFinding LookAt(uint32_t generation, Of of, std::span<const std::span<const float>> vectors);
  absl::Status LearnOne(Collection& collection, const GenerationRecord& record, int64_t rows, bool is_oldest,
                        RowSamples& samples);
  void EndSilentAlarms();
  // Alarms that began since the last call, or ended and were off for a minute, so that they do not flap where right and
  // foreign vectors take turns.
  static std::vector<ForeignReason> TakeChanges(Stream& stream, absl::Time now);
  void Log(uint32_t generation, bool rows, const Alarms& alarms, std::span<const ForeignReason> changes) const;
  // "generation 2 (model 'e5', revision '2')", as its manifest names it.
  std::string NameOf(uint32_t generation) const;

  const Collection* const collection_;
  std::atomic<bool> watches_{false};
  mutable absl::Mutex mu_;
  std::map<uint32_t, Watched> generations_ ABSL_GUARDED_BY(mu_);
  Budget queries_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, int64_t> tried_;  // rows of generations at the last attempt to learn them; Learn only
};

}  // namespace lightcone::server
