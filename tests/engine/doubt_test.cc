// A store that fails and throws: what is in it in spite of an error is served, and nobody waits for ever.
#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <thread>

#include "absl/time/clock.h"
#include "engine_testing.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"
#include "tests/engine/forwarding_store.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

enum class Fault {
  kNone,
  kNotWritten,     // Write fails, and nothing is there
  kWritten,        // Write fails, but all of it is there
  kWrittenUnseen,  // and what is there cannot be read
  kThrows,         // Write throws before it writes
  kWrittenThrows,  // and after it
  kNotSynced,      // Write is well, Sync fails
  kSyncThrows,
};

// Where Sync or Write waits, to hold a group on its way to the disk or an operator's call in the midst of it.
struct Gate {
  void Pass() {
    ++waiting;
    while (closed) std::this_thread::yield();
    --waiting;
  }
  std::atomic<bool> closed{false};
  std::atomic<int> waiting{0};
};

size_t BytesOfBatch(const WriteBatch& batch) {
  size_t bytes = 0;
  for (const WriteBatch::Operation& operation : batch.operations()) bytes += operation.value.value_or("").size();
  return bytes;
}

class FaultyStore final : public ForwardingStore {
 public:
  FaultyStore(std::unique_ptr<Store> inner, std::atomic<Fault>* fault, Gate* gate, Gate* write_gate,
              std::atomic<size_t>* bytes_max)
      : ForwardingStore(std::move(inner)), fault_(fault), gate_(gate), write_gate_(write_gate), bytes_max_(bytes_max) {}

  absl::Status Write(const WriteBatch& batch, Durability durability) override {
    write_gate_->Pass();
    bytes_max_->store(std::max(bytes_max_->load(), BytesOfBatch(batch)));
    const Fault fault = fault_->load();
    if (fault == Fault::kThrows) throw std::bad_alloc();
    if (fault == Fault::kNotWritten) return Unavailable("the disk is gone");
    LC_RETURN_IF_ERROR(ForwardingStore::Write(batch, durability));
    if (fault == Fault::kWrittenThrows) throw std::bad_alloc();
    return fault == Fault::kNone || fault >= Fault::kNotSynced ? absl::OkStatus() : Unavailable("the disk is gone");
  }
  absl::Status Sync() override {
    gate_->Pass();
    const Fault fault = fault_->load();
    if (fault == Fault::kSyncThrows) throw std::bad_alloc();
    return fault == Fault::kNotSynced ? Unavailable("the disk is gone") : ForwardingStore::Sync();
  }
  absl::StatusOr<std::string> Get(Table table, std::string_view key) const override {
    auto got = ForwardingStore::Get(table, key);
    // Before the write there is nothing yet, and that may be read.
    if (got.ok() && fault_->load() == Fault::kWrittenUnseen) return Unavailable("the disk is gone");
    return got;
  }

 private:
  std::atomic<Fault>* const fault_;
  Gate* const gate_;
  Gate* const write_gate_;
  std::atomic<size_t>* const bytes_max_;  // of one batch so far
};

class Doubt : public EngineTest {
 protected:
  void SetUp() override { OpenFaulty(); }

  void OpenFaulty() {
    engine_.reset();
    fault_ = Fault::kNone;
    EngineOptions options = OptionsFor(folder_.path());
    options.write_queue_max = write_queue_max_;
    options.limits.payload_bytes_max = 64 << 20;
    auto store = OpenStore(options.data_folder + "/store", options.store);
    ASSERT_TRUE(store.ok()) << store.status();
    auto engine = std::make_unique<EngineImpl>(
        options, std::make_unique<FaultyStore>(std::move(*store), &fault_, &gate_, &write_gate_, &batch_bytes_max_));
    ASSERT_TRUE(engine->Load().ok());
    engine_ = std::move(engine);
  }
  absl::Status Create(const std::string& name, const std::string& request_id = "") {
    CreateCollectionCall call;
    call.name = name;
    call.request_id = request_id;
    return engine_->CreateCollection(call).status();
  }
  absl::Status RegisterOne() {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ManifestFor(kDimension);
    return engine_->RegisterGeneration(call).status();
  }
  absl::Status ActivateFirst() {
    ActivateCall call;
    call.collection = "c";
    call.generation = 1;
    return engine_->ActivateGeneration(call).status();
  }

  // Begins `first`, waits until it is at the closed gate, begins `second`, and tells whether that came to the gate as
  // well instead of being answered. Then both go on to their ends.
  bool SecondWaitsBehindFirst(std::function<void()> first, std::function<void()> second) {
    gate_.closed = true;
    std::atomic<bool> answered{false};
    std::thread one(std::move(first));
    while (gate_.waiting < 1) std::this_thread::yield();
    std::thread two([&] {
      second();
      answered = true;
    });
    while (gate_.waiting < 2 && !answered) std::this_thread::yield();
    const bool waits = !answered;
    seen_while_waiting_ = HitNames(SearchFor({1, 0, 0, 0}));
    gate_.closed = false;
    one.join();
    two.join();
    return waits;
  }

  // Holds the first write in the store until all others wait behind it, so that they may become one group.
  // REQUIRES: write_queue_max_ is the count of all of them.
  void WriteBehind(const std::vector<std::function<void()>>& writes) {
    write_gate_.closed = true;
    std::vector<std::thread> threads;
    for (const auto& write : writes) {
      threads.emplace_back(write);
      while (write_gate_.waiting < 1) std::this_thread::yield();
    }
    const auto is_full = [&] {
      CallContext soon;
      soon.deadline = absl::Now() + absl::Milliseconds(1);
      return absl::IsResourceExhausted(engine_->Delete("c", {Id("nobody")}, Durability::kProcess, soon).status());
    };
    while (!is_full()) std::this_thread::yield();
    write_gate_.closed = false;
    for (std::thread& thread : threads) thread.join();
  }
  // Again while a look at the queue takes the last place in it.
  absl::StatusOr<WriteResult> Upserted(const UpsertBatch& batch) {
    while (true) {
      auto written = engine_->Upsert(batch, {});
      if (!absl::IsResourceExhausted(written.status())) return written;
    }
  }
  absl::StatusOr<WriteResult> Upserted(UpsertItem item) { return Upserted(BatchOf({std::move(item)})); }

  std::atomic<Fault> fault_{Fault::kNone};
  Gate gate_, write_gate_;
  std::atomic<size_t> batch_bytes_max_{0};
  int64_t write_queue_max_ = EngineOptions().write_queue_max;
  std::vector<std::string> seen_while_waiting_;
};

TEST_F(Doubt, WhatAnOperatorWroteInSpiteOfAnErrorIsServed) {
  fault_ = Fault::kWritten;
  EXPECT_TRUE(Fails(Create("c", "create-1"), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(engine_->GetCollection("c").ok());
  EXPECT_TRUE(Create("c", "create-1").ok()) << "the request is known";
  EXPECT_TRUE(Fails(RegisterOne(), Code::kUnavailable, {"disk"}));
  EXPECT_EQ(engine_->ListGenerations("c")->size(), 1u);
  EXPECT_TRUE(Fails(ActivateFirst(), Code::kUnavailable, {"disk"}));
  EXPECT_EQ(engine_->GetCollection("c")->active_generation, 1u);
  EXPECT_TRUE(Fails(engine_->SetAlias("a", "c", ""), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(engine_->GetCollection("a").ok());
  EXPECT_TRUE(Fails(engine_->SetAlias("b", "c", ""), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(Fails(engine_->SetAlias("a", "", ""), Code::kUnavailable, {"disk"}));
  EXPECT_FALSE(engine_->GetCollection("a").ok());
  IndexChange change;
  change.hnsw_m = 21;
  EXPECT_TRUE(Fails(engine_->Rebuild("c", change, true, "", {}), Code::kUnavailable, {"disk"}));
  EXPECT_EQ(engine_->GetCollection("c")->index.hnsw_m, 21);

  fault_ = Fault::kNone;  // The next calls build on what is there.
  EXPECT_TRUE(RegisterOne().ok());
  EXPECT_EQ(engine_->ListGenerations("c")->size(), 2u);
  Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}));
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0})), std::vector<std::string>{"'x'@1"});
  OpenFaulty();
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0})), std::vector<std::string>{"'x'@1"});
  EXPECT_EQ(engine_->GetCollection("b")->index.hnsw_m, 21);

  fault_ = Fault::kWritten;
  EXPECT_TRUE(Fails(engine_->DropCollection("c", ""), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(Fails(engine_->GetCollection("c"), Code::kNotFound, {"no collection 'c'"}));
  EXPECT_TRUE(Fails(engine_->GetCollection("b"), Code::kNotFound, {"no collection 'b'"}));
  fault_ = Fault::kNone;
  EXPECT_TRUE(Create("c").ok());
}

TEST_F(Doubt, ARequestThatIsKnownIsAnsweredOnlyOnceTheDiskHasIt) {
  fault_ = Fault::kWritten;
  EXPECT_TRUE(Fails(Create("c", "create-1"), Code::kUnavailable, {"disk"}));
  fault_ = Fault::kNotSynced;
  EXPECT_TRUE(Fails(Create("c", "create-1"), Code::kUnavailable, {"disk"}));
  fault_ = Fault::kNone;
  EXPECT_TRUE(Create("c", "create-1").ok());
}

TEST_F(Doubt, APauseAndItsEndAreInForceInSpiteOfAnError) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}));
  Activate(2);
  const auto state = [&] { return engine_->GetBackfill("c")->state; };
  ASSERT_TRUE(engine_->StartBackfill({"", "c", "", 0}).ok());
  while (state() == BackfillState::kOrdering) std::this_thread::yield();
  fault_ = Fault::kWritten;
  EXPECT_TRUE(Fails(engine_->PauseBackfill("c", ""), Code::kUnavailable, {"disk"}));
  EXPECT_EQ(state(), BackfillState::kPaused);
  EXPECT_TRUE(Fails(engine_->StartBackfill({"on-1", "c", "", 0}), Code::kUnavailable, {"disk"}));
  EXPECT_EQ(state(), BackfillState::kRunning);
  fault_ = Fault::kNone;
  const auto again = engine_->StartBackfill({"on-1", "c", "", 0});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state, BackfillState::kRunning);
}

TEST_F(Doubt, CallsThatWaitBehindADropFindNothing) {
  ASSERT_TRUE(Create("c").ok());
  write_gate_.closed = true;
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(engine_->DropCollection("c", "").ok()); });
  while (write_gate_.waiting < 1) std::this_thread::yield();
  std::atomic<int> begun{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      ++begun;
      EXPECT_TRUE(Fails(RegisterOne(), Code::kNotFound, {"'c'"}));
    });
  }
  while (begun < 4) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // most come to wait for the drop; it is right either way
  write_gate_.closed = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(write_gate_.waiting, 0);
}

TEST_F(Doubt, ADamagedItemFailsOnlyTheWritesThatNameIt) {
  write_queue_max_ = 4;
  OpenFaulty();
  MakeCollection();
  Write(BatchOf({ItemOf(Id("bad"), {1, 0, 0, 0}), ItemOf(Id("gone"), {1, 0, 0, 0})}));
  EditStore([](Store*, WriteBatch* batch) { batch->Put(Table::kItems, keys::Item(1, Id("bad")), "x"); });
  OpenFaulty();
  const auto refused = [&](const absl::Status& status) {
    EXPECT_TRUE(Fails(status, Code::kDataLoss, {"item 'bad'", "table 'items' key", "item record"}));
  };
  WriteBehind({[&] {
                 EXPECT_TRUE(Upserted(ItemOf(Id("first"), {1, 0, 0, 0})).ok());
               },
               [&] {
                 refused(Upserted(ItemOf(Id("bad"), {0, 1, 0, 0})).status());
               },
               [&] {
                 EXPECT_TRUE(Upserted(ItemOf(Id("good"), {1, 0, 0, 0})).ok());
               },
               [&] {
                 EXPECT_TRUE(Upserted(ItemOf(Id("gone"), {0, 1, 0, 0})).ok());
               }});
  refused(engine_->Delete("c", {Id("bad")}, Durability::kDurable, {}).status());
  EXPECT_TRUE(engine_->Delete("c", {Id("good")}, Durability::kDurable, {}).ok());
  EXPECT_EQ(engine_->GetCollection("c")->items, 3u);
}

TEST_F(Doubt, WhatIsWrittenAsOneBatchIsBoundedInBytes) {
  write_queue_max_ = 4;
  OpenFaulty();
  MakeCollection();
  const std::string payload = StrCat(R"({"text":")", std::string(40 << 20, 'x'), "\"}");
  const auto large = [&](uint64_t id) {
    return [&, id] { EXPECT_TRUE(Upserted(ItemOf(Id(id), {1, 0, 0, 0}, payload)).ok()); };
  };
  WriteBehind({[&] { EXPECT_TRUE(Upserted(ItemOf(Id("first"), {1, 0, 0, 0})).ok()); }, large(1), large(2), large(3)});
  EXPECT_EQ(engine_->GetCollection("c")->items, 4u);
  EXPECT_GT(batch_bytes_max_, size_t{40 << 20}) << "a job is written whole";
  EXPECT_LT(batch_bytes_max_, size_t{64 << 20});
}

TEST_F(Doubt, WhatOneBatchReadsOfStoredItemsIsBoundedInBytes) {
  write_queue_max_ = 5;
  OpenFaulty();
  MakeCollection();
  const std::string payload = StrCat(R"({"text":")", std::string(40 << 20, 'x'), "\"}");
  for (uint64_t id = 1; id <= 3; ++id) Write(BatchOf({ItemOf(Id(id), {1, 0, 0, 0}, payload)}));
  batch_bytes_max_ = 0;
  std::atomic<int> written{0};
  const auto embed_anew = [&](uint64_t id) {
    return [&, id] {
      UpsertBatch batch = BatchOf({ItemOf(Id(id), {0, 1, 0, 0})});
      batch.keep_payload = true;
      const auto moved = Upserted(batch);
      EXPECT_TRUE(moved.ok()) << moved.status();
      ++written;
    };
  };
  WriteBehind({[&] {
                 EXPECT_TRUE(Upserted(ItemOf(Id("first"), {1, 0, 0, 0})).ok());
               },
               embed_anew(1), embed_anew(2), embed_anew(3),
               [&] {
                 EXPECT_TRUE(Upserted(ItemOf(Id("last"), {1, 0, 0, 0})).ok());
               }});
  EXPECT_EQ(written, 3) << "what does not fit is written by a later batch";
  EXPECT_GT(batch_bytes_max_, size_t{40 << 20}) << "each takes its payload along";
  EXPECT_LT(batch_bytes_max_, size_t{64 << 20});
  EXPECT_EQ(engine_->GetCollection("c")->items, 5u);
  for (uint64_t id = 1; id <= 3; ++id) {
    const auto kept = engine_->Get("c", {Id(id)}, 0, {}, {});
    ASSERT_TRUE(kept.ok()) << kept.status();
    ASSERT_EQ(kept->items.size(), 1u);
    EXPECT_EQ(kept->items[0].payload_json.size(), payload.size());
  }
}

TEST_F(Doubt, WhatAnOperatorDidNotWriteIsNotServed) {
  ASSERT_TRUE(Create("c").ok());
  fault_ = Fault::kNotWritten;
  EXPECT_TRUE(Fails(Create("d"), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(Fails(RegisterOne(), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(Fails(engine_->SetAlias("a", "c", ""), Code::kUnavailable, {"disk"}));
  EXPECT_TRUE(Fails(engine_->DropCollection("c", ""), Code::kUnavailable, {"disk"}));
  fault_ = Fault::kNone;
  EXPECT_FALSE(engine_->GetCollection("d").ok());
  EXPECT_FALSE(engine_->GetCollection("a").ok());
  EXPECT_TRUE(engine_->ListGenerations("c")->empty());
  EXPECT_TRUE(Create("d").ok());
  EXPECT_TRUE(RegisterOne().ok());
}

TEST_F(Doubt, TheNumberOfACollectionInDoubtIsNotGivenAgain) {
  fault_ = Fault::kWrittenUnseen;
  EXPECT_TRUE(Fails(Create("c"), Code::kUnavailable, {"nobody knows", "restart"}));
  fault_ = Fault::kNone;
  EXPECT_TRUE(Fails(Create("c"), Code::kAborted, {})) << "the store has it, this process does not";
  ASSERT_TRUE(Create("d").ok());
  OpenFaulty();
  EXPECT_EQ(engine_->ListCollections()->size(), 2u);
  ASSERT_TRUE(RegisterOne().ok());
  EXPECT_TRUE(engine_->ListGenerations("d")->empty()) << "one number, two collections";
}

TEST_F(Doubt, AWriteThatTheDiskDidNotTakeIsNotAcknowledgedAndLaterOnesBuildOnIt) {
  MakeCollection();
  fault_ = Fault::kNotSynced;
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}), {}), Code::kUnavailable, {"disk"}));
  UpsertBatch process = BatchOf({ItemOf(Id("y"), {1, 0, 0, 0})});
  process.durability = Durability::kProcess;
  EXPECT_TRUE(engine_->Upsert(process, {}).ok()) << "asks nothing of the disk";
  fault_ = Fault::kNone;
  Write(BatchOf({ItemOf(Id("x"), {0, 1, 0, 0}), ItemOf(Id("z"), {0, 1, 0, 0})}));
  EXPECT_EQ(engine_->GetCollection("c")->items, 3u) << "the new content of x replaced the doubtful one";
  const std::vector<std::string> hits = HitNames(SearchFor({0, 1, 0, 0}));
  EXPECT_EQ(hits.size(), 3u);
  OpenFaulty();
  EXPECT_EQ(HitNames(SearchFor({0, 1, 0, 0})), hits);
}

TEST_F(Doubt, NothingIsAcknowledgedNorSeenBeforeTheDiskHasWhatItRestsOn) {
  MakeCollection();
  UpsertBatch same = BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})});
  same.same_content = true;
  EXPECT_TRUE(SecondWaitsBehindFirst(
      [&] {
        Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}));
      },
      [&] { EXPECT_TRUE(engine_->Upsert(same, {}).ok()); }))
      << "a retry of what is not on the disk yet";
  EXPECT_TRUE(seen_while_waiting_.empty());
  const auto remove = [&](uint32_t deleted) {
    return [this, deleted] {
      const auto result = engine_->Delete("c", {Id("x")}, Durability::kDurable, {});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->items, deleted);
    };
  };
  EXPECT_TRUE(SecondWaitsBehindFirst(remove(1), remove(0))) << "a delete of what is deleted, but not on the disk";
  EXPECT_EQ(seen_while_waiting_, std::vector<std::string>{"'x'@1"});
  EXPECT_TRUE(SecondWaitsBehindFirst(
      [&] {
        Write(BatchOf({ItemOf(Id("y"), {1, 0, 0, 0})}));
      },
      [&] {
        Write(BatchOf({ItemOf(Id("z"), {0, 1, 0, 0})}));
      }));
  EXPECT_TRUE(seen_while_waiting_.empty());
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0})).size(), 2u);
}

TEST_F(Doubt, AnExceptionInTheWriterEndsTheCallAndEveryLaterOne) {
  for (const Fault fault : {Fault::kThrows, Fault::kWrittenThrows, Fault::kSyncThrows}) {
    OpenFaulty();
    const bool first = fault == Fault::kThrows;
    if (first) MakeCollection();
    if (first) Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}));
    const std::vector<std::string> before = HitNames(SearchFor({1, 0, 0, 0}));
    fault_ = fault;
    std::vector<std::thread> writers;
    for (uint64_t w = 0; w < 4; ++w) {
      writers.emplace_back([&, w] {
        EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id(w), {1, 0, 0, 0})}), {}), Code::kUnavailable,
                          {"no more writes until a restart", "memory"}));
      });
    }
    for (auto& writer : writers) writer.join();
    fault_ = Fault::kNone;
    EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id("y"), {1, 0, 0, 0})}), {}), Code::kUnavailable, {"restart"}));
    EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0})), before);
    OpenFaulty();
    Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}));
    EXPECT_EQ(engine_->GetCollection("c")->items, HitNames(SearchFor({1, 0, 0, 0})).size());
  }
}

}  // namespace
}  // namespace lightcone::server
