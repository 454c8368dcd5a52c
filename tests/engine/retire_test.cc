// Retiring: what would be lost is refused, what is left is served, the space comes back, and a crash changes none of
// it.
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "engine_testing.h"
#include "models/adapter_file.h"
#include "server/engine/collection/meta.h"
#include "server/engine/jobs/jobs.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class RetireTest : public EngineTest {
 protected:
  static constexpr uint64_t kItems = 300;

  void SetUp() override {
    EngineTest::SetUp();
    MakeCollection(2);
    std::vector<UpsertItem> items;
    for (uint64_t id = 0; id < kItems; ++id) {
      rows_.push_back(RandomVector(&random_, kDimension, 0.5f));
      items.push_back(ItemOf(Id(id), rows_.back()));
    }
    Write(BatchOf(std::move(items), 1));
  }
  void EmbedAnew(uint64_t items, uint32_t generation = 2) {
    std::vector<UpsertItem> batch;
    for (uint64_t id = 0; id < items; ++id) batch.push_back(ItemOf(Id(id), rows_[id]));
    Write(BatchOf(std::move(batch), generation, /*same_content=*/true));
  }
  RetireCall CallFor(uint32_t generation, const std::string& request_id = "") {
    return {request_id, "c", generation, "a test"};
  }
  JobStatus WaitFor(const std::string& id) {
    JobStatus job = *engine_->GetJob(id);
    for (; !job.final(); job = *engine_->GetJob(id)) std::this_thread::yield();
    return job;
  }
  void Retire(uint32_t generation) {
    const auto answer = engine_->RetireGeneration(CallFor(generation));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->generation.state, GenerationState::kRetired);
    const JobStatus job = WaitFor(answer->job);
    ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  }
  // Every item once, by this generation.
  void ExpectAllServedBy(uint32_t generation, const std::string& what) {
    std::set<std::string> seen;
    for (const EngineHit& hit : Hits(SearchFor(rows_[0], 2 * kItems))) {
      EXPECT_EQ(hit.generation, generation) << what;
      EXPECT_TRUE(seen.insert(ToString(hit.id)).second) << what << ": " << ToString(hit.id) << " twice";
    }
    EXPECT_EQ(seen.size(), kItems) << what;
    const auto got = engine_->Get("c", {Id(uint64_t{0}), Id(kItems - 1)}, 0, /*with_vector=*/true, {});
    ASSERT_TRUE(got.ok()) << what << got.status();
    ASSERT_EQ(got->items.size(), 2u) << what;
    EXPECT_EQ(got->items[0].generation, generation) << what;
    EXPECT_EQ(got->items[0].vector, rows_[0]) << what;
  }

  // How many items are found by which generation's embedding, of as many as there are.
  std::map<uint32_t, uint64_t> HitsByGeneration() {
    std::map<uint32_t, uint64_t> found;
    std::set<std::string> seen;
    for (const EngineHit& hit : Hits(SearchFor(rows_[0], kItems))) {
      ++found[hit.generation];
      EXPECT_TRUE(seen.insert(ToString(hit.id)).second) << ToString(hit.id) << " twice";
    }
    return found;
  }

  void PutItemAdapter(uint32_t from, uint32_t to) {
    AdapterFile file;
    file.from = StrCat(from);
    file.to = StrCat(to);
    file.fit.loss = "reg";
    file.fit.pairs = 10;
    file.spec.direction = AdapterDirection::kItem;
    file.spec.kind = AdapterKind::kAffine;
    file.spec.input_dimension = kDimension;
    file.spec.target = Space{Metric::kLorentz, kDimension, 1.0, 2.0};
    file.spec.linear.assign(kDimension * kDimension, 0.1f);
    file.spec.offset.assign(kDimension, 0.0f);
    const auto put = engine_->PutAdapter({"", "c", from, to, *EncodeAdapter(file)});
    ASSERT_TRUE(put.ok()) << put.status();
  }

  // As a retirement leaves the store that has taken the generation out of the records of `swept` items, and failed
  // then: no job goes on with it.
  void HalfRetire(uint32_t generation, uint64_t swept) {
    EditStore([&](Store* store, WriteBatch* batch) {
      GenerationRecord record = *DecodeGeneration(*store->Get(Table::kGenerations, keys::Generation(1, generation)));
      record.retired = true;
      batch->Put(Table::kGenerations, keys::Generation(1, generation), Encode(record));
      ProgressRecord progress = *DecodeProgress(*store->Get(Table::kMeta, keys::Meta(ProgressName(1))));
      for (uint64_t id = 0; id < swept; ++id) {
        const std::string key = keys::Item(1, Id(id));
        ItemRecord item = *DecodeItem(*store->Get(Table::kItems, key));
        if (--progress.items[item.generations] == 0) progress.items.erase(item.generations);
        std::erase(item.generations, generation);
        ++progress.items[item.generations];
        batch->Put(Table::kItems, key, EncodeItem(item));
      }
      batch->Put(Table::kMeta, keys::Meta(ProgressName(1)), Encode(progress));
    });
    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
  }

  void ExpectSegmentsOf(uint32_t generation) {
    const auto status = engine_->GetCollection("c");
    ASSERT_TRUE(status.ok()) << status.status();
    for (const SegmentInfo& segment : status->segments) EXPECT_EQ(segment.generation, generation);
  }

  std::mt19937 random_{5};
  std::vector<std::vector<float>> rows_;
};

TEST_F(RetireTest, TheOneThatServesAndItemsThatNobodyElseEmbeddedAreKept) {
  EXPECT_TRUE(Fails(engine_->RetireGeneration(CallFor(1)), Code::kFailedPrecondition, {"generation 1", "serves"}));
  EmbedAnew(kItems - 7);
  Activate(2);
  EXPECT_TRUE(Fails(engine_->RetireGeneration(CallFor(1)), Code::kFailedPrecondition,
                    {"7 items", "7 are embedded by nothing else"}));
  EXPECT_EQ(engine_->GetGeneration("c", 1)->state, GenerationState::kRegistered);
  // Refused, so it takes writes as before.
  Write(BatchOf({ItemOf(Id(1'000), rows_[0])}, 1));
  EXPECT_TRUE(Fails(engine_->RetireGeneration(CallFor(0)), Code::kInvalidArgument, {"generation", "0"}));
  EXPECT_TRUE(Fails(engine_->RetireGeneration(CallFor(9)), Code::kNotFound, {"no generation 9"}));
}

TEST_F(RetireTest, AnOldGenerationGivesItsSpaceBackAndSearchesStayAsTheyWere) {
  EmbedAnew(kItems);
  Activate(2);
  ExpectAllServedBy(2, "before");
  Retire(1);
  ExpectAllServedBy(2, "after");
  EXPECT_EQ(engine_->GetGeneration("c", 1)->items, 0u);
  EXPECT_TRUE(Fails(engine_->Search(SearchFor(rows_[0], 3, 1), {}), Code::kFailedPrecondition, {"retired"}));
  EXPECT_TRUE(
      Fails(engine_->Upsert(BatchOf({ItemOf(Id(5), rows_[5])}, 1), {}), Code::kFailedPrecondition, {"retired"}));
  SwitchCall back;
  back.collection = "c";
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(back), Code::kFailedPrecondition, {"no generation to roll back to"}));
  const auto audit = engine_->ListAudit("c", 1);
  EXPECT_TRUE((*audit)[0].retired);
  EXPECT_EQ((*audit)[0].generation, 1u);
  EXPECT_EQ((*audit)[0].reason, "a test");
  ExpectSegmentsOf(2);
  Restart();
  ExpectAllServedBy(2, "after a restart");
  ExpectSegmentsOf(2);
  EditStore([](Store* store, WriteBatch*) {
    const keys::Range range = keys::GenerationRange(1, 1);
    EXPECT_FALSE(store->Scan(Table::kEmbeddings, range.begin, range.end)->Valid());
  });
}

TEST_F(RetireTest, ANewGenerationThatWasRolledBackLeavesTheOldOneAsItWas) {
  EmbedAnew(120);
  Activate(2);
  SwitchCall back;
  back.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  Retire(2);
  ExpectAllServedBy(1, "after");
  // A later generation sees items whose newest embedding is gone by the one before.
  Register(1);
  Activate(3);
  ExpectAllServedBy(1, "by a third generation");
  Restart();
  ExpectAllServedBy(1, "after a restart");
}

TEST_F(RetireTest, ARollbackOverARetiredGenerationLeadsToAnotherOneThanServes) {
  Register(1);
  SwitchCall back;
  back.collection = "c";
  // 1, 2, 1, 2, 1, 3; without 2 that is: 1, 3.
  for (const uint32_t g : {2u, 1u, 2u, 1u}) Activate(g);
  Retire(2);
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(back), Code::kFailedPrecondition, {"none served before 1"}));
  Activate(3);
  const auto first = engine_->RollbackGeneration(back);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->generation.generation, 1u);
  EXPECT_EQ(first->previous_generation, 3u);
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(back), Code::kFailedPrecondition, {"none served before 1"}));
}

TEST_F(RetireTest, TheSameCallAgainIsTheSameJobAndLaterThereIsNothingToDo) {
  EmbedAnew(kItems);
  Activate(2);
  const auto first = engine_->RetireGeneration(CallFor(1, "r1"));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = engine_->RetireGeneration(CallFor(1, "r1"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job, first->job);
  EXPECT_TRUE(Fails(engine_->CancelJob(first->job, ""), Code::kFailedPrecondition, {}));
  WaitFor(first->job);
  const auto later = engine_->RetireGeneration(CallFor(1));
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->job, "");
}

TEST_F(RetireTest, AServerThatEndsInTheMiddleFinishesItByItself) {
  EmbedAnew(kItems);
  Activate(2);
  const auto answer = engine_->RetireGeneration(CallFor(1));
  ASSERT_TRUE(answer.ok()) << answer.status();
  Restart();  // wherever the job is
  const JobStatus job = WaitFor(answer->job);
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
  ExpectAllServedBy(2, "after");
  EXPECT_EQ(engine_->GetGeneration("c", 1)->items, 0u);
}

TEST_F(RetireTest, AdaptersOfARetiredGenerationAreGone) {
  Register(0);  // generation 3
  PutItemAdapter(1, 3);
  EmbedAnew(kItems);
  Activate(2);
  Retire(1);
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
  Restart();
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
}

TEST_F(RetireTest, WhatOnlyItsAdapterReachesIsFoundUntilItHasLeft) {
  Register(0);  // generation 3
  PutItemAdapter(1, 3);
  PutItemAdapter(2, 3);
  EmbedAnew(kItems);
  Activate(3);
  HalfRetire(2, /*swept=*/0);
  EXPECT_EQ(HitsByGeneration(), (std::map<uint32_t, uint64_t>{{2, kItems}}));
  EXPECT_TRUE(Fails(engine_->RetireGeneration(CallFor(1)), Code::kFailedPrecondition,
                    {"300 items", "300 are embedded by nothing else"}));
  Retire(2);
  EXPECT_EQ(HitsByGeneration(), (std::map<uint32_t, uint64_t>{{1, kItems}}));
  EXPECT_EQ(engine_->ListAdapters("c")->size(), 1u);
}

TEST_F(RetireTest, WhatIsWrittenWhileItLeavesIsFoundOnce) {
  Register(2);  // generation 3
  EmbedAnew(kItems);
  Activate(3);
  HalfRetire(2, /*swept=*/200);
  SearchCall call = SearchFor(rows_[0], kItems);
  call.with_vector = true;
  for (const EngineHit& hit : Hits(call)) EXPECT_FALSE(hit.vector.empty()) << ToString(hit.id);
  EmbedAnew(100, 3);
  EXPECT_TRUE(engine_->Delete("c", {Id(uint64_t{150})}, Durability::kProcess, {}).ok());
  EXPECT_EQ(HitsByGeneration(), (std::map<uint32_t, uint64_t>{{2, kItems - 101}, {3, 100}}));
  Restart();
  EXPECT_EQ(HitsByGeneration(), (std::map<uint32_t, uint64_t>{{2, kItems - 101}, {3, 100}}));
  Retire(2);
  EXPECT_EQ(HitsByGeneration(), (std::map<uint32_t, uint64_t>{{1, kItems - 101}, {3, 100}}));
}

TEST_F(RetireTest, WritesWhileItRunsLoseNothing) {
  EmbedAnew(kItems);
  Activate(2);
  std::atomic<bool> end{false};
  std::thread writer([&] {
    std::mt19937 random(3);
    while (!end) {
      const uint64_t id = random() % kItems;
      Write(BatchOf({ItemOf(Id(id), rows_[id])}, 2));
    }
  });
  Retire(1);
  end = true;
  writer.join();
  ExpectAllServedBy(2, "after");
  Restart();
  ExpectAllServedBy(2, "after a restart");
}

}  // namespace
}  // namespace lightcone::server
