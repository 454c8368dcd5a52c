#include "server/engine/jobs/jobs.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/exceptions.h"
#include "base/priority.h"
#include "base/status.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"
#include "store/walk.h"

namespace lightcone::server {
namespace {

constexpr int kJobNice = 10;           // jobs give way to searches
constexpr size_t kUnendedMax = 1'000;  // jobs that wait or run
constexpr size_t kEndedMax = 1'000;    // ended jobs that are remembered
constexpr uint32_t kAttemptsMax = 20;  // a job that takes the server down each time must not do so for ever
constexpr uint32_t kPageDefault = 100, kPageMax = 1'000;

bool Ended(JobState state) { return state != JobState::kQueued && state != JobState::kRunning; }

bool ParseId(std::string_view text, uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out > 0;
}

}  // namespace

void Jobs::Define(const std::string& kind, JobRunner runner, bool cancellable,
                  std::function<void(uint64_t number)> ended) {
  auto made = std::make_unique<Kind>();
  made->runner = std::move(runner);
  made->cancellable = cancellable;
  made->ended = std::move(ended);
  kinds_[kind] = std::move(made);
}

absl::Status Jobs::Load(const std::function<bool(uint32_t collection)>& served) {
  absl::MutexLock lock(&mu_);
  const auto rows = store_->Scan(Table::kJobs, "", "");
  const auto add = [this](std::string_view, std::string_view value) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    LC_ASSIGN_OR_RETURN(JobRecord record, DecodeJob(value));
    next_ = std::max(next_, record.number + 1);
    // The server that ran it is gone: it waits for its turn, or for a start that serves its collection.
    if (record.state == JobState::kRunning) {
      record.state = JobState::kQueued;
      record.started_us = 0;
    }
    Add(std::move(record));
    return absl::OkStatus();
  };
  // A damaged record is its own job's trouble. Its number is not given again.
  const auto pass_over = [this](std::string_view key, const absl::Status& why) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    LC_ASSIGN_OR_RETURN(const uint64_t number, keys::ParseJob(key));
    next_ = std::max(next_, number + 1);
    damaged_[number] = Annotate(why, StrCat("the record of job ", number));
    spdlog::error("{}; the job is neither shown nor run until it is cancelled", MessageOf(damaged_[number]));
    return absl::OkStatus();
  };
  LC_RETURN_IF_ERROR(WalkPastDamage(*rows, add, pass_over));
  for (const auto& [number, entry] : entries_) {
    if (!Ended(entry->record.state) && served(entry->record.collection_number)) Enqueue(number);
  }
  return absl::OkStatus();
}

const Jobs::Entry& Jobs::Add(JobRecord record) {
  auto entry = std::make_shared<Entry>();
  entry->cancel = record.cancel;
  entry->record = std::move(record);
  return *(entries_[entry->record.number] = entry);
}

void Jobs::Halt() {
  BeginHalt();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mu_);
    for (auto& [name, kind] : kinds_) {
      kind->queue.clear();
      if (kind->thread.joinable()) threads.push_back(std::move(kind->thread));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

absl::Status Jobs::Keep(const JobRecord& record) const {
  WriteBatch batch;
  batch.Put(Table::kJobs, keys::Job(record.number), Encode(record));
  return store_->Write(batch, Durability::kDurable);
}

void Jobs::Forget(WriteBatch* batch) {
  std::vector<uint64_t> ended;
  for (const auto& [number, entry] : entries_) {
    if (Ended(entry->record.state)) ended.push_back(number);
  }
  for (size_t i = 0; i + kEndedMax < ended.size() + 1; ++i) {
    batch->Delete(Table::kJobs, keys::Job(ended[i]));
    entries_.erase(ended[i]);
  }
}

absl::StatusOr<JobRecord> Jobs::Prepare(JobRecord job, WriteBatch* batch) {
  absl::MutexLock lock(&mu_);
  const auto waits = [](const auto& entry) { return !Ended(entry.second->record.state); };
  if (static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), waits)) >= kUnendedMax) {
    return ResourceExhausted(StrCat(kUnendedMax, " jobs wait or run already; cancel some, or wait for them"));
  }
  job.number = next_++;  // used up even if the write fails
  job.created_us = NowMicros();
  batch->Put(Table::kJobs, keys::Job(job.number), Encode(job));
  Forget(batch);
  return job;
}

void Jobs::Begin(const JobRecord& job) {
  absl::MutexLock lock(&mu_);
  Add(job);
  Enqueue(job.number);
}

void Jobs::Enqueue(uint64_t number) {
  const auto found = kinds_.find(entries_[number]->record.kind);
  if (found == kinds_.end() || stop_) return;  // A newer server's kind of job stays as it is.
  Kind* const kind = found->second.get();
  kind->queue.push_back(number);
  if (kind->running) return;
  if (kind->thread.joinable()) kind->thread.join();  // The thread is at its end: `running` is false.
  try {
    kind->thread = std::thread([this, kind] { Work(kind); });
    kind->running = true;
  } catch (const std::exception& error) {
    spdlog::error("job {} waits: no thread can be started for it: {}", number, error.what());
  }
}

void Jobs::Work(Kind* kind) {
  StandBack(kJobNice);
  while (true) {
    std::shared_ptr<Entry> entry;
    {
      absl::MutexLock lock(&mu_);
      if (kind->queue.empty() || stop_) {
        kind->running = false;
        return;
      }
      const auto found = entries_.find(kind->queue.front());
      kind->queue.pop_front();
      if (found == entries_.end()) continue;  // cancelled while it waited, and forgotten since
      entry = found->second;
    }
    RunOne(kind, entry);
  }
}

void Jobs::RunOne(Kind* kind, const std::shared_ptr<Entry>& entry) {
  JobRecord record;
  absl::Status begun;
  {
    absl::MutexLock lock(&mu_);
    if (Ended(entry->record.state)) return;  // cancelled while it waited
    entry->record.state = JobState::kRunning;
    entry->record.started_us = NowMicros();
    ++entry->record.attempts;
    ++entry->changes;
    record = entry->record;
    begun = Keep(record);
  }
  absl::StatusOr<std::string> result = std::string();
  if (!begun.ok()) {
    result = begun;
  } else if (kind->cancellable && record.attempts > kAttemptsMax) {  // others have to be finished, however often
    result = Internal(StrCat("begun ", kAttemptsMax, " times, and the server ended each time before it did"));
  } else {
    const JobRun run{record, [this, entry] { return stop_.load() || entry->cancel.load(); },
                     [this, entry] { return stop_.load() && !entry->cancel.load(); },
                     [this, entry](uint64_t done, uint64_t total, std::string_view step) {
                       absl::MutexLock lock(&mu_);
                       entry->done = done;
                       entry->total = total;
                       entry->step = std::string(step);
                       ++entry->changes;
                     },
                     [this, entry](std::string json) {
                       absl::MutexLock lock(&mu_);
                       entry->detail = std::move(json);
                       ++entry->changes;
                     }};
    try {
      result = kind->runner(run);
    } catch (...) {
      result = StatusOfException();
    }
  }
  if (End(entry, std::move(record), std::move(result)) && kind->ended) kind->ended(entry->record.number);
}

bool Jobs::End(const std::shared_ptr<Entry>& entry, JobRecord record, absl::StatusOr<std::string> result) {
  absl::MutexLock lock(&mu_);  // The lock lasts to the end: Cancel sees what is stored.
  record.cancel = entry->record.cancel;
  record.ended_us = NowMicros();
  if (absl::IsCancelled(result.status()) && stop_ && !record.cancel) {
    // The next start begins it again. An end in good order is no failed attempt.
    --record.attempts;
    record.state = JobState::kQueued;
    record.started_us = record.ended_us = 0;
  } else if (absl::IsCancelled(result.status())) {
    record.state = JobState::kCancelled;
  } else if (!result.ok()) {
    record.state = JobState::kFailed;
    record.error_code = static_cast<int>(result.status().code());
    record.error = MessageOf(result.status());
    spdlog::warn("job {} ({} of collection '{}', generation {}) failed: {}", record.number, record.kind,
                 record.collection, record.generation, record.error);
  } else {
    record.state = JobState::kSucceeded;
    record.result_json = *std::move(result);
  }
  const absl::Status stored = Keep(record);
  if (!stored.ok()) {
    spdlog::error("job {} has ended, but that could not be stored; the next start begins it again: {}", record.number,
                  MessageOf(stored));
  }
  const bool ended = stored.ok() && Ended(record.state);
  entry->record = std::move(record);
  entry->detail.clear();
  ++entry->changes;
  return ended;
}

JobStatus Jobs::StatusOf(const Entry& entry) {
  const JobRecord& r = entry.record;
  JobStatus status;
  status.id = StrCat(r.number);
  status.kind = r.kind;
  status.collection = r.collection;
  status.generation = r.generation;
  status.state = r.state;
  status.done = entry.done;
  status.total = entry.total;
  status.step = entry.step;
  status.progress_json = entry.detail;
  status.created = absl::FromUnixMicros(r.created_us);
  if (r.started_us != 0) status.started = absl::FromUnixMicros(r.started_us);
  if (r.ended_us != 0) status.ended = absl::FromUnixMicros(r.ended_us);
  status.attempts = r.attempts;
  status.result_json = r.result_json;
  if (r.error_code != 0) status.error = MakeStatus(static_cast<absl::StatusCode>(r.error_code), r.error);
  status.changes = entry.changes;
  return status;
}

absl::StatusOr<std::shared_ptr<Jobs::Entry>> Jobs::EntryOf(const std::string& id) const {
  uint64_t number = 0;
  const bool parsed = ParseId(id, &number);
  const auto found = parsed ? entries_.find(number) : entries_.end();
  if (found != entries_.end()) return found->second;
  if (const auto damaged = damaged_.find(number); parsed && damaged != damaged_.end()) return damaged->second;
  return NotFound(StrCat("no job '", id, "'",
                         entries_.empty() ? "; there are none" : StrCat("; the newest is ", entries_.rbegin()->first)));
}

absl::StatusOr<JobStatus> Jobs::Get(const std::string& id) const {
  absl::MutexLock lock(&mu_);
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, EntryOf(id));
  return StatusOf(*entry);
}

absl::StatusOr<JobPage> Jobs::List(uint32_t collection, std::string_view kind, uint32_t page_size,
                                   const std::string& token) const {
  if (page_size > kPageMax) {
    return InvalidField("page_size", StrCat(page_size), StrCat("0 .. ", kPageMax, "; 0: ", kPageDefault));
  }
  if (page_size == 0) page_size = kPageDefault;
  uint64_t before = UINT64_MAX;
  if (!token.empty() && !ParseId(token, &before)) {
    return InvalidField("token", StrCat("'", token, "'"), "the token of an earlier page");
  }
  absl::MutexLock lock(&mu_);
  JobPage page;
  for (auto at = std::make_reverse_iterator(entries_.lower_bound(before)); at != entries_.rend(); ++at) {
    if (collection != 0 && at->second->record.collection_number != collection) continue;
    if (!kind.empty() && at->second->record.kind != kind) continue;
    if (page.jobs.size() == page_size) {
      page.token = page.jobs.back().id;
      break;
    }
    page.jobs.push_back(StatusOf(*at->second));
  }
  return page;
}

absl::StatusOr<JobStatus> Jobs::Cancel(const std::string& id) {
  bool ended = false;
  LC_ASSIGN_OR_RETURN(const JobStatus status, CancelNow(id, &ended));
  uint64_t number = 0;
  if (!ended || !ParseId(id, &number)) return status;
  const auto kind = kinds_.find(status.kind);
  for (const auto& [name, one] : kinds_) {  // A damaged record does not tell its kind.
    if (one->ended && (kind == kinds_.end() || name == status.kind)) one->ended(number);
  }
  return status;
}

absl::StatusOr<JobStatus> Jobs::CancelNow(const std::string& id, bool* ended) {
  absl::MutexLock lock(&mu_);
  uint64_t number = 0;
  if (ParseId(id, &number) && damaged_.contains(number)) {
    *ended = true;
    return Replace(number);
  }
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, EntryOf(id));
  JobRecord record = entry->record;
  if (record.cancel) return StatusOf(*entry);
  if (Ended(record.state)) return FailedPrecondition(StrCat("job ", id, " has ended already"));
  const auto kind = kinds_.find(record.kind);
  if (kind != kinds_.end() && !kind->second->cancellable) {
    return FailedPrecondition(StrCat("job ", id, " is a ", record.kind, ": it has to be finished"));
  }
  record.cancel = true;
  if (record.state == JobState::kQueued) {
    record.state = JobState::kCancelled;
    record.ended_us = NowMicros();
  }
  LC_RETURN_IF_ERROR(Keep(record));
  *ended = Ended(record.state);
  entry->record = std::move(record);
  entry->cancel = true;
  ++entry->changes;
  return StatusOf(*entry);
}

absl::StatusOr<JobStatus> Jobs::Replace(uint64_t number) {
  JobRecord record;
  record.number = number;
  record.kind = "unknown";
  record.state = JobState::kCancelled;
  record.cancel = true;
  record.ended_us = NowMicros();
  record.error_code = static_cast<int>(damaged_.at(number).code());
  record.error = MessageOf(damaged_.at(number));
  LC_RETURN_IF_ERROR(Keep(record));
  damaged_.erase(number);
  return StatusOf(Add(std::move(record)));
}

bool Jobs::Unended(uint64_t number) const {
  const auto stored = store_->Get(Table::kJobs, keys::Job(number));
  if (!stored.ok()) return !absl::IsNotFound(stored.status());  // unread: it may be
  const auto record = DecodeJob(*stored);
  return !record.ok() || !Ended(record->state);
}

std::string Jobs::Find(std::string_view kind, uint32_t collection, uint32_t generation) const {
  absl::MutexLock lock(&mu_);
  for (const auto& [number, entry] : entries_) {
    const JobRecord& r = entry->record;
    if (r.kind == kind && r.collection_number == collection && r.generation == generation && !Ended(r.state)) {
      return StrCat(number);
    }
  }
  return "";
}

}  // namespace lightcone::server
