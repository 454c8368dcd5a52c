#include "server/engine/write/writer.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "base/trace.h"
#include "server/engine/collection/checks.h"
#include "server/engine/write/write_group.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kGroupJobsMax = 256;
constexpr size_t kGroupItemsMax = 20'000;    // bounds the latency of one store batch
constexpr size_t kGroupBytesMax = 64 << 20;  // bounds the memory; a larger job has a group of its own
constexpr absl::Duration kWriterPoll = absl::Milliseconds(50);

// Of what the job puts into the store, about.
size_t BytesOfJob(const WriteJob& job) {
  size_t bytes = job.ids.size() * job.bytes_added;
  for (const PreparedItem& item : job.items) {
    bytes += item.key.size() + item.embedding.size() + item.payload_json.size() + (item.input ? item.input->size() : 0);
  }
  return bytes;
}

// Of the jobs that have come so far: a job that was refused has no part in what happens to its group.
void NoteTime(int64_t WriteTimes::*time, const std::vector<WriteJob*>& jobs) {
  const int64_t now = SteadyNanos();
  for (WriteJob* job : jobs) {
    if (job->status.ok()) job->times.*time = now;
  }
}

}  // namespace

CollectionWriter::CollectionWriter(Collection* collection, int64_t queue_max)
    : collection_(collection), queue_max_(queue_max), progress_(collection->progress()) {}

absl::StatusOr<WriteResult> CollectionWriter::Submit(WriteJob* job, const CallContext& context) {
  if (context.trace == nullptr) return Await(job, context);
  Span write(context.trace, "write");
  const int64_t began = SteadyNanos();
  absl::StatusOr<WriteResult> result = Await(job, context);
  const WriteTimes& times = job->times;
  if (times.taken != 0) write.Add("queue", began, times.taken);
  if (times.stored != 0) write.Add("store", times.taken, times.stored);
  if (times.applied != 0) write.Add("index", times.stored, times.applied);
  return result;
}

absl::StatusOr<WriteResult> CollectionWriter::Await(WriteJob* job, const CallContext& context) {
  job->bytes = BytesOfJob(*job);
  absl::MutexLock lock(&mu_);
  LC_RETURN_IF_ERROR(broken_);
  if (static_cast<int64_t>(queue_.size()) + in_flight_ >= queue_max_) {
    return ResourceExhausted(
        StrCat("collection '", collection_->name(), "': ", queue_max_,
               " batches are waiting for the writer; try again later or write with fewer writers"));
  }
  queue_.push_back(job);
  bool taken = false;  // whether the job was taken as the wait began
  const auto my_turn = [this, job]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !leading_ && !queue_.empty() && queue_.front() == job;
  };
  // A job that was given back looks at its deadline again.
  const auto wakes = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return job->done || my_turn() || (taken && !job->taken); };
  while (!job->done) {
    taken = job->taken;
    const absl::Time wake = taken ? absl::InfiniteFuture() : std::min(context.deadline, absl::Now() + kWriterPoll);
    mu_.AwaitWithDeadline(absl::Condition(&wakes), wake);
    if (job->done) break;
    if (!job->taken) {
      const absl::Status alive = CheckAlive(context, "write");
      if (!alive.ok()) {
        queue_.erase(std::find(queue_.begin(), queue_.end(), job));
        return alive;
      }
    }
    if (!my_turn()) continue;
    // The job stays in front meanwhile: only its own thread takes it away.
    const bool adds = !job->items.empty();
    const absl::StatusOr<bool> room =
        AwaitRoom(adds ? std::min(context.deadline, absl::Now() + kWriterPoll) : absl::InfinitePast());
    if (adds && !room.ok()) {
      queue_.pop_front();
      return room.status();
    }
    if (!adds || *room) Lead(room.ok() && *room);
  }
  if (!job->status.ok()) return job->status;
  return job->result;
}

absl::StatusOr<bool> CollectionWriter::AwaitRoom(absl::Time deadline) {
  mu_.Unlock();
  absl::StatusOr<bool> room = true;
  try {
    if (!collection_->dropped()) room = collection_->AwaitRoom(deadline);
  } catch (...) {
    room = StatusOfException();
  }
  mu_.Lock();
  return room;
}

std::vector<WriteJob*> CollectionWriter::TakeGroup(bool room) {
  std::vector<WriteJob*> jobs;
  jobs.reserve(std::min(queue_.size(), kGroupJobsMax));  // Nothing is taken yet if this throws.
  size_t items = 0, bytes = 0;
  while (!queue_.empty() && jobs.size() < kGroupJobsMax) {
    WriteJob* job = queue_.front();
    items += job->items.size() + job->ids.size();
    bytes += job->bytes;
    const bool full = items > kGroupItemsMax || bytes > kGroupBytesMax || (!room && !job->items.empty());
    if (!jobs.empty() && full) break;
    job->taken = true;
    jobs.push_back(job);
    queue_.pop_front();
  }
  in_flight_ += static_cast<int64_t>(jobs.size());
  return jobs;
}

void CollectionWriter::GiveBack(size_t kept, std::vector<WriteJob*>* jobs) {
  for (; jobs->size() > kept; jobs->pop_back()) {
    WriteJob* const job = jobs->back();
    try {
      queue_.push_front(job);
      job->taken = false;
      job->times = {};
      job->status = absl::OkStatus();  // a fault of its old group is not its own
    } catch (...) {                    // Nothing of the job is planned yet: it fails alone.
      job->status = StatusOfException();
      job->done = true;
    }
    --in_flight_;
  }
}

absl::Status CollectionWriter::Broken(const absl::Status& why) const {
  return Unavailable(
      StrCat("collection '", collection_->name(), "' takes no more writes until a restart: ", MessageOf(why)));
}

void CollectionWriter::SetBroken(const absl::Status& why) {
  if (broken_.ok())
    spdlog::error("{}", MessageOf(why));  // The log tells the operator once; every caller gets the status.
  broken_ = why;
}

absl::Status CollectionWriter::broken() const {
  absl::MutexLock lock(&mu_);
  return broken_;
}

GroupOutcome CollectionWriter::WriteToStore(const std::vector<WriteJob*>& jobs, absl::Status refused,
                                            std::optional<WriteGroup>* group) {
  GroupOutcome outcome;
  try {
    if (refused.ok() && collection_->dropped()) {
      refused = NotFound(StrCat("collection '", collection_->name(), "' has been dropped"));
    }
    if (refused.ok()) {
      group->emplace(collection_, jobs, &progress_);
      outcome = (*group)->WriteToStore();
    }
  } catch (...) {
    refused = StatusOfException();
    // Nobody knows what the store holds: the throw came before or after the write.
    if (group->has_value() && (*group)->wrote()) refused = outcome.broken = Broken(refused);
  }
  for (WriteJob* job : jobs) {
    if (job->status.ok()) job->status = refused;
  }
  return outcome;
}

absl::Status CollectionWriter::Sync(WriteGroup* group) {
  try {
    group->Sync();
    return absl::OkStatus();
  } catch (...) {
    return Broken(StatusOfException());
  }
}

absl::Status CollectionWriter::ApplyToIndex(WriteGroup* group) {
  try {
    return group->ApplyToIndex();
  } catch (...) {
    return Broken(StatusOfException());
  }
}

void CollectionWriter::Lead(bool room) {
  std::vector<WriteJob*> jobs;
  try {
    jobs = TakeGroup(room);
  } catch (...) {
    WriteJob* const own = queue_.front();
    queue_.pop_front();
    own->status = StatusOfException();
    own->done = true;
    return;
  }
  leading_ = true;
  const absl::Status refused = broken_;
  mu_.Unlock();
  NoteTime(&WriteTimes::taken, jobs);
  std::optional<WriteGroup> group;
  const GroupOutcome outcome = WriteToStore(jobs, refused, &group);
  mu_.Lock();
  if (!outcome.broken.ok()) SetBroken(outcome.broken);
  if (group) GiveBack(group->jobs().size(), &jobs);
  leading_ = false;  // The next group may go to the store while this one waits for the disk and goes into the index.
  if (outcome.in_store) {
    const uint64_t ticket = groups_written_++;
    mu_.Unlock();
    const absl::Status synced = Sync(&*group);
    if (synced.ok()) NoteTime(&WriteTimes::stored, jobs);
    mu_.Lock();
    if (!synced.ok()) SetBroken(synced);
    const auto my_turn = [this, ticket]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return groups_applied_ == ticket; };
    mu_.Await(absl::Condition(&my_turn));
    absl::Status broken = broken_;
    mu_.Unlock();
    if (broken.ok()) broken = ApplyToIndex(&*group);
    if (broken.ok()) NoteTime(&WriteTimes::applied, jobs);
    group.reset();  // thousands of strings, which need not be freed under the lock
    mu_.Lock();
    if (!broken.ok()) {
      SetBroken(broken);
      for (WriteJob* job : jobs) {
        if (job->status.ok()) job->status = broken;
      }
    }
    ++groups_applied_;
  }
  for (WriteJob* job : jobs) job->done = true;
  in_flight_ -= static_cast<int64_t>(jobs.size());
}

}  // namespace lightcone::server
