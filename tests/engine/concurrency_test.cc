// Writers and searchers at once, with an oracle of what each answer may hold.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"
#include "base/cores.h"
#include "base/thread_pool.h"
#include "engine_testing.h"

namespace lightcone::server {
namespace {

class Concurrency : public EngineTest {};

TEST_F(Concurrency, ThreadsDoNotGrowWithCollections) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto make = [&](const std::string& name) {
    CreateCollectionCall create;
    create.name = name;
    create.payload_fields = {{"kind", PayloadType::kKeyword}};
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
    RegisterCall generation;
    generation.collection = name;
    generation.manifest_json = ManifestFor(kDimension);
    ASSERT_TRUE(engine_->RegisterGeneration(generation).ok());
  };
  make("first");
  const auto with_one = threads();
  for (int i = 1; i < 200; ++i) make(StrCat("c", i));
  const auto pools = 4 * std::max(4, AvailableCores());  // builds, rewrites, checks, payload indexes
  EXPECT_LE(threads(), with_one + pools);
  engine_.reset();
  engine_ = OpenEngine(folder_.path());
  EXPECT_LE(threads(), with_one + pools) << "after a start";
}

// Each item is written again and again; version n lies at distance ~n from the origin and says so in its payload.
TEST_F(Concurrency, AnItemUnderConstantReplacementIsNeverMissingNorTwiceNorMixed) {
  MakeCollection();
  constexpr uint64_t kItems = 20;
  constexpr int kWriters = 4, kSearchers = 3, kVersions = 60;
  std::vector<std::atomic<int>> started(kItems), finished(kItems);
  const auto write = [&](uint64_t id, int version) {
    started[id].store(version);
    UpsertBatch batch =
        BatchOf({ItemOf(Id(id), {0.01f * static_cast<float>(version), 0.001f * static_cast<float>(id), 0, 0},
                        StrCat("{\"version\":", version, "}"))});
    batch.durability = Durability::kProcess;
    const auto written = engine_->Upsert(std::move(batch), {});
    ASSERT_TRUE(written.ok()) << written.status();
    finished[id].store(version);
  };
  for (uint64_t id = 0; id < kItems; ++id) write(id, 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int version = 2; version <= kVersions; ++version) {
        for (uint64_t id = static_cast<uint64_t>(w); id < kItems; id += kWriters) write(id, version);
      }
    });
  }
  std::atomic<int64_t> searches{0};
  for (int s = 0; s < kSearchers; ++s) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        std::vector<int> floor(kItems), ceiling(kItems);
        for (uint64_t id = 0; id < kItems; ++id) floor[id] = finished[id].load();
        SearchCall call = SearchFor({0, 0, 0, 0}, 100);
        call.with_payload = true;
        const auto answer = engine_->Search(call, {});
        for (uint64_t id = 0; id < kItems; ++id) ceiling[id] = started[id].load();
        ASSERT_TRUE(answer.ok()) << answer.status();
        std::vector<int> seen(kItems, 0);
        for (const EngineHit& hit : answer->results[0].hits) {
          const uint64_t id = std::get<uint64_t>(hit.id.value);
          const int version = std::stoi(hit.payload_json.substr(11));
          ASSERT_EQ(seen[id]++, 0) << "twice: " << id;
          EXPECT_GE(version, floor[id]) << "an acknowledged write is not seen";
          EXPECT_LE(version, ceiling[id]);
          EXPECT_NEAR(hit.distance, std::hypot(0.01 * version, 0.001 * static_cast<double>(id)), 1e-3)
              << "payload and embedding are of different versions";
        }
        for (uint64_t id = 0; id < kItems; ++id) EXPECT_EQ(seen[id], 1) << "missing: " << id;
        ++searches;
      }
    });
  }
  for (int w = 0; w < kWriters; ++w) threads[static_cast<size_t>(w)].join();
  stop.store(true);
  for (size_t t = kWriters; t < threads.size(); ++t) threads[t].join();
  EXPECT_GT(searches.load(), 0);
  EXPECT_EQ(engine_->GetCollection("c")->sequence, kItems * kVersions);
}

TEST_F(Concurrency, ABatchIsSeenAsAWholeOrNotAtAll) {
  MakeCollection();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t round = 0; round < 80; ++round) {
      std::vector<UpsertItem> items;
      for (uint64_t i = 0; i < 10; ++i)
        items.push_back(ItemOf(Id(round * 10 + i), {0.001f * static_cast<float>(i), 0, 0, 0}));
      Write(BatchOf(std::move(items)));
    }
    stop.store(true);
  });
  while (!stop.load()) {
    const auto answer = engine_->Search(SearchFor({0, 0, 0, 0}, 1'000), {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->results[0].hits.size() % 10, 0u);
  }
  writer.join();
}

TEST_F(Concurrency, ADropUnderFireEndsEveryCallCleanly) {
  MakeCollection();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; !stop.load(); ++i) {
        const absl::Status status = t % 2 == 0 ? engine_->Upsert(BatchOf({ItemOf(Id(i), {1, 0, 0, 0})}), {}).status()
                                               : engine_->Search(SearchFor({1, 0, 0, 0}), {}).status();
        EXPECT_TRUE(status.ok() || absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) << status;
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(engine_->DropCollection("c", "").ok());
    MakeCollection();
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  Restart();
  EXPECT_TRUE(engine_->GetCollection("c").ok());
}

TEST_F(Concurrency, AWaiterIsWokenByTheWriteItWaitsFor) {
  MakeCollection();
  std::thread waiter([&] {
    SearchCall call = SearchFor({1, 0, 0, 0});
    call.wait_for_sequence = 3;
    CallContext context;
    context.deadline = absl::Now() + absl::Minutes(1);
    const auto answer = engine_->Search(call, context);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_GE(answer->sequence, 3u);
    EXPECT_EQ(answer->results[0].hits.size(), 3u);
  });
  for (uint64_t i = 0; i < 3; ++i) Write(BatchOf({ItemOf(Id(i), {1, 0, 0, 0})}));
  waiter.join();
}

TEST(ThreadPoolTest, RunsEachIndexOnceFromManyCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::atomic<int>> runs(round);
        ASSERT_TRUE(pool.ParallelFor(round, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; }).ok());
        for (auto& run : runs) ASSERT_EQ(run.load(), 1);
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

TEST(ThreadPoolTest, WhatABodyThrowsIsTheAnswerAndTheOthersStillRun) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> runs{0};
      const absl::Status status = pool.ParallelFor(10, [&](int64_t i) {
        ++runs;
        if (i == round % 10) throw std::bad_alloc();
      });
      EXPECT_TRUE(Fails(status, absl::StatusCode::kResourceExhausted, {"memory"}));
      EXPECT_EQ(runs.load(), 10);
    }
    EXPECT_TRUE(pool.ParallelFor(10, [](int64_t) {}).ok());
  }
}

}  // namespace
}  // namespace lightcone::server
