// The lazy backfill: which items come first, leases, what a race with new content does, restarts.
#include "backfill_world.h"
#include "geometry/metric.h"
#include "geometry/uncertainty.h"
#include "models/failure_head_file.h"

namespace lightcone::server {
namespace {

// What research/notes/uncertainty.md says, from all pairs of items.
class NaiveOrder {
 public:
  explicit NaiveOrder(const std::vector<std::vector<float>>& rows) : rows_(rows), near_(rows.size()) {
    const Space space{Metric::kLorentz, 4, 1.0, 2.0};
    std::vector<double> nearest;
    for (size_t i = 0; i < rows.size(); ++i) {
      const BoundQuery query = *BoundQuery::Make(space, space, rows[i]);
      for (size_t j = 0; j < rows.size(); ++j) {
        if (j != i) near_[i].emplace_back(query.Distance(rows[j]), j);
      }
      std::sort(near_[i].begin(), near_[i].end());
      near_[i].resize(std::min<size_t>(near_[i].size(), 64));
      nearest.push_back(near_[i][0].first);
    }
    std::sort(nearest.begin(), nearest.end());
    d1_ = nearest[nearest.size() / 2];
  }

  double Entropy(size_t i) const { return NeighbourEntropy(Distances(i), 0.2 * d1_) / std::log(64.0); }

  double Foretold(size_t i, const FailureHeadFile& file) const {
    const auto among = [&](size_t item, size_t wanted) {
      return std::any_of(near_[item].begin(), near_[item].begin() + 4, [&](auto& n) { return n.second == wanted; });
    };
    const ClassEvidence own = EvidenceOf(file.means, rows_[i]);
    double returned = 0, alike = 0;
    for (size_t n = 0; n < 4; ++n) {
      returned += among(near_[i][n].second, i);
      alike += EvidenceOf(file.means, rows_[near_[i][n].second]).nearest == own.nearest;
    }
    const std::vector<double> distances = Distances(i);
    const double score = file.head.Score(HeadFeaturesOf({distances, d1_, NormOf(rows_[i]), own, returned, alike}));
    return 1 / (1 + std::exp(-score));
  }

 private:
  std::vector<double> Distances(size_t i) const {
    std::vector<double> distances;
    for (const auto& [distance, j] : near_[i]) distances.push_back(distance);
    return distances;
  }

  const std::vector<std::vector<float>>& rows_;
  std::vector<std::vector<std::pair<double, size_t>>> near_;
  double d1_ = 0;
};

// A head that listens to every feature.
FailureHeadFile SomeHead(size_t dimension = 4) {
  FailureHeadFile file;
  for (size_t f = 0; f < kHeadFeatures; ++f) {
    file.head.mean[f] = 0.5 + 0.1 * static_cast<double>(f);
    file.head.deviation[f] = 1 + static_cast<double>(f % 3);
  }
  for (size_t t = 0; t < FailureHead::kTerms; ++t) file.head.weights[t] = t % 2 == 0 ? 0.11 : -0.07;
  file.means.dimension = dimension;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t j = 0; j < dimension; ++j) file.means.rows.push_back(j == c ? 1.0f : 0.0f);
  }
  return file;
}

TEST_F(Backfills, AFailureHeadOrdersTheItemsByTheProbabilityThatItForetells) {
  MakeCollection(2);
  const std::vector<std::vector<float>> rows = FillRandomly(300, 1);
  Activate(2);
  const FailureHeadFile head = SomeHead();
  const BackfillStatus status = Start(*EncodeFailureHead(head));
  EXPECT_EQ(status.state, BackfillState::kRunning) << status.error;
  EXPECT_EQ(status.head_generation, 1u);
  const LeaseAnswer answer = Lease(1000);
  ASSERT_EQ(answer.items.size(), rows.size());
  const NaiveOrder naive(rows);
  double before = 1;
  for (const LeasedItem& item : answer.items) {
    EXPECT_NEAR(item.uncertainty, naive.Foretold(std::get<uint64_t>(item.id.value), head), 1e-6);
    EXPECT_LE(item.uncertainty, before);
    before = item.uncertainty;
  }
  EXPECT_GT(answer.items.front().uncertainty - before, 0.1) << "the items differ";
}

TEST_F(Backfills, WithoutAHeadTheEntropyOfTheNeighboursOrdersThem) {
  MakeCollection(2);
  const std::vector<std::vector<float>> rows = FillRandomly(300, 1);
  Activate(2);
  Start();
  const LeaseAnswer answer = Lease(1000);
  ASSERT_EQ(answer.items.size(), rows.size());
  const NaiveOrder naive(rows);
  double before = 1;
  for (const LeasedItem& item : answer.items) {
    EXPECT_NEAR(item.uncertainty, naive.Entropy(std::get<uint64_t>(item.id.value)), 1e-6);
    EXPECT_LE(item.uncertainty, before);
    before = item.uncertainty;
  }
}

TEST_F(Backfills, EveryItemIsLeasedOnceAndAllAreDoneInTheEnd) {
  MakeCollection(2);
  FillRandomly(50, 1);
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kNone);
  Activate(2);
  EXPECT_EQ(Start().items_left, 50u);
  std::map<std::string, int> seen;
  for (LeaseAnswer lease = Lease(7); !lease.items.empty(); lease = Lease(7, kLong, lease.token)) {
    EXPECT_EQ(lease.generation, 2u);
    for (const std::string& name : Names(lease)) ++seen[name];
    EXPECT_EQ(Embed(lease).items, lease.items.size());
  }
  EXPECT_EQ(seen.size(), 50u);
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
  const BackfillStatus status = *engine_->GetBackfill("c");
  EXPECT_EQ(status.state, BackfillState::kDone);
  EXPECT_EQ(status.items_done, 50u);
  EXPECT_EQ(status.items_leased, 0u);
  for (const EngineHit& hit : Hits(SearchFor({1, 1, 0, 0}, 100))) EXPECT_EQ(hit.generation, 2u);
}

TEST_F(Backfills, OldestGenerationsComeFirst) {
  MakeCollection(3);
  Write(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0}), ItemOf(Id("c"), {0, 1, 0, 0})}, 2));
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}, 1));
  Write(BatchOf({ItemOf(Id("b"), {1, 0, 0.1f, 0})}, 3, true));
  Activate(3);
  Start();
  EXPECT_THAT(Names(Lease(10)), ElementsAre("'a'@1", "'c'@2"));
}

TEST_F(Backfills, NewContentAndDeletionsWinAgainstALeasedEmbedding) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0}), ItemOf(Id("c"), {0, 0, 1, 0})}, 1));
  Activate(2);
  Start();
  const LeaseAnswer lease = Lease(10);
  ASSERT_EQ(lease.items.size(), 3u);
  Write(BatchOf({ItemOf(Id("b"), {0, 0, 0, 1})}, 1));
  ASSERT_TRUE(engine_->Delete("c", {Id("c")}, Durability::kProcess, {}).ok());
  const WriteResult written = Embed(lease);
  EXPECT_EQ(written.items, 1u);
  EXPECT_EQ(written.outdated.size(), 2u);
  EXPECT_EQ(engine_->GetBackfill("c")->embedded_total, 1u);
  EXPECT_EQ(Embed(lease).outdated, written.outdated) << "what came through is no race when it is sent again";
  EXPECT_EQ(engine_->GetBackfill("c")->embedded_total, 1u) << "a worker that sends it for ever gets nowhere";
  EXPECT_THAT(HitNames(SearchFor({0, 0, 0, 1}, 10, 2)), ElementsAre("'b'@1", "'a'@2"));
  // The new content of b has never been ordered: that happens when everything else is through.
  EXPECT_THAT(Lease(10, kLong, lease.token).items, IsEmpty());
  EXPECT_EQ(Settled().state, BackfillState::kRunning);
  EXPECT_THAT(Names(Lease(10)), ElementsAre("'b'@1"));
}

TEST_F(Backfills, ALeaseThatEndsGivesItsItemsBack) {
  MakeCollection(2);
  FillRandomly(20, 1);
  Activate(2);
  Start();
  const LeaseAnswer first = Lease(5), second = Lease(5);
  EXPECT_EQ(engine_->GetBackfill("c")->items_leased, 10u);
  EXPECT_THAT(Names(Lease(5, kLong, first.token)), Not(Contains(Names(first)[0]))) << "others come first";
  const LeaseAnswer rest = Lease(100, absl::Milliseconds(1));
  ASSERT_EQ(rest.items.size(), 10u);
  const std::vector<std::string> names = Names(rest);
  EXPECT_EQ(std::vector<std::string>(names.begin() + 5, names.end()), Names(first))
      << "what a worker gave back is last";
  LeaseAnswer again;
  while (again.items.empty()) again = Lease(100);  // until the millisecond is over
  EXPECT_THAT(Names(again), UnorderedElementsAreArray(names));
  EXPECT_EQ(Names(again)[0], Names(first)[0]) << "what expired is in its place of the order";
  EXPECT_NE(Names(again), Names(second));
}
TEST_F(Backfills, WhatWorkersGaveBackTakesTurns) {
  MakeCollection(2);
  FillRandomly(3, 1);
  Activate(2);
  Start();
  std::map<std::string, int> seen;
  LeaseAnswer lease;
  for (int i = 0; i < 9; ++i) {
    lease = Lease(1, kLong, lease.token);
    for (const std::string& name : Names(lease)) ++seen[name];
  }
  EXPECT_EQ(seen.size(), 3u);
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 3) << name;
}

// Others hold some of what cannot be embedded, and one worker gets the rest of it again and again.
TEST_F(Backfills, WhatNobodyCanEmbedHoldsUpNoneOfWhatOlderGenerationsEmbeddedSince) {
  MakeCollection(2);
  FillRandomly(20, 1);
  Activate(2);
  Start();
  const LeaseAnswer held = Lease(5);
  LeaseAnswer lease = Lease(15);
  lease.items.resize(10);
  EXPECT_EQ(Embed(lease).items, 10u);
  lease = Lease(5, kLong, lease.token);
  EXPECT_EQ(lease.items.size(), 5u) << "what could not be embedded";
  Write(BatchOf({ItemOf(Id("new"), {1, 0, 0, 0})}, 1));
  bool reached = false;
  for (int i = 0; i < 10 && !reached; ++i) {
    Settled();
    lease = Lease(5, kLong, lease.token);
    reached = testing::Value(Names(lease), Contains("'new'@1"));
  }
  EXPECT_TRUE(reached);
  Embed(lease);
  for (int i = 0; i < 20; ++i) {
    lease = Lease(5, kLong, lease.token);
    EXPECT_EQ(lease.state, BackfillState::kRunning) << "nothing is left that was not ordered";
  }
}

TEST_F(Backfills, OrderPauseAndProgressSurviveARestart) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start(*EncodeFailureHead(SomeHead()));
  const LeaseAnswer before = Lease(30);
  Embed({before.state,
         before.generation,
         before.token,
         before.expires,
         {before.items.begin(), before.items.begin() + 9}});
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  EXPECT_THAT(Lease(5).items, IsEmpty());
  Restart();
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kPaused);
  EXPECT_EQ(engine_->GetBackfill("c")->items_done, 9u);
  EXPECT_EQ(engine_->GetBackfill("c")->head_generation, 1u);
  EXPECT_EQ(Lease(5).state, BackfillState::kPaused);
  EXPECT_EQ(Start(*EncodeFailureHead(SomeHead())).state, BackfillState::kRunning);
  Restart();  // leases and order, without a pause
  EXPECT_EQ(Settled().state, BackfillState::kRunning);
  EXPECT_EQ(Lease(100).items.size(), 21u);
}

TEST_F(Backfills, AStartWithoutAHeadGoesOnWhereAPauseEndedIt) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start(*EncodeFailureHead(SomeHead()));
  const LeaseAnswer before = Lease(10);
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  const BackfillStatus after = Start();
  EXPECT_EQ(after.state, BackfillState::kRunning);
  EXPECT_EQ(after.head_generation, 1u) << "the head stays";
  EXPECT_EQ(after.items_leased, 10u) << "and so do the leases";
  EXPECT_EQ(Lease(100).items.size(), 20u);
  Restart();
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kRunning) << "the end of the pause is stored";
  EXPECT_EQ(engine_->GetBackfill("c")->head_generation, 1u);
  EXPECT_EQ(Start().head_generation, 0u) << "without a pause a start begins anew";
}

TEST_F(Backfills, APauseThatIsAskedForAgainDoesNotUndoTheStartAfterIt) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start();
  EXPECT_EQ(engine_->PauseBackfill("c", "once")->state, BackfillState::kPaused);
  EXPECT_EQ(Start().state, BackfillState::kRunning);
  EXPECT_EQ(engine_->PauseBackfill("c", "once")->state, BackfillState::kRunning);
  Restart();
  EXPECT_EQ(engine_->PauseBackfill("c", "once")->state, BackfillState::kRunning);
  EXPECT_EQ(engine_->PauseBackfill("c", "twice")->state, BackfillState::kPaused);
}

TEST_F(Backfills, AnOrderingThatARollbackEndedGoesOnWithItsGeneration) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start();
  Activate(1);
  RestartWith([](BackfillRecord* record) { record->ordered = false; });
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kStopped);
  Activate(2);
  EXPECT_EQ(Settled().state, BackfillState::kRunning) << "without a call to the backfill";
  EXPECT_EQ(Lease(100).items.size(), 30u);
}

TEST_F(Backfills, AnOrderingThatAPauseEndedGoesOnWithTheNextStart) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start(*EncodeFailureHead(SomeHead()));
  RestartWith([](BackfillRecord* record) {
    record->ordered = false;
    record->paused = true;
  });
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kPaused) << "a restart begins nothing";
  EXPECT_EQ(Start().state, BackfillState::kRunning);
  EXPECT_EQ(engine_->GetBackfill("c")->head_generation, 1u);
  EXPECT_EQ(Lease(100).items.size(), 30u);
}

TEST_F(Backfills, TokensOfAnotherRunAreNobodys) {
  MakeCollection(2);
  FillRandomly(10, 1);
  Activate(2);
  Start();
  const LeaseAnswer before = Lease(5);
  Restart();
  Settled();
  const LeaseAnswer after = Lease(5);
  EXPECT_NE(before.token, after.token);
  const LeaseAnswer next = Lease(10, kLong, before.token);
  EXPECT_EQ(next.items.size(), 5u) << "and what is leased stays leased";
}

TEST_F(Backfills, ARollbackStopsItAndAStartBelongsToTheActiveGeneration) {
  MakeCollection(3);
  FillRandomly(10, 1);
  Activate(2);
  Start();
  Activate(1);
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kStopped);
  EXPECT_THAT(Lease(5).items, IsEmpty());
  Activate(2);
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kRunning);
  Activate(3);
  EXPECT_EQ(Start().generation, 3u);
  EXPECT_EQ(Lease(5).generation, 3u);
}

TEST_F(Backfills, ANewerGenerationWorksTheGalleryUpBeforeItServes) {
  MakeCollection(3);
  FillRandomly(20, 1);
  StartBackfillCall call;
  call.collection = "c";
  call.generation = 2;
  ASSERT_TRUE(engine_->StartBackfill(call).ok());
  EXPECT_EQ(Settled().state, BackfillState::kRunning);
  EXPECT_TRUE(engine_->GetBackfill("c")->ahead);
  const std::vector<std::string> served = HitNames(SearchFor({1, 1, 0, 0}, 30));
  LeaseAnswer lease = Lease(12);
  EXPECT_EQ(lease.generation, 2u);
  EXPECT_EQ(Embed(lease).items, 12u);
  EXPECT_EQ(HitNames(SearchFor({1, 1, 0, 0}, 30)), served) << "who asks generation 1 sees nothing of it";
  EXPECT_THAT(HitNames(SearchFor({1, 1, 0, 0}, 30, 2)), Contains(::testing::EndsWith("@2")).Times(12));

  Restart();
  EXPECT_EQ(Settled().state, BackfillState::kRunning);
  EXPECT_EQ(engine_->GetBackfill("c")->items_left, 8u);
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  EXPECT_EQ(Start().generation, 2u) << "what is ahead goes on where no generation is named";
  Activate(2);
  EXPECT_FALSE(engine_->GetBackfill("c")->ahead);
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kRunning) << "and goes on once it serves";
  Activate(1);
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kStopped) << "until a rollback";
  EXPECT_THAT(Lease(5).items, IsEmpty());
  ASSERT_TRUE(engine_->StartBackfill(call).ok());
  EXPECT_EQ(Settled().state, BackfillState::kRunning) << "unless it is asked for again";
  Embed(Lease(100));
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kDone);
  Activate(3);
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kStopped) << "a newer one serves";
  EXPECT_TRUE(Fails(engine_->StartBackfill(call), Code::kInvalidArgument, {"'generation' is 2", "0 or 3"}));
  call.generation = 9;
  EXPECT_TRUE(Fails(engine_->StartBackfill(call), Code::kNotFound, {"generation 9"}));
}

TEST(BackfillCounts, WhatANewerGenerationEmbeddedBeforeARollbackIsNotLeft) {
  ProgressRecord progress;
  progress.items = {{{1}, 5}, {{1, 2}, 7}, {{1, 3}, 11}, {{2, 3}, 13}, {{3}, 17}};
  EXPECT_EQ(CountsOf(progress, 2).left, 5u);
  EXPECT_EQ(CountsOf(progress, 2).done, 7u + 13 + 17);
  EXPECT_EQ(CountsOf(progress, 3).left, 12u);
}

TEST_F(Backfills, TheSameRequestStartsOnce) {
  MakeCollection(2);
  FillRandomly(10, 1);
  Activate(2);
  ASSERT_TRUE(engine_->StartBackfill({"one", "c", "", 0}).ok());
  Settled();
  Lease(3);
  ASSERT_TRUE(engine_->StartBackfill({"one", "c", "", 0}).ok());
  EXPECT_EQ(engine_->GetBackfill("c")->items_leased, 3u) << "a start anew would have ended the leases";
  EXPECT_TRUE(
      Fails(engine_->StartBackfill({"one", "c", *EncodeFailureHead(SomeHead()), 0}), Code::kAlreadyExists, {"one"}));
}

TEST_F(Backfills, AHeadIsRefusedForInnerProducts) {
  MakeCollection(2, Metric::kInnerProduct);
  FillRandomly(3, 1);
  Activate(2);
  EXPECT_TRUE(Fails(engine_->StartBackfill({"", "c", *EncodeFailureHead(SomeHead()), 0}), Code::kInvalidArgument,
                    {"failure_head", "inner products"}));
  EXPECT_EQ(Start().state, BackfillState::kRunning);
  EXPECT_EQ(Lease(10).items.size(), 3u);
}

TEST_F(Backfills, WhatIsWrongIsNamed) {
  CreateCollectionCall call;
  call.name = "c";
  ASSERT_TRUE(engine_->CreateCollection(call).ok());
  EXPECT_TRUE(Fails(engine_->StartBackfill({"", "c", "", 0}), Code::kFailedPrecondition, {"no active generation"}));
  EXPECT_TRUE(Fails(engine_->LeaseBackfill({"c", 1, kLong, ""}), Code::kFailedPrecondition, {"'c'", "start one"}));
  EXPECT_TRUE(Fails(engine_->PauseBackfill("c", ""), Code::kNotFound, {"'c'"}));
  Register(0);
  Register(1);
  Activate(1);
  const std::string head = *EncodeFailureHead(SomeHead());
  EXPECT_TRUE(Fails(engine_->StartBackfill({"", "c", head, 0}), Code::kInvalidArgument, {"head_generation"}));
  Activate(2);
  EXPECT_TRUE(Fails(engine_->StartBackfill({"", "c", head, 2}), Code::kInvalidArgument, {"head_generation", "1 .. 1"}));
  EXPECT_TRUE(Fails(engine_->StartBackfill({"", "c", "", 1}), Code::kInvalidArgument, {"head_generation"}));
  EXPECT_TRUE(
      Fails(engine_->StartBackfill({"", "c", head.substr(0, 99), 0}), Code::kInvalidArgument, {"failure_head"}));
  EXPECT_TRUE(Fails(engine_->StartBackfill({"", "c", *EncodeFailureHead(SomeHead(3)), 0}), Code::kInvalidArgument,
                    {"failure_head.dimension", "is 3", "4, of generation 1"}));
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kNone) << "none of them began one";
  Start();
  EXPECT_TRUE(Fails(engine_->LeaseBackfill({"c", 0, kLong, ""}), Code::kInvalidArgument, {"items_max", "1 .. 10000"}));
  EXPECT_TRUE(Fails(engine_->LeaseBackfill({"c", 1, absl::ZeroDuration(), ""}), Code::kInvalidArgument, {"timeout"}));
  EXPECT_TRUE(Fails(engine_->LeaseBackfill({"no", 1, kLong, ""}), Code::kNotFound, {"'no'", "c"}));
}

TEST_F(Backfills, GalleriesOfCopiesAndOfOneItemAreOrderedToo) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}, 1));
  Activate(2);
  EXPECT_EQ(Start(*EncodeFailureHead(SomeHead())).state, BackfillState::kRunning);
  EXPECT_EQ(Lease(10).items.size(), 1u);
  Write(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0}), ItemOf(Id("c"), {1, 0, 0, 0})}, 1));
  EXPECT_EQ(Start(*EncodeFailureHead(SomeHead())).state, BackfillState::kRunning);
  const LeaseAnswer all = Lease(10);
  EXPECT_EQ(all.items.size(), 3u);
  for (const LeasedItem& item : all.items) EXPECT_TRUE(item.uncertainty >= 0 && item.uncertainty <= 1);
}

TEST_F(Backfills, ItemsAreWrittenOnlyAsTheirExpectedSequenceSays) {
  MakeCollection(1);
  const auto write = [&](const char* id, std::optional<uint64_t> expected) {
    std::vector<UpsertItem> items = {ItemOf(Id(id), {1, 0, 0, 0})};
    items[0].expected_sequence = expected;
    return *engine_->Upsert(BatchOf(std::move(items)), {});
  };
  EXPECT_EQ(write("a", 0).items, 1u) << "0: there is no such item yet";
  EXPECT_THAT(write("a", 0).outdated, ElementsAre(0u));
  EXPECT_THAT(write("b", 7).outdated, ElementsAre(0u));
  EXPECT_EQ(write("a", engine_->Get("c", {Id("a")}, 0, false, {})->items[0].sequence).items, 1u);
  EXPECT_EQ(write("a", std::nullopt).items, 1u);
}

}  // namespace
}  // namespace lightcone::server
