// Work in the background that outlives calls and the process: each job is a record in table kJobs, run by the thread of
// its kind, one after another. A job that a crash or the end of the server interrupted is begun again by the next
// start; runners therefore have to be able to begin again. Threads: every method is safe from any thread; Define and
// Load come before everything else.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/rollout_types.h"
#include "store/store.h"

namespace lightcone::server {

// Table kJobs, by number.
struct JobRecord {
  uint64_t number = 0;  // the id, in decimal
  std::string kind;
  std::string collection;          // name of the collection at the call
  uint32_t collection_number = 0;  // 0: of no collection
  uint32_t generation = 0;
  std::string arguments_json = "{}";  // further arguments of the runner
  JobState state = JobState::kQueued;
  bool cancel = false;  // asked for
  int64_t created_us = 0, started_us = 0, ended_us = 0;
  uint32_t attempts = 0;
  std::string result_json;
  int error_code = 0;
  std::string error;
};

std::string Encode(const JobRecord& record);
absl::StatusOr<JobRecord> DecodeJob(std::string_view bytes);

// What a runner gets; only valid while it runs.
struct JobRun {
  const JobRecord& job;
  std::function<bool()> cancelled;  // The operator cancels, or the server ends: return CANCELLED soon.
  std::function<bool()> halting;    // The server ends: the next start begins the job again.
  std::function<void(uint64_t done, uint64_t total, std::string_view step)> report;
  std::function<void(std::string json)> detail;  // JobStatus::progress_json
};
// Answers the result as a JSON object.
using JobRunner = std::function<absl::StatusOr<std::string>(const JobRun& run)>;

class Jobs {
 public:
  explicit Jobs(Store* store) : store_(store) {}  // must outlive it
  ~Jobs() { Halt(); }

  // `cancellable`: an operator may cancel jobs of this kind. `ended`: called with the number of one once its end is in
  // the store; not for those that a crash comes before.
  void Define(const std::string& kind, JobRunner runner, bool cancellable,
              std::function<void(uint64_t number)> ended = {});
  // Reads the table and begins again what had not ended; jobs of a collection that is not served (its index needs more
  // memory than is allowed, or its records are damaged) wait for a start that serves it. A job whose own record is
  // damaged is passed over: Get answers DATA_LOSS, Cancel puts a cancelled one in its place.
  absl::Status Load(const std::function<bool(uint32_t collection)>& served);
  // Tells what runs to end, and waits for nothing.
  void BeginHalt() { stop_ = true; }
  // Ends the threads; what runs goes on with the next start.
  void Halt();

  // Puts a new job into a batch: Begin it when the batch is in the store. RESOURCE_EXHAUSTED when too many wait.
  absl::StatusOr<JobRecord> Prepare(JobRecord job, WriteBatch* batch);
  void Begin(const JobRecord& job);

  // NOT_FOUND for an id that there is no job of; DATA_LOSS for one whose record cannot be read.
  absl::StatusOr<JobStatus> Get(const std::string& id) const;
  // `collection` 0: of all; an empty `kind`: of every one.
  absl::StatusOr<JobPage> List(uint32_t collection, std::string_view kind, uint32_t page_size,
                               const std::string& token) const;
  // FAILED_PRECONDITION when it has ended, or must not be cancelled. A running one ends a little later.
  absl::StatusOr<JobStatus> Cancel(const std::string& id);
  // The unended job of this kind for a generation; empty: none.
  std::string Find(std::string_view kind, uint32_t collection, uint32_t generation) const;
  // Whether it waits or runs, by the store. Also before Load.
  bool Unended(uint64_t number) const;

 private:
  struct Entry {
    JobRecord record;
    uint64_t done = 0, total = 0, changes = 0;
    std::string step, detail;
    std::atomic<bool> cancel{false};
  };
  struct Kind {
    JobRunner runner;
    bool cancellable = true;
    std::function<void(uint64_t number)> ended;
    std::deque<uint64_t> queue;
    std::thread thread;
    bool running = false;  // the thread is there
  };

  static JobStatus StatusOf(const Entry& entry);
  absl::StatusOr<std::shared_ptr<Entry>> EntryOf(const std::string& id) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  const Entry& Add(JobRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Enqueue(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Work(Kind* kind);  // the thread
  void RunOne(Kind* kind, const std::shared_ptr<Entry>& entry);
  // Whether that it has ended is in the store.
  bool End(const std::shared_ptr<Entry>& entry, JobRecord record, absl::StatusOr<std::string> result);
  // The record of a job that is damaged, by one that says so: its number stays taken.
  absl::StatusOr<JobStatus> Replace(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<JobStatus> CancelNow(const std::string& id, bool* ended);
  absl::Status Keep(const JobRecord& record) const;  // stores the record
  // What has ended long ago goes.
  void Forget(WriteBatch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Store* const store_;
  std::atomic<bool> stop_{false};
  mutable absl::Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, absl::Status> damaged_
      ABSL_GUARDED_BY(mu_);                             // reasons why the records of these jobs cannot be read
  std::map<std::string, std::unique_ptr<Kind>> kinds_;  // set before Load; a Kind's parts are guarded by mu_
};

}  // namespace lightcone::server
