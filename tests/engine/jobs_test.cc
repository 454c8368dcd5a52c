// Jobs: they run by kind, survive restarts, can be cancelled, and say how they ended.
#include "server/engine/jobs/jobs.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "engine_testing.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class JobsTest : public ::testing::Test {
 protected:
  void SetUp() override { OpenFolder(); }
  void OpenFolder() {
    StoreOptions options;
    options.memory_bytes = 32 << 20;
    auto store = OpenStore(folder_.path() + "/store", options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // As a server that ends and starts: jobs first, then the store.
  std::unique_ptr<Jobs> Restart(std::unique_ptr<Jobs> jobs, JobRunner runner) {
    jobs.reset();
    store_.reset();
    OpenFolder();
    return Make(std::move(runner));
  }
  std::unique_ptr<Jobs> Make(JobRunner runner, bool cancellable = true) {
    auto jobs = std::make_unique<Jobs>(store_.get());
    jobs->Define("count", std::move(runner), cancellable);
    const absl::Status loaded = jobs->Load([](uint32_t) { return true; });
    EXPECT_TRUE(loaded.ok()) << loaded;
    return jobs;
  }
  std::string Begin(Jobs* jobs, uint32_t collection = 1, uint32_t generation = 2) {
    JobRecord job;
    job.kind = "count";
    job.collection = "c";
    job.collection_number = collection;
    job.generation = generation;
    WriteBatch batch;
    const auto made = jobs->Prepare(job, &batch);
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(store_->Write(batch, Durability::kDurable).ok());
    jobs->Begin(*made);
    return StrCat(made->number);
  }
  static JobStatus WaitFor(const Jobs& jobs, const std::string& id) {
    while (true) {
      const auto job = jobs.Get(id);
      EXPECT_TRUE(job.ok()) << job.status();
      if (!job.ok() || job->final()) return job.ok() ? *job : JobStatus{};
      std::this_thread::yield();
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(JobsTest, AJobRunsReportsAndKeepsItsResult) {
  auto jobs = Make([](const JobRun& run) -> absl::StatusOr<std::string> {
    EXPECT_EQ(run.job.generation, 2u);
    run.report(3, 7, "counting");
    return std::string("{\"n\":7}");
  });
  const std::string id = Begin(jobs.get());
  JobStatus job = WaitFor(*jobs, id);
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.result_json, "{\"n\":7}");
  EXPECT_EQ(job.done, 3u);
  EXPECT_EQ(job.total, 7u);
  EXPECT_EQ(job.step, "counting");
  EXPECT_EQ(job.attempts, 1u);
  jobs = Restart(std::move(jobs), [](const JobRun&) -> absl::StatusOr<std::string> {
    ADD_FAILURE() << "a job that has ended is begun again";
    return std::string("{}");
  });
  job = *jobs->Get(id);
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.result_json, "{\"n\":7}");
}

TEST_F(JobsTest, AJobThatFailsKeepsItsError) {
  auto jobs = Make([](const JobRun&) -> absl::StatusOr<std::string> { return NotFound("no such thing"); });
  const std::string id = Begin(jobs.get());
  EXPECT_TRUE(Fails(WaitFor(*jobs, id).error, Code::kNotFound, {"no such thing"}));
  jobs = Restart(std::move(jobs), [](const JobRun&) -> absl::StatusOr<std::string> { return std::string("{}"); });
  const JobStatus job = *jobs->Get(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_TRUE(Fails(job.error, Code::kNotFound, {"no such thing"}));
}

TEST_F(JobsTest, CancelledOnesThatWereForgottenWhileTheyWaitedAreNobodysTurn) {
  absl::Notification running, go_on;
  auto jobs = Make([&](const JobRun& run) -> absl::StatusOr<std::string> {
    if (run.job.number == 1) {
      running.Notify();
      go_on.WaitForNotification();
    }
    return std::string("{}");
  });
  const std::string first = Begin(jobs.get());
  running.WaitForNotification();
  std::string cancelled;
  for (int i = 0; i < 1'010; ++i) {  // of which a thousand are remembered
    cancelled = Begin(jobs.get());
    ASSERT_TRUE(jobs->Cancel(cancelled).ok());
  }
  EXPECT_TRUE(Fails(jobs->Get("2").status(), Code::kNotFound, {"2"}));
  const std::string last = Begin(jobs.get());
  go_on.Notify();
  EXPECT_EQ(WaitFor(*jobs, first).state, JobState::kSucceeded);
  EXPECT_EQ(WaitFor(*jobs, last).state, JobState::kSucceeded);
  EXPECT_EQ(jobs->Get(cancelled)->state, JobState::kCancelled);
}

TEST_F(JobsTest, AnExceptionOfARunnerIsTheJobsError) {
  auto jobs = Make([](const JobRun&) -> absl::StatusOr<std::string> { throw std::bad_alloc(); });
  EXPECT_TRUE(Fails(WaitFor(*jobs, Begin(jobs.get())).error, Code::kResourceExhausted, {"memory"}));
}

TEST_F(JobsTest, WhatTheEndOfTheServerInterruptsIsBegunAgainByTheNextStart) {
  absl::Notification running;
  auto jobs = Make([&](const JobRun& run) -> absl::StatusOr<std::string> {
    running.Notify();
    while (!run.cancelled()) std::this_thread::yield();
    return absl::CancelledError("");
  });
  const std::string first = Begin(jobs.get());
  const std::string second = Begin(jobs.get());
  running.WaitForNotification();
  EXPECT_EQ(jobs->Get(second)->state, JobState::kQueued);
  jobs = Restart(std::move(jobs), [](const JobRun& run) -> absl::StatusOr<std::string> {
    return StrCat("{\"job\":", run.job.number, "}");
  });
  EXPECT_EQ(WaitFor(*jobs, first).result_json, StrCat("{\"job\":", first, "}"));
  EXPECT_EQ(WaitFor(*jobs, second).result_json, StrCat("{\"job\":", second, "}"));
}

TEST_F(JobsTest, AJobThatACrashLeftRunningIsBegunAgain) {
  {
    JobRecord job;
    job.number = 9;
    job.kind = "count";
    job.state = JobState::kRunning;
    job.attempts = 1;
    WriteBatch batch;
    batch.Put(Table::kJobs, keys::Job(9), Encode(job));
    ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  }
  auto jobs = Make([](const JobRun&) -> absl::StatusOr<std::string> { return std::string("{}"); });
  const JobStatus job = WaitFor(*jobs, "9");
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.attempts, 2u);
  EXPECT_EQ(Begin(jobs.get()), "10");
}

TEST_F(JobsTest, AJobThatACrashLeftRunningIsShownToWaitWhereItsCollectionIsNotServed) {
  JobRecord job;
  job.number = 5;
  job.kind = "count";
  job.collection = "c";
  job.collection_number = 7;
  job.state = JobState::kRunning;
  job.started_us = 12;
  job.attempts = 1;
  WriteBatch batch;
  batch.Put(Table::kJobs, keys::Job(5), Encode(job));
  ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  Jobs jobs(store_.get());
  jobs.Define(
      "count", [](const JobRun&) -> absl::StatusOr<std::string> { return std::string("{}"); }, true);
  ASSERT_TRUE(jobs.Load([](uint32_t collection) { return collection != 7; }).ok());
  const auto page = jobs.List(0, "", 10, "");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->jobs.size(), 1u);
  EXPECT_EQ(page->jobs[0].state, JobState::kQueued);
  EXPECT_FALSE(page->jobs[0].started.has_value());
}

TEST_F(JobsTest, AJobThatTookTheServerDownTwentyTimesIsGivenUp) {
  JobRecord job;
  job.number = 9;
  job.kind = "count";
  job.state = JobState::kRunning;
  job.attempts = 20;
  WriteBatch batch;
  batch.Put(Table::kJobs, keys::Job(9), Encode(job));
  ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  auto jobs = Make([](const JobRun&) -> absl::StatusOr<std::string> {
    ADD_FAILURE() << "begun once more";
    return std::string("{}");
  });
  EXPECT_TRUE(Fails(WaitFor(*jobs, "9").error, Code::kInternal, {"20 times"}));
}

TEST_F(JobsTest, CancellingEndsWhatRunsAndWhatWaits) {
  absl::Notification running;
  auto jobs = Make([&](const JobRun& run) -> absl::StatusOr<std::string> {
    if (run.job.number == 1) running.Notify();
    while (!run.cancelled()) std::this_thread::yield();
    return absl::CancelledError("");
  });
  const std::string first = Begin(jobs.get());
  const std::string second = Begin(jobs.get());
  running.WaitForNotification();
  EXPECT_EQ(jobs->Cancel(second)->state, JobState::kCancelled);
  EXPECT_TRUE(jobs->Cancel(first).ok());
  EXPECT_EQ(WaitFor(*jobs, first).state, JobState::kCancelled);
  EXPECT_TRUE(jobs->Cancel(first).ok()) << "the same call again";
  jobs = Restart(std::move(jobs), [](const JobRun&) -> absl::StatusOr<std::string> {
    ADD_FAILURE() << "a cancelled job is begun again";
    return std::string("{}");
  });
  EXPECT_EQ(jobs->Get(first)->state, JobState::kCancelled);
  EXPECT_EQ(jobs->Get(second)->state, JobState::kCancelled);
}

TEST_F(JobsTest, WhatHasToBeFinishedOrHasEndedIsNotCancelled) {
  absl::Notification go_on;
  auto jobs = Make(
      [&](const JobRun&) -> absl::StatusOr<std::string> {
        go_on.WaitForNotification();
        return std::string("{}");
      },
      /*cancellable=*/false);
  const std::string id = Begin(jobs.get());
  EXPECT_TRUE(Fails(jobs->Cancel(id), Code::kFailedPrecondition, {"has to be finished"}));
  go_on.Notify();
  WaitFor(*jobs, id);
  EXPECT_TRUE(Fails(jobs->Cancel(id), Code::kFailedPrecondition, {"has ended"}));
  EXPECT_TRUE(Fails(jobs->Cancel("77"), Code::kNotFound, {"no job '77'"}));
  EXPECT_TRUE(Fails(jobs->Cancel("x"), Code::kNotFound, {"no job 'x'"}));
}

TEST_F(JobsTest, ListingGoesFromTheNewestInPagesAndByCollection) {
  auto jobs = Make([](const JobRun&) -> absl::StatusOr<std::string> { return std::string("{}"); });
  for (uint32_t i = 0; i < 5; ++i) WaitFor(*jobs, Begin(jobs.get(), 1 + i % 2));
  const JobPage first = *jobs->List(0, "", 2, "");
  ASSERT_EQ(first.jobs.size(), 2u);
  EXPECT_EQ(first.jobs[0].id, "5");
  EXPECT_EQ(first.jobs[1].id, "4");
  const JobPage second = *jobs->List(0, "", 2, first.token);
  EXPECT_EQ(second.jobs[0].id, "3");
  const JobPage last = *jobs->List(0, "", 2, second.token);
  ASSERT_EQ(last.jobs.size(), 1u);
  EXPECT_EQ(last.token, "");
  EXPECT_EQ(jobs->List(2, "", 0, "")->jobs.size(), 2u);
  EXPECT_TRUE(Fails(jobs->List(0, "", 1'001, ""), Code::kInvalidArgument, {"page_size", "1001"}));
  EXPECT_TRUE(Fails(jobs->List(0, "", 0, "x"), Code::kInvalidArgument, {"token"}));
}

TEST_F(JobsTest, ADamagedRecordIsItsOwnJobsTroubleUntilItIsCancelled) {
  const auto done = [](const JobRun&) -> absl::StatusOr<std::string> { return std::string("{}"); };
  auto jobs = Make(done);
  const std::string first = Begin(jobs.get()), second = Begin(jobs.get());
  WaitFor(*jobs, first);
  WaitFor(*jobs, second);
  jobs->Halt();
  WriteBatch batch;
  batch.Put(Table::kJobs, keys::Job(2), "nonsense");
  ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  jobs = Restart(std::move(jobs), done);
  EXPECT_EQ(jobs->Get(first)->state, JobState::kSucceeded);
  EXPECT_TRUE(Fails(jobs->Get(second).status(), Code::kDataLoss, {"the record of job 2"}));
  EXPECT_TRUE(Fails(jobs->Get("2x").status(), Code::kNotFound, {"no job '2x'"}));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(jobs->Cancel(second)->state, JobState::kCancelled);
  EXPECT_THAT(MessageOf(jobs->Get(second)->error), testing::HasSubstr("the record of job 2"));
  jobs = Restart(std::move(jobs), done);
  EXPECT_EQ(jobs->Get(second)->state, JobState::kCancelled);
  EXPECT_EQ(Begin(jobs.get()), "3") << "a number that was given is not given again";
  WaitFor(*jobs, "3");
}

TEST_F(JobsTest, OnlyTheLatestThousandThatEndedAreRemembered) {
  for (uint64_t number = 1; number <= 1'005; ++number) {
    JobRecord job;
    job.number = number;
    job.kind = "count";
    job.state = JobState::kSucceeded;
    WriteBatch batch;
    batch.Put(Table::kJobs, keys::Job(number), Encode(job));
    ASSERT_TRUE(store_->Write(batch, Durability::kProcess).ok());
  }
  auto jobs = Make([](const JobRun&) -> absl::StatusOr<std::string> { return std::string("{}"); });
  WaitFor(*jobs, Begin(jobs.get()));
  EXPECT_EQ(jobs->List(0, "", 1'000, "")->jobs.size(), 1'000u);
  EXPECT_TRUE(absl::IsNotFound(store_->Get(Table::kJobs, keys::Job(6)).status()));
  EXPECT_TRUE(store_->Get(Table::kJobs, keys::Job(7)).ok());
}

TEST(JobRecordTest, ADamagedRecordIsNamedAndANewerOneRefused) {
  JobRecord job;
  job.number = 1;
  job.kind = "count";
  const std::string good = Encode(job);
  EXPECT_TRUE(DecodeJob(good).ok());
  EXPECT_TRUE(Fails(DecodeJob("{"), Code::kDataLoss, {"job record"}));
  std::string bad = good;
  bad.replace(bad.find("queued"), 6, "quiet?");
  EXPECT_TRUE(Fails(DecodeJob(bad), Code::kDataLoss, {"state"}));
  bad = good;
  bad.replace(bad.find("\"format\":1"), 10, "\"format\":2");
  EXPECT_TRUE(Fails(DecodeJob(bad), Code::kFailedPrecondition, {"newer"}));
}

}  // namespace
}  // namespace lightcone::server
