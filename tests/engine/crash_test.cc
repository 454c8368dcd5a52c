// What survives: a process killed in the middle of writing, a full disk, folders damaged behind the engine's back.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "adapter_world.h"
#include "snapshot/restore.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

// The vector that write `n` of item `id` carries: its answer tells which write is there.
std::vector<float> VectorOf(uint64_t id, uint64_t n) {
  return {static_cast<float>(id) * 0.01f, static_cast<float>(n) * 0.001f, 0.5f, 0};
}

constexpr char kChildVariable[] = "LIGHTCONE_ENGINE_TEST_CHILD";  // "task:pipe:from:folder"

bool Tell(int pipe, uint64_t a, uint64_t b) {
  const uint64_t line[2] = {a, b};
  return write(pipe, line, sizeof line) == static_cast<ssize_t>(sizeof line);
}

// Writes forever and tells each acknowledged write through the pipe: id, n (n = 0: deleted).
int ChildWrites(const std::string& folder, int pipe, uint64_t from) {
  const auto engine = OpenEngine(folder);
  for (uint64_t n = from;; ++n) {
    const uint64_t id = n % 37;
    bool acknowledged = false;
    if (n % 22 == 0) {
      DeleteByFilterCall call;
      call.collection = "c";
      call.filter = Leaf(FilterNode::Kind::kEquals, "id", {static_cast<int64_t>(id)});
      call.durability = Durability::kProcess;
      const auto answer = engine->DeleteByFilter(call, {});
      acknowledged = answer.ok() && answer->token.empty();
    } else if (n % 11 == 0) {
      acknowledged = engine->Delete("c", {Id(id)}, Durability::kProcess, {}).ok();
    } else {
      const std::string payload = StrCat("{\"id\":", id, ",\"n\":", n, "}");
      acknowledged = engine->Upsert(BatchOf({ItemOf(Id(id), VectorOf(id, n), payload)}, 1), {}).ok();
    }
    if (!acknowledged) return 3;
    if (!Tell(pipe, id, n % 11 == 0 ? 0 : n)) return 4;
  }
}

constexpr uint64_t kBatchOnFullDisk = 7;

// Writes batches until the disk is "full", then tells whether the error was right and reads still worked.
int ChildFillsDisk(const std::string& folder, int pipe) {
  signal(SIGXFSZ, SIG_IGN);  // writes beyond the limit fail with EFBIG instead
  const auto engine = OpenEngine(folder);
  const rlimit limit{256 << 10, 256 << 10};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string payload = StrCat("{\"x\":\"", std::string(700, 'x'), "\"}");
  for (uint64_t batch = 0; batch < 100'000; ++batch) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < kBatchOnFullDisk; ++i) {
      items.push_back(ItemOf(Id(batch * kBatchOnFullDisk + i), {1, 0, 0, 0}, payload));
    }
    const auto written = engine->Upsert(BatchOf(std::move(items)), {});
    if (written.ok()) {
      if (!Tell(pipe, batch, 1)) return 4;
      continue;
    }
    const auto counted = engine->Count("c", std::nullopt, {});
    const auto found = engine->Search(SearchFor({1, 0, 0, 0}, 10'000), {});
    const bool reads = counted.ok() && counted->count == batch * kBatchOnFullDisk && found.ok() &&
                       found->results[0].hits.size() == batch * kBatchOnFullDisk;
    const bool said(Fails(written, absl::StatusCode::kResourceExhausted, {"the disk is full: free some space"}));
    if (!said) std::cerr << written.status() << "\n";
    return Tell(pipe, UINT64_MAX, reads && said ? 1 : 0) ? 0 : 5;
  }
  return 6;
}

constexpr int64_t kTtlMsMax = 400;

// Writes items forever, of which most expire soon. Tells of each acknowledged write its id and TTL, and when it was.
// Meanwhile some items are embedded by a second generation, and that one is activated and taken back; some get another
// vector beside the time that they have; and a snapshot is made anew.
int ChildExpires(const std::string& folder, int pipe, uint64_t from) {
  const auto engine = OpenEngine(folder);
  for (uint64_t n = from;; ++n) {
    if (n % 3 == 0) {
      UpsertBatch again = BatchOf({ItemOf(Id(n * 5 % 37), VectorOf(n * 5 % 37, n))}, 2);
      again.same_content = true;
      const auto written = engine->Upsert(std::move(again), {});
      // It may have expired, or be there by the second generation already.
      if (!written.ok() && !absl::IsNotFound(written.status()) && !absl::IsFailedPrecondition(written.status()))
        return 5;
    }
    if (n % 7 == 0) {
      UpsertBatch again = BatchOf({ItemOf(Id(n * 3 % 37), VectorOf(n * 3 % 37, n))}, 1);
      again.keep_payload = true;
      const auto written = engine->Upsert(std::move(again), {});
      if (!written.ok() && !absl::IsNotFound(written.status())) return 7;
    }
    if (n % 40 == 0) {
      const absl::Status gone = engine->snapshots().Delete("latest");
      if (!gone.ok() && !absl::IsNotFound(gone)) return 8;
      if (!engine->snapshots().Create({"latest"}, {}).ok()) return 9;
    }
    if (n % 10 == 0) {
      ActivateCall activate;
      activate.collection = "c";
      activate.generation = n % 20 == 0 ? 1 : 2;
      activate.force = true;
      activate.reason = "a test";
      if (!engine->ActivateGeneration(activate).ok()) return 6;
    }
    UpsertItem item = ItemOf(Id(n % 37), VectorOf(n % 37, n));
    item.ttl_ms = n % 5 == 0 ? 0 : static_cast<int64_t>(1 + n * 7'919 % kTtlMsMax);
    const int64_t ttl_ms = *item.ttl_ms;
    if (!engine->Upsert(BatchOf({std::move(item)}, 1), {}).ok()) return 3;
    if (!Tell(pipe, (n % 37) << 32 | static_cast<uint64_t>(ttl_ms),
              static_cast<uint64_t>(absl::ToUnixMillis(absl::Now()))))
      return 4;
  }
}

// An adapter from generation 1 to 2 of MakeCollection(2) that moves every item by `n` thousandths.
AdapterSpec ShiftBy(uint64_t n) {
  AdapterSpec spec;
  spec.direction = AdapterDirection::kItem;
  spec.kind = AdapterKind::kAffine;
  spec.input_dimension = 4;
  spec.target = Space{Metric::kLorentz, 4, 1.0, 2.0};
  spec.linear = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  spec.offset = {static_cast<float>(n) * 0.001f, 0, 0, 0};
  return spec;
}

// Puts adapters forever and tells each acknowledged one through the pipe: n, version.
int ChildPutsAdapters(const std::string& folder, int pipe, uint64_t from) {
  const auto engine = OpenEngine(folder);
  for (uint64_t n = from;; ++n) {
    const auto put = engine->PutAdapter({StrCat("put-", n), "c", 1, 2, FileOf(ShiftBy(n))});
    if (!put.ok()) return 3;
    if (!Tell(pipe, n, put->version)) return 4;
  }
}

// Not a test of its own: the body of the processes that the tests below start from this program.
TEST(CrashChild, Body) {
  const char* task = getenv(kChildVariable);
  if (task == nullptr) return;
  int number = 0, pipe = 0;
  unsigned long long from = 0;
  int folder = 0;
  ASSERT_EQ(sscanf(task, "%d:%d:%llu:%n", &number, &pipe, &from, &folder), 3);
  if (number == 3) _exit(ChildPutsAdapters(task + folder, pipe, from));
  if (number == 4) _exit(ChildExpires(task + folder, pipe, from));
  _exit(number == 1 ? ChildWrites(task + folder, pipe, from) : ChildFillsDisk(task + folder, pipe));
}

// A fresh process of this program, so that no thread of a library is lost in a fork.
pid_t StartChild(int task, int pipe, uint64_t from, const std::string& folder) {
  const std::string variable = StrCat(task, ":", pipe, ":", from, ":", folder);
  const pid_t child = fork();
  if (child != 0) return child;
  setenv(kChildVariable, variable.c_str(), 1);
  execl("/proc/self/exe", "engine_crash_test", "--gtest_filter=CrashChild.Body", static_cast<char*>(nullptr));
  _exit(9);
}

class Crash : public EngineTest {
 protected:
  void SetUp() override {}

  // Every time to live of the child is over.
  void ExpectARestoreShowsOnlyWhatStays() {
    const auto list = engine_->snapshots().List();
    ASSERT_TRUE(list.ok()) << list.status();
    if (list->empty()) return;  // killed between two
    const std::string data = folder_.path() + "-restored";
    const auto restored = RestoreSnapshot(list->back().folder, data);
    ASSERT_TRUE(restored.ok()) << restored.status();
    {
      const auto engine = OpenEngine(data);
      ASSERT_NE(engine, nullptr);
      const auto page = engine->Scroll("c", {}, 100, "", false, {});
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_FALSE(page->items.empty());
      for (const StoredItem& item : page->items) EXPECT_EQ(item.expires, std::nullopt) << ToString(item.id);
      const auto found = engine->Search(SearchFor({0, 0, 0, 0}, 100), {});
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->results[0].hits.size(), page->items.size());
    }
    std::filesystem::remove_all(data);
  }

  // Tells `told` of every line of a child with this task, and kills the child after line `last`, counted from 0.
  void RunUntilKilled(int task, uint64_t from, int last, const std::function<void(const uint64_t* line)>& told) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = StartChild(task, ends[1], from, folder_.path());
    ASSERT_GE(child, 0);
    close(ends[1]);
    uint64_t line[2];
    for (int seen = 0; read(ends[0], line, sizeof line) == static_cast<ssize_t>(sizeof line); ++seen) {
      told(line);
      if (seen == last) kill(child, SIGKILL);
    }
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
  }
};

TEST_F(Crash, EveryAcknowledgedWriteIsThereAfterKillsAndSearchesAgree) {
  engine_ = OpenEngine(folder_.path());
  MakeCollection();
  engine_.reset();
  std::map<uint64_t, uint64_t> acknowledged;
  uint64_t next = 1;
  for (int round = 0; round < 4; ++round) {
    ASSERT_NO_FATAL_FAILURE(RunUntilKilled(1, next, 100, [&](const uint64_t* line) {
      acknowledged[line[0]] = line[1];
      ++next;
    }));

    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
    const uint64_t in_flight = next % 37;  // may be there or not
    uint64_t items = 0;
    for (uint64_t id = 0; id < 37; ++id) {
      const auto got = engine_->Get("c", {Id(id)}, 0, true, {});
      ASSERT_TRUE(got.ok()) << got.status();
      items += got->items.size();
      if (id == in_flight) continue;
      const bool expected = acknowledged.contains(id) && acknowledged[id] != 0;
      ASSERT_EQ(got->items.size(), expected ? 1u : 0u) << id;
      if (expected) {
        EXPECT_EQ(got->items[0].vector, VectorOf(id, acknowledged[id]));
      }
    }
    // Search and store hold the same.
    SearchCall call = SearchFor({0, 0, 0, 0}, 100);
    call.with_vector = call.with_payload = true;
    const auto hits = Hits(call);
    EXPECT_EQ(hits.size(), items);
    for (const EngineHit& hit : hits) {
      EXPECT_EQ(hit.vector, engine_->Get("c", {hit.id}, 0, true, {})->items[0].vector);
    }
    EXPECT_EQ(engine_->GetCollection("c")->items, items);
    engine_.reset();
    ++next;
  }
}

// LIGHTCONE_EXPIRY_KILLS: how often the process is killed.
TEST_F(Crash, WhatHasExpiredStaysGoneAfterKillsAndTheRestIsThere) {
  const char* const kills = getenv("LIGHTCONE_EXPIRY_KILLS");
  engine_ = OpenEngine(folder_.path());
  MakeCollection(2);
  engine_.reset();
  struct Known {
    int64_t ttl_ms = 0, acknowledged_ms = 0;
  };
  std::map<uint64_t, Known> known;
  uint64_t next = 1;
  for (int round = 0; round < (kills == nullptr ? 4 : std::atoi(kills)); ++round) {
    ASSERT_NO_FATAL_FAILURE(RunUntilKilled(4, next, 100, [&](const uint64_t* line) {
      known[line[0] >> 32] = {static_cast<int64_t>(line[0] & UINT32_MAX), static_cast<int64_t>(line[1])};
      ++next;
    }));

    known.erase(next % 37);  // in flight: may be there or not
    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
    const auto check = [&] {
      const int64_t now_ms = absl::ToUnixMillis(absl::Now());
      std::set<uint64_t> found;
      for (const EngineHit& hit : Hits(SearchFor({0, 0, 0, 0}, 100))) found.insert(std::get<uint64_t>(hit.id.value));
      for (const auto& [id, one] : known) {
        const auto got = engine_->Get("c", {Id(id)}, 0, false, {});
        ASSERT_TRUE(got.ok()) << got.status();
        if (one.ttl_ms == 0) {
          EXPECT_TRUE(found.contains(id) && got->items.size() == 1) << id;
        } else if (one.acknowledged_ms + one.ttl_ms <= now_ms) {
          EXPECT_TRUE(!found.contains(id) && got->items.empty()) << id;
        }
      }
    };
    int64_t last_ms = 0;
    for (const auto& [id, one] : known) last_ms = std::max(last_ms, one.acknowledged_ms);
    const auto all_gone = [&] {
      const int64_t now_ms = absl::ToUnixMillis(absl::Now());
      if (now_ms <= last_ms + kTtlMsMax) return false;  // earlier writes of the ids live in a snapshot, perhaps
      for (const auto& [id, one] : known) {
        if (one.ttl_ms > 0 && one.acknowledged_ms + one.ttl_ms > now_ms) return false;
      }
      return true;
    };
    while (!all_gone()) check();
    check();
    ASSERT_NO_FATAL_FAILURE(ExpectARestoreShowsOnlyWhatStays());
    engine_.reset();
    ++next;
  }
}

TEST_F(Crash, TheLastAcknowledgedAdapterServesAfterKills) {
  engine_ = OpenEngine(folder_.path());
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {0, 0.5f, 0, 0})}, 1));
  engine_.reset();
  uint64_t next = 1;
  for (int round = 0; round < 3; ++round) {
    uint64_t line[2] = {0, 0};
    ASSERT_NO_FATAL_FAILURE(
        RunUntilKilled(3, next, 10, [&](const uint64_t* told) { std::copy(told, told + 2, line); }));

    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
    const auto list = engine_->ListAdapters("c");
    ASSERT_TRUE(list.ok()) << list.status();
    ASSERT_EQ(list->size(), 1u);
    // The one that was under way may be there as well.
    const uint64_t n = line[0] + (list->at(0).version - line[1]);
    EXPECT_LE(n - line[0], 1u);
    const float x = static_cast<float>(n) * 0.001f;
    const auto hits = Hits(SearchFor({x, 0.5f, 0, 0}, 1, 2));
    ASSERT_EQ(hits.size(), 1u);
    EXPECT_NEAR(hits[0].distance, 0.0, 1e-5) << "carried by another adapter than the list shows";
    engine_.reset();
    next = n + 1;
  }
}

TEST_F(Crash, ALostIndexFolderIsRebuiltFromTheStore) {
  engine_ = OpenEngine(folder_.path());
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0})}, 1));
  Write(BatchOf({ItemOf(Id("b"), {0.1f, 1, 0, 0})}, 2, /*same_content=*/true));
  ASSERT_TRUE(engine_->Rebuild("c", {}, /*wait=*/true, "", {}).ok());
  const auto first = HitNames(SearchFor({1, 0, 0, 0}, 10, 1));
  const auto second = HitNames(SearchFor({1, 0, 0, 0}, 10, 2));
  engine_.reset();
  std::filesystem::remove_all(folder_.path() + "/index");
  engine_ = OpenEngine(folder_.path());
  ASSERT_NE(engine_, nullptr);
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0}, 10, 1)), first);
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0}, 10, 2)), second);
  Write(BatchOf({ItemOf(Id("z"), {1, 0, 0, 0})}, 2));
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0}, 10, 2)).size(), 3u);
}

TEST_F(Crash, AStartFromSegmentsAndALogAnswersTheSame) {
  EngineOptions options = OptionsFor(folder_.path());
  engine_ = OpenEngine(options);
  CreateCollectionCall create;
  create.name = "c";
  create.index.growing_rows_max = 1'000;
  ASSERT_TRUE(engine_->CreateCollection(create).ok());
  Register(0);
  Activate(1);
  for (uint64_t i = 0; i < 2'000; ++i) {
    UpsertBatch batch = BatchOf({ItemOf(Id(i % 1'500), VectorOf(i % 1'500, i))});
    batch.durability = Durability::kProcess;
    Write(std::move(batch));
  }
  const auto names = HitNames(SearchFor({1, 0, 0, 0}, 40));
  Restart();
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0}, 40)), names);
  EXPECT_EQ(engine_->GetCollection("c")->items, 1'500u);
}

TEST_F(Crash, AFullDiskIsSaidAndNothingAcknowledgedIsLost) {
  engine_ = OpenEngine(folder_.path());
  MakeCollection();
  engine_.reset();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = StartChild(2, ends[1], 0, folder_.path());
  ASSERT_GE(child, 0);
  close(ends[1]);
  std::set<uint64_t> acknowledged;
  bool said = false;
  uint64_t line[2];
  while (read(ends[0], line, sizeof line) == static_cast<ssize_t>(sizeof line)) {
    if (line[0] == UINT64_MAX) {
      said = line[1] == 1;
    } else {
      acknowledged.insert(line[0]);
    }
  }
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(said) << "status " << status;
  EXPECT_GT(acknowledged.size(), 10u);
  engine_ = OpenEngine(folder_.path());
  ASSERT_NE(engine_, nullptr);
  for (const uint64_t batch : acknowledged) {
    std::vector<ItemId> ids;
    for (uint64_t i = 0; i < kBatchOnFullDisk; ++i) ids.push_back(Id(batch * kBatchOnFullDisk + i));
    EXPECT_EQ(engine_->Get("c", ids, 0, false, {})->items.size(), kBatchOnFullDisk) << batch;
  }
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, acknowledged.size() * kBatchOnFullDisk)
      << "nothing of the batch that was refused is there";
  Write(BatchOf({ItemOf(Id("after"), {1, 0, 0, 0})}));
}

TEST_F(Crash, ADamagedSegmentIsRebuilt) {
  engine_ = OpenEngine(folder_.path());
  MakeCollection();
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 300; ++i) items.push_back(ItemOf(Id(i), VectorOf(i, i)));
  Write(BatchOf(std::move(items)));
  IndexSettings settings;
  settings.kind = SealedKind::kFlat;
  ASSERT_TRUE(engine_->Rebuild("c", settings, /*wait=*/true, "", {}).ok());
  const auto names = HitNames(SearchFor({1, 0, 0.5f, 0}, 30));
  engine_.reset();
  int damaged = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path() + "/index")) {
    if (!entry.is_regular_file() || entry.path().string().find("segments") == std::string::npos) continue;
    if (entry.file_size() < 1'000) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(entry.file_size() / 2));
    const char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put(static_cast<char>(byte ^ 1));
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  engine_ = OpenEngine(folder_.path());
  ASSERT_NE(engine_, nullptr);
  // Waits for the checks, too.
  ASSERT_TRUE(engine_->Rebuild("c", settings, /*wait=*/true, "", {}).ok());
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0.5f, 0}, 30)), names);
  EXPECT_GE(engine_->GetCollection("c")->rebuilds_total, 1);
  EXPECT_EQ(engine_->GetCollection("c")->segments_unchecked, 0);
}

TEST_F(Crash, AFileCutUnderTheRunningEngineIsSaidAndMendedFromTheStore) {
  engine_ = OpenEngine(folder_.path());
  MakeCollection();
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 300; ++i) items.push_back(ItemOf(Id(i), VectorOf(i, i)));
  Write(BatchOf(std::move(items)));
  ASSERT_TRUE(engine_->Rebuild("c", {}, /*wait=*/true, "", {}).ok());
  const auto names = HitNames(SearchFor({1, 0, 0.5f, 0}, 30));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path() + "/index")) {
    if (entry.path().filename() == "vectors.f32") std::filesystem::resize_file(entry.path(), 0);
  }
  const auto answer = engine_->Search(SearchFor({1, 0, 0.5f, 0}, 30), {});
  // Unless the index has found out and mended it already.
  if (!answer.ok()) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable) << answer.status();
  }
  if (answer.ok() && !answer->results[0].status.ok()) {
    EXPECT_EQ(answer->results[0].status.code(), absl::StatusCode::kUnavailable) << answer->results[0].status;
  }
  ASSERT_TRUE(engine_->Rebuild("c", {}, /*wait=*/true, "", {}).ok());
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0.5f, 0}, 30)), names);
  EXPECT_EQ(engine_->GetCollection("c")->rebuilds_total, 1);
}

}  // namespace
}  // namespace lightcone::server
