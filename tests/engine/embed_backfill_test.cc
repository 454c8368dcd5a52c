// The server embeds a gallery anew from its stored inputs: all of it, worst first, whatever happens meanwhile.
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "server/engine/backfill/pace.h"
#include "store/keys.h"
#include "tests/engine/encoder_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

constexpr uint64_t kItems = 300;

class EmbedBackfill : public EncoderTest {
 protected:
  // Items of generation 1 with their inputs; generation 2, with an encoder of its own, serves.
  void MakeWorld(bool second_has_encoder = true) {
    ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
    Activate(1);
    for (uint64_t id = 0; id < kItems; ++id) Put(id, static_cast<float>(id), 1);
    MakeEncoder(6);
    RegisterCall call = Call();
    call.parent = 1;
    if (!second_has_encoder) call.encoder.clear();
    ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
    Activate(2);
  }
  void Put(uint64_t id, float seed, uint32_t generation) {
    UpsertBatch batch = BatchOf({ItemOf(Id(id), {})}, generation);
    batch.items[0].content = Tensor(seed);
    batch.keep_input = true;
    batch.durability = Durability::kProcess;
    Write(std::move(batch));
  }
  absl::StatusOr<BackfillStatus> Start(std::optional<double> rate, double p99_ms_max = 0) {
    StartBackfillCall call;
    call.collection = "c";
    call.embed_rate = rate;
    call.p99_ms_max = p99_ms_max;
    return engine_->StartBackfill(call);
  }
  // Polls: what is waited for happens in a thread of the engine.
  BackfillStatus Await(const std::function<bool(const BackfillStatus&)>& until) {
    for (const absl::Time limit = absl::Now() + absl::Minutes(2);;) {
      const auto status = engine_->GetBackfill("c");
      EXPECT_TRUE(status.ok()) << status.status();
      EXPECT_LT(absl::Now(), limit) << status->items_left << " left, " << status->items_aside << " aside";
      if (!status.ok() || until(*status) || absl::Now() > limit) return status.ok() ? *status : BackfillStatus{};
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  BackfillStatus AwaitDone() {
    return Await([](const BackfillStatus& status) { return status.state == BackfillState::kDone; });
  }
  // What generation 2 makes of an input.
  std::vector<float> Embedded(float seed) {
    UpsertBatch batch = BatchOf({ItemOf(Id("asked"), {})}, 2);
    batch.items[0].content = Tensor(seed);
    Write(std::move(batch));
    const auto got = engine_->Get("c", {Id("asked")}, 2, true, {});
    EXPECT_TRUE(got.ok() && got->items.size() == 1);
    std::vector<float> z = got->items[0].vector;
    EXPECT_TRUE(engine_->Delete("c", {Id("asked")}, Durability::kProcess, {}).ok());
    return z;
  }
  void ExpectEmbedded(uint64_t id, float seed) {
    const auto got = engine_->Get("c", {Id(id)}, 2, true, {});
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->items.size(), 1u) << id;
    // A batch of many rounds as it likes.
    EXPECT_THAT(got->items[0].vector, ::testing::Pointwise(::testing::FloatNear(1e-5f), Embedded(seed))) << id;
  }
};

TEST_F(EmbedBackfill, BringsEveryItemToTheNewGenerationByItself) {
  MakeWorld();
  const auto started = Start(1e6);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->embed_rate, 1e6);
  const BackfillStatus done = AwaitDone();
  EXPECT_EQ(done.items_done, kItems);
  EXPECT_EQ(done.items_aside, 0u);
  for (const uint64_t id : {uint64_t{0}, uint64_t{77}, kItems - 1}) ExpectEmbedded(id, static_cast<float>(id));
  for (const EngineHit& hit : Hits(SearchFor({0.1f, 0, 0, 0}, kItems, 2))) EXPECT_EQ(hit.generation, 2u);
  // A rollback finds the old embeddings as they were.
  EXPECT_EQ(Hits(SearchFor({0.1f, 0, 0, 0}, kItems, 1)).size(), kItems);
}

TEST_F(EmbedBackfill, BeginsWithWhatSearchesFound) {
  MakeWorld();
  ASSERT_TRUE(Start(0).ok());
  LeaseAnswer order;
  while (order.items.empty()) order = engine_->LeaseBackfill({"c", kItems, absl::Milliseconds(1), ""}).value();
  ASSERT_EQ(order.items.size(), kItems);
  const ItemId last = order.items.back().id;
  SearchCall call = SearchFor(engine_->Get("c", {last}, 1, true, {})->items[0].vector, 3, 1);
  call.exact = false;
  ASSERT_EQ(Hits(call)[0].id, last);
  ASSERT_TRUE(Start(20).ok());
  Await([](const BackfillStatus& now) { return now.items_done > 0; });
  const auto got = engine_->Get("c", {last}, 0, false, {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->items[0].generation, 2u);
}

TEST_F(EmbedBackfill, SetsAsideWhatCannotBeDecodedAndLeavesItToWorkers) {
  MakeWorld();
  const std::set<uint64_t> broken = {3, 50, 299};
  std::vector<uint64_t> internal;
  EditStore([&](Store* store, WriteBatch* batch) {
    for (const uint64_t id : broken) {
      const auto item = store->Get(Table::kItems, keys::Item(1, Id(id)));
      ASSERT_TRUE(item.ok()) << item.status();
      batch->Put(Table::kInputs, keys::Input(1, DecodeItem(*item)->internal_id), "Ino image");
    }
  });
  engine_ = OpenEngine(folder_.path());
  ASSERT_TRUE(Start(1e6).ok());
  const BackfillStatus status = Await(
      [&](const BackfillStatus& now) { return now.items_left == broken.size() && now.items_aside == broken.size(); });
  EXPECT_EQ(status.items_leased, 0u);
  EXPECT_EQ(status.state, BackfillState::kRunning);
  EXPECT_EQ(status.items_aside, broken.size());
  std::set<uint64_t> named;
  for (const AsideItem& item : status.aside) {
    named.insert(std::get<uint64_t>(item.id.value));
    EXPECT_NE(item.reason.find("input"), std::string::npos) << item.reason;
  }
  EXPECT_EQ(named, broken);
  const auto lease = engine_->LeaseBackfill({"c", 100, absl::Minutes(5), ""});
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::set<uint64_t> leased;
  UpsertBatch batch = BatchOf({}, 2, /*same_content=*/true);
  for (const LeasedItem& item : lease->items) {
    leased.insert(std::get<uint64_t>(item.id.value));
    batch.items.push_back(ItemOf(item.id, {0.5f, 0, 0, 0}));
    batch.items.back().expected_sequence = item.sequence;
  }
  EXPECT_EQ(leased, broken);
  Write(std::move(batch));
  const BackfillStatus done = AwaitDone();
  EXPECT_EQ(done.items_aside, 0u) << "a worker embedded them";
  EXPECT_TRUE(done.aside.empty());
}

TEST_F(EmbedBackfill, NewContentWinsAndNothingIsEmbeddedWronglyBesideWorkersAndWrites) {
  MakeWorld();
  std::vector<float> seeds(kItems);
  for (uint64_t id = 0; id < kItems; ++id) seeds[id] = static_cast<float>(id);
  ASSERT_TRUE(Start(2'000).ok());
  std::atomic<bool> stop{false};
  std::thread worker([&] {  // embeds as the server would, and gives some back
    std::mt19937 random(1);
    while (!stop) {
      const auto lease = engine_->LeaseBackfill({"c", 7, absl::Seconds(30), ""});
      ASSERT_TRUE(lease.ok()) << lease.status();
      if (lease->items.empty()) {
        absl::SleepFor(absl::Milliseconds(2));
        continue;
      }
      UpsertBatch batch = BatchOf({}, 2, /*same_content=*/true);
      for (const LeasedItem& item : lease->items) {
        if (random() % 3 == 0) continue;
        const auto input = engine_->GetInput("c", item.id);
        if (!input.ok()) continue;
        batch.items.push_back(ItemOf(item.id, {}));
        batch.items.back().content = *input;
        batch.items.back().expected_sequence = item.sequence;
      }
      if (!batch.items.empty()) Write(std::move(batch));
      ASSERT_TRUE(engine_->LeaseBackfill({"c", 1, absl::Milliseconds(1), lease->token}).ok());
    }
  });
  for (uint64_t id = 0; id < kItems; id += 3) {  // new content, by the old generation and by the new one
    seeds[id] = 1'000 + static_cast<float>(id);
    Put(id, seeds[id], 1 + static_cast<uint32_t>(id % 2));
  }
  for (uint64_t id = 1; id < kItems; id += 30) {
    ASSERT_TRUE(engine_->Delete("c", {Id(id)}, Durability::kProcess, {}).ok());
  }
  AwaitDone();
  stop = true;
  worker.join();
  for (uint64_t id = 0; id < kItems; ++id) {
    if (id % 30 == 1) {
      EXPECT_EQ(engine_->Get("c", {Id(id)}, 0, false, {})->missing.size(), 1u) << "back: " << id;
    } else {
      ExpectEmbedded(id, seeds[id]);
    }
  }
}

TEST_F(EmbedBackfill, StopsForAPauseARollbackAndTheEndOfTheServerAndGoesOnAfterwards) {
  MakeWorld();
  ASSERT_TRUE(Start(20).ok());
  Await([](const BackfillStatus& now) { return now.items_done > 0; });
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  const uint64_t paused = Await([](const BackfillStatus& now) { return now.items_leased == 0; }).items_done;
  EXPECT_LT(paused, kItems);
  Restart();
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kPaused);
  EXPECT_EQ(engine_->GetBackfill("c")->embed_rate, 20);
  EXPECT_EQ(engine_->GetBackfill("c")->items_done, paused);
  StartBackfillCall as_it_was;
  as_it_was.request_id = "once";
  as_it_was.collection = "c";
  ASSERT_TRUE(engine_->StartBackfill(as_it_was).ok()) << "ends the pause";
  EXPECT_EQ(engine_->GetBackfill("c")->embed_rate, 20);
  as_it_was.embed_rate = 0;
  EXPECT_TRUE(Fails(engine_->StartBackfill(as_it_was), Code::kAlreadyExists, {"once"})) << "another call";
  ASSERT_TRUE(Start(std::nullopt).ok()) << "orders anew";
  EXPECT_EQ(engine_->GetBackfill("c")->embed_rate, 20);
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  ASSERT_TRUE(Start(50).ok()) << "ends the pause, at another rate";
  EXPECT_EQ(engine_->GetBackfill("c")->embed_rate, 50);
  Await([&](const BackfillStatus& now) { return now.items_done > paused; });
  SwitchCall back;
  back.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kStopped);
  Activate(2);
  Restart();
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  ASSERT_TRUE(Start(1e6).ok());
  EXPECT_EQ(AwaitDone().items_done, kItems);
}

TEST_F(EmbedBackfill, WhatANewerGenerationEmbeddedBeforeARollbackHoldsNothingUp) {
  MakeWorld();
  MakeEncoder(7);
  RegisterCall call = Call();
  call.parent = 2;
  ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
  Activate(3);
  UpsertBatch batch = BatchOf({}, 3, /*same_content=*/true);
  for (const uint64_t id : {uint64_t{5}, uint64_t{150}}) batch.items.push_back(ItemOf(Id(id), {0.5f, 0, 0, 0}));
  Write(std::move(batch));
  SwitchCall back;
  back.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  ASSERT_TRUE(Start(1e6).ok());
  const BackfillStatus status =
      Await([&](const BackfillStatus& now) { return now.items_left == 0 && now.items_leased == 0; });
  EXPECT_EQ(status.state, BackfillState::kDone) << "nobody can embed the two";
  EXPECT_EQ(status.items_aside, 0u);
  EXPECT_TRUE(engine_->LeaseBackfill({"c", 100, absl::Minutes(1), ""})->items.empty());
  ExpectEmbedded(6, 6);
}

TEST_F(EmbedBackfill, WhatMakesNoSenseIsSaid) {
  MakeWorld(/*second_has_encoder=*/false);
  EXPECT_TRUE(Fails(Start(10), Code::kFailedPrecondition, {"generation 2", "no encoder", "embed_rate"}));
  EXPECT_TRUE(Fails(Start(-1), Code::kInvalidArgument, {"embed_rate", "-1", "1000000"}));
  EXPECT_TRUE(Fails(Start(std::numeric_limits<double>::quiet_NaN()), Code::kInvalidArgument, {"embed_rate", "nan"}));
  EXPECT_TRUE(Fails(Start(0, 5), Code::kInvalidArgument, {"p99_ms_max", "5"}));
  EXPECT_TRUE(Fails(Start(1, -5), Code::kInvalidArgument, {"p99_ms_max", "-5"}));
  EXPECT_TRUE(Start(0).ok()) << "workers embed";
}

TEST(PaceTest, GivesItsRateInBurstsAndStepsBackWhileSearchesAreSlow) {
  Pace pace;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_EQ(pace.Take(now, 100, 64), 20) << "a fifth of a second";
  EXPECT_EQ(pace.Take(now, 100, 64), 0);
  now += absl::Milliseconds(100);
  EXPECT_EQ(pace.Take(now, 100, 64), 10);
  int64_t taken = 0;
  for (int i = 0; i < 1'000; ++i) taken += pace.Take(now += absl::Milliseconds(10), 100, 64);
  EXPECT_NEAR(static_cast<double>(taken), 1'000, 2);
  EXPECT_EQ(pace.Take(now - absl::Hours(1), 100, 64), 0) << "a clock that was set back";
  EXPECT_LE(pace.Take(now + absl::Hours(1), 100, 64), 20) << "and forward";
  for (int i = 0; i < 3; ++i) pace.Adapt(now += absl::Seconds(2), true);
  EXPECT_EQ(pace.share(), 0.125);
  pace.Adapt(now, true);
  EXPECT_EQ(pace.share(), 0.125) << "once a second";
  for (int i = 0; i < 30; ++i) pace.Adapt(now += absl::Seconds(2), true);
  EXPECT_EQ(pace.share(), 1.0 / 64) << "it never stands still";
  for (int i = 0; i < 30; ++i) pace.Adapt(now += absl::Seconds(2), false);
  EXPECT_EQ(pace.share(), 1);
  EXPECT_EQ(Pace().Take(now, 0.5, 64), 1) << "slower than one a burst";
}

TEST(PaceTest, SearchTimesAndGrowthForgetWhatIsLongAgo) {
  SearchTimes times;
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_FALSE(times.P99(now));
  SearchTimes few;
  for (int i = 0; i < 9; ++i) few.Note(now, absl::Milliseconds(i < 5 ? 70 : 3));
  EXPECT_EQ(few.P99(now), absl::Milliseconds(70)) << "of few the median";
  for (int i = 0; i < 100; ++i) times.Note(now, absl::Milliseconds(i));
  EXPECT_EQ(times.P99(now), absl::Milliseconds(98));
  EXPECT_FALSE(times.P99(now + absl::Seconds(11)));
  Growth growth;
  EXPECT_EQ(growth.PerSecond(), 0);
  for (int i = 0; i <= 100; ++i) growth.Note(now + absl::Seconds(i), static_cast<uint64_t>(i < 30 ? 0 : 10 * (i - 30)));
  EXPECT_NEAR(growth.PerSecond(), 10, 0.2);
  growth.Note(now + absl::Seconds(200), 0);  // another generation
  EXPECT_EQ(growth.PerSecond(), 0);
}

}  // namespace
}  // namespace lightcone::server
