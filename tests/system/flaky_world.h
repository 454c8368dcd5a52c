// What flaky workers, writers and the test of a backfill share: contents, counts, and who has got how far.
// Threads: Versions by one writer an item; all else from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "client/client.h"
#include "tests/system/oracle.h"

namespace lightcone {

inline constexpr char kGallery[] = "gallery";
inline constexpr int kWorkers = 64, kWriters = 4;
inline constexpr uint32_t kOld = 1, kNew = 2;  // generations
inline constexpr absl::Duration kPoll = absl::Milliseconds(5);

// What becomes of one lease.
enum class Fate {
  kGood,            // embedded, upserted, given back
  kCrash,           // never heard of again
  kHang,            // the worker stands still beyond the expiry, then upserts
  kLate,            // the worker goes on with others, and upserts this one after its expiry
  kDuplicate,       // upserted twice by one connection and once by another
  kWrongDimension,  // one vector of another dimension
  kNan,             // one vector with a NaN
  kUnknownItem,     // an item that is not there
  kOthersToken,     // one item with the sequence of another, and a vector that is no embedding of it
  kStaleToken,      // one item with an older sequence, and such a vector
  kNotLeased,       // with an item of somebody else's, an invented sequence, and such a vector
  kNoToken,         // with an item that is through, without a sequence, and such a vector
};
inline constexpr std::array kFates = {"good",          "crash",           "hang",       "late",
                                      "duplicate",     "wrong dimension", "NaN",        "unknown item",
                                      "other's token", "stale token",     "not leased", "without a token"};
inline constexpr size_t kFateCount = kFates.size();

inline std::vector<float> EmbeddingOf(uint64_t item, Version version, uint32_t generation) {
  return VectorOf(item, 4 * version + generation);
}
// A vector that is no embedding of the item: if one gets in, the last look at the gallery finds it.
inline std::vector<float> PoisonOf(uint64_t item) { return VectorOf(item, Version{1} << 50); }

// Contents that no worker can decode, and those that writers replace. No item is both.
inline bool Decodes(uint64_t item) { return item % 500 != 7; }
inline bool IsReplaced(uint64_t item) { return item % 10 == 0; }

inline std::unique_ptr<client::Client> ClientOf(const std::string& address) {
  client::ClientOptions options;
  options.address = address;
  options.retries_max = 0;  // what a worker sends twice, the test sends twice
  std::unique_ptr<client::Client> client = client::Client::Connect(options).value();
  // Where 64 of them connect at once, a first attempt may fail.
  EXPECT_TRUE(client->WaitUntilServing(absl::Seconds(30)).ok());
  return client;
}

class FlakyWorld {
 public:
  FlakyWorld(std::string address, uint64_t items)
      : address_(std::move(address)), items_(items), versions_(items, 1), client_(ClientOf(address_)) {
    for (uint64_t item = 0; item < items; ++item) undecodable_ += !Decodes(item);
  }

  const std::string& address() const { return address_; }
  uint64_t items() const { return items_; }
  uint64_t undecodable() const { return undecodable_; }
  std::vector<Version>& versions() { return versions_; }
  client::Client& client() { return *client_; }

  v1::StatusResponse Status() {
    v1::StatusRequest request;
    request.set_collection(kGallery);
    const auto status = client_->BackfillStatus(request);
    return status.ok() ? *status : v1::StatusResponse();
  }

  // Every worker has a lease, and so every fate is met, before any goes on.
  void AwaitFirstLeases() {
    absl::MutexLock lock(&mu_);
    ++first_leases_;
    const auto all = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return first_leases_ == kWorkers; };
    mu_.Await(absl::Condition(&all));
  }
  void NoteWritten(uint64_t items) {
    absl::MutexLock lock(&mu_);
    written_ += items;
  }
  void AwaitWritten(uint64_t items) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, items]()
                            ABSL_NO_THREAD_SAFETY_ANALYSIS { return written_ >= items || workers_ended_ == kWorkers; };
    mu_.Await(absl::Condition(&enough));
  }
  // A worker has been leased nothing but what cannot be decoded: what was ordered is through.
  void NoteThrough() {
    absl::MutexLock lock(&mu_);
    through_ = true;
  }
  void AwaitThrough() {
    absl::MutexLock lock(&mu_);
    const auto through = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return through_ || workers_ended_ == kWorkers; };
    mu_.Await(absl::Condition(&through));
  }
  void NoteExpiry(absl::Time expires) {
    absl::MutexLock lock(&mu_);
    last_expiry_ = std::max(last_expiry_, expires);
  }
  absl::Time last_expiry() {
    absl::MutexLock lock(&mu_);
    return last_expiry_;
  }

  // Whether the writers have ended and only what cannot be decoded is left. A backfill that leaves more behind never
  // ends.
  bool Finished() {
    if (finished_) return true;
    if (writers_ended_ < kWriters) return false;
    const v1::StatusResponse status = Status();
    if (status.items_total() == items_ && status.items_done() + undecodable_ == items_) finished_ = true;
    return finished_;
  }
  void NoteWriterEnded() { ++writers_ended_; }
  void NoteWorkerEnded() {
    absl::MutexLock lock(&mu_);
    ++workers_ended_;
  }

  std::atomic<int64_t> leases{0}, leased_items{0}, found_items{0}, empty_leases{0}, only_undecodable{0}, expired{0},
      given_back{0};
  std::atomic<int64_t> outdated{0}, outdated_late{0}, accepted_late{0}, overloads{0}, replaced{0};
  std::array<std::atomic<int64_t>, kFateCount> fates{}, refused{};

 private:
  const std::string address_;
  const uint64_t items_;
  uint64_t undecodable_ = 0;
  std::vector<Version> versions_;  // of the contents, as acknowledged
  const std::unique_ptr<client::Client> client_;
  std::atomic<int> writers_ended_{0};
  std::atomic<bool> finished_{false};
  absl::Mutex mu_;
  int first_leases_ ABSL_GUARDED_BY(mu_) = 0, workers_ended_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t written_ ABSL_GUARDED_BY(mu_) = 0;
  bool through_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time last_expiry_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace lightcone
