// Generations side by side: views, reach, activation.
#include <atomic>
#include <thread>

#include "engine_testing.h"
#include "server/engine/collection/meta.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::ElementsAre;

class Generations : public EngineTest {};

TEST_F(Generations, ANewModelSearchesTheOldGalleryAtOnce) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("old"), {1, 0, 0, 0})}));
  Activate(2);
  const auto answer = engine_->Search(SearchFor({1, 0, 0, 0}), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->serving_generation, 2u);
  EXPECT_EQ(answer->out_of_reach, 0u);
  ASSERT_EQ(answer->results[0].hits.size(), 1u);
  EXPECT_EQ(answer->results[0].hits[0].generation, 1u);
  EXPECT_EQ(answer->results[0].hits[0].distance, 0.0);
}

TEST_F(Generations, EachViewServesTheNewestEmbeddingAtOrBelowIt) {
  MakeCollection(3);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0})}, 1));
  Write(BatchOf({ItemOf(Id("a"), {0.9f, 0, 0, 0})}, 2, /*same_content=*/true));
  Write(BatchOf({ItemOf(Id("a"), {0.8f, 0, 0, 0})}, 3, /*same_content=*/true));
  Write(BatchOf({ItemOf(Id("n"), {1, 1, 0, 0})}, 3));
  EXPECT_THAT(HitNames(SearchFor({1, 0, 0, 0}, 10, 1)), ElementsAre("'a'@1", "'b'@1"));
  EXPECT_THAT(HitNames(SearchFor({1, 0, 0, 0}, 10, 2)), ElementsAre("'a'@2", "'b'@1"));
  EXPECT_THAT(HitNames(SearchFor({0.8f, 0, 0, 0}, 10, 3)), ElementsAre("'a'@3", "'n'@3", "'b'@1"));
  // What only a newer generation embedded is there, but out of reach of the older view.
  EXPECT_EQ(engine_->Search(SearchFor({1, 0, 0, 0}, 10, 1), {})->out_of_reach, 1u);
  const auto got = engine_->Get("c", {Id("a")}, 0, true, {});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->items[0].generation, 1u);
  EXPECT_THAT(got->items[0].generations, ElementsAre(1, 2, 3));
  EXPECT_THAT(engine_->Get("c", {Id("a")}, 2, true, {})->items[0].vector, ElementsAre(0.9f, 0, 0, 0));
  EXPECT_EQ(engine_->Get("c", {Id("b")}, 2, true, {})->missing.size(), 1u);
}

TEST_F(Generations, NewContentIsServedByNoOlderView) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}, 1));
  Write(BatchOf({ItemOf(Id("a"), {0, 1, 0, 0}, R"({"v":2})")}, 2));
  Write(BatchOf({ItemOf(Id("z"), {0, 0, 1, 0})}, 1));
  EXPECT_THAT(HitNames(SearchFor({1, 0, 0, 0}, 10, 1)), ElementsAre("'z'@1"));
  EXPECT_EQ(engine_->Search(SearchFor({1, 0, 0, 0}, 10, 1), {})->out_of_reach, 1u);
  EXPECT_THAT(HitNames(SearchFor({0, 1, 0, 0}, 10, 2)), ElementsAre("'a'@2", "'z'@1"));
}

TEST_F(Generations, SameContentNeedsTheItemAndANewerGeneration) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}, R"({"kept":true})")}, 2));
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id("q"), {1, 0, 0, 0})}, 2, true), {}), Code::kNotFound,
                    {"items[0]", "'q'"}));
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}, 1, true), {}), Code::kFailedPrecondition,
                    {"items[0]", "'a'", "generation 2"}));
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id("a"), {0, 1, 0, 0})}, 2, true), {}), Code::kFailedPrecondition,
                    {"another embedding"}));
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}, "{}")}, 2, true), {}),
                    Code::kInvalidArgument, {"items[0].payload_json", "same_content"}));
  // The same embedding again is a retry: nothing happens, and it succeeds.
  const auto again = engine_->Upsert(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}, 2, true), {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sequence, 1u);
  EXPECT_EQ(engine_->Get("c", {Id("a")}, 0, false, {})->items[0].payload_json, R"({"kept":true})");
}

TEST_F(Generations, QueriesOutOfReachAreRefusedAndNameBothGenerations) {
  MakeCollection(1);
  Register(0);  // generation 2 knows nothing of 1
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0})}, 1));
  EXPECT_TRUE(Fails(engine_->Search(SearchFor({1, 0, 0, 0}, 10, 2), {}), Code::kFailedPrecondition,
                    {"generation 2", "generation 1", "out of reach"}));
  // As soon as some items are in reach, the others are counted.
  Write(BatchOf({ItemOf(Id("n"), {1, 0, 0, 0})}, 2));
  const auto answer = engine_->Search(SearchFor({1, 0, 0, 0}, 10, 2), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->out_of_reach, 2u);
  EXPECT_EQ(answer->results[0].hits.size(), 1u);
  // For evaluation the reach can be overridden, and the answer says so.
  SearchCall call = SearchFor({1, 0, 0, 0}, 10, 2);
  call.evaluate_generations = {1};
  const auto overridden = engine_->Search(call, {});
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_TRUE(overridden->reach_overridden);
  EXPECT_EQ(overridden->results[0].hits.size(), 2u);
  call.evaluate_generations = {7};
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kNotFound, {"evaluate_generations[0]", "7"}));
}

TEST_F(Generations, ReachFollowsTheLineOfParents) {
  MakeCollection(3);
  Register(0);
  Register(4);
  const auto list = engine_->ListGenerations("c");
  ASSERT_TRUE(list.ok());
  EXPECT_THAT((*list)[2].reach, ElementsAre(1, 2, 3));
  EXPECT_THAT((*list)[3].reach, ElementsAre(4));
  EXPECT_THAT((*list)[4].reach, ElementsAre(4, 5));
}

TEST_F(Generations, AnItemAsksForItsLikeAndIsLeftOut) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0.9f, 0, 0, 0})}, 1));
  Write(BatchOf({ItemOf(Id("n"), {0.8f, 0, 0, 0})}, 2));
  SearchCall call = SearchFor({}, 2, 2);
  call.queries[0].content = QueryByItem{Id("a")};
  EXPECT_THAT(HitNames(call), ElementsAre("'b'@1", "'n'@2"));
}

TEST_F(Generations, ActivationCountsWhatIsOutOfReachAndNeedsForce) {
  MakeCollection(1);
  Register(0);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0})}, 1));
  ActivateCall call;
  call.collection = "c";
  call.generation = 2;
  EXPECT_TRUE(
      Fails(engine_->ActivateGeneration(call), Code::kFailedPrecondition, {"generation 2", "2 items", "force"}));
  call.force = true;
  EXPECT_TRUE(Fails(engine_->ActivateGeneration(call), Code::kInvalidArgument, {"reason", "empty"}));
  call.reason = "we re-embed tonight";
  call.operator_name = std::string(129, 'a');
  EXPECT_TRUE(Fails(engine_->ActivateGeneration(call), Code::kInvalidArgument, {"operator_name", "128"}));
  call.operator_name = "ann@desk";
  call.request_id = "r1";
  const auto answer = engine_->ActivateGeneration(call);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->previous_generation, 1u);
  EXPECT_EQ(answer->out_of_reach, 2u);
  EXPECT_EQ(answer->generation.state, GenerationState::kActive);
  EXPECT_TRUE(answer->generation.activated.has_value());
  const auto again = engine_->ActivateGeneration(call);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->previous_generation, 1u) << "the same call again gives the first answer";
  EXPECT_EQ(engine_->ListAudit("c", 1)->at(0).operator_name, "ann@desk");
  call.generation = 1;
  EXPECT_TRUE(Fails(engine_->ActivateGeneration(call), Code::kAlreadyExists, {"request_id", "r1"}));
  EXPECT_EQ(engine_->GetCollection("c")->active_generation, 2u);
}

TEST_F(Generations, OfTwoRacingActivationsExactlyOneWins) {
  MakeCollection(3);
  for (int round = 0; round < 20; ++round) {
    const uint32_t before = engine_->GetCollection("c")->active_generation;
    std::atomic<int> won{0}, aborted{0};
    const auto race = [&](uint32_t generation) {
      ActivateCall call;
      call.collection = "c";
      call.generation = generation;
      call.expect_active = before;
      call.operator_name = StrCat("operator ", generation);
      const auto answer = engine_->ActivateGeneration(call);
      if (answer.ok()) ++won;
      const uint32_t other = generation == before % 3 + 1 ? (before + 1) % 3 + 1 : before % 3 + 1;
      if (Fails(answer, Code::kAborted,
                {StrCat("field 'expect_active' is ", before, ", but the active generation is ", other),
                 StrCat(", by operator ", other, ")")}))
        ++aborted;
    };
    std::thread a(race, before % 3 + 1), b(race, (before + 1) % 3 + 1);
    a.join();
    b.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(aborted, 1);
  }
}

SwitchCall Back(const std::string& request_id = "") {
  SwitchCall call;
  call.collection = "c";
  call.request_id = request_id;
  return call;
}

TEST_F(Generations, RollbacksGoBackTheWayThatActivationsCame) {
  MakeCollection(3);
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(Back()), Code::kFailedPrecondition,
                    {"no generation to roll back to", "none served before 1"}));
  Activate(2);
  Activate(2);  // again: no step of its own
  Activate(3);
  Activate(1);
  const auto first = engine_->RollbackGeneration(Back("r1"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->generation.generation, 3u);
  EXPECT_EQ(first->previous_generation, 1u);
  EXPECT_EQ(first->generation.state, GenerationState::kActive);
  const auto again = engine_->RollbackGeneration(Back("r1"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->generation.generation, 3u) << "the same call again goes no further";
  Restart();
  EXPECT_EQ(engine_->RollbackGeneration(Back("r2"))->generation.generation, 2u);
  EXPECT_EQ(engine_->RollbackGeneration(Back())->generation.generation, 1u);
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(Back()), Code::kFailedPrecondition, {"none served before 1"}));
  EXPECT_EQ(engine_->GetCollection("c")->active_generation, 1u);
  Activate(3);
  EXPECT_EQ(engine_->RollbackGeneration(Back())->generation.generation, 1u);
}

TEST_F(Generations, OperatorsGoOnWithARecordThatAnOlderServerWrote) {
  MakeCollection(1);
  RegisterCall draft;
  draft.collection = "c";
  draft.manifest_json = ManifestFor(kDimension);
  draft.as_draft = true;
  ASSERT_TRUE(engine_->RegisterGeneration(draft).ok());
  // As it was before rows had codes and lists.
  constexpr char kOlder[] =
      R"({"active_generation":1,"aliases":[],"created_us":1700000000000000,"curvature":1.0,"format":1,"index":)"
      R"({"build_threads":1,"growing_rows_max":8192,"hnsw_ef_construction":200,"hnsw_ef_search":100,"hnsw_m":16,)"
      R"("kind":"flat","merge_rows_max":1000000,"tombstones_share_max":0.2},"last_generation":2,"metric":"lorentz",)"
      R"("name":"c"})";
  EditStore([&](Store*, WriteBatch* batch) { batch->Put(Table::kCollections, keys::Collection(1), kOlder); });
  Restart();
  RegisterCall take_up;  // changes a generation, and not the collection's record
  take_up.collection = "c";
  take_up.draft = 2;
  const auto taken = engine_->RegisterGeneration(take_up);
  ASSERT_TRUE(taken.ok()) << taken.status();
  Activate(2);
  Register(2);
  EXPECT_TRUE(engine_->SetAlias("a", "c", "").ok());
  Restart();
  EXPECT_TRUE(engine_->SetAlias("a", "", "").ok());
}

TEST_F(Generations, ARecordOfAnOlderServerHasItsWayBackInTheAuditLog) {
  MakeCollection(3);
  Activate(2);
  Activate(3);
  Activate(2);
  ASSERT_TRUE(engine_->RollbackGeneration(Back()).ok());  // to 3
  EditStore([](Store* store, WriteBatch* batch) {
    const auto rows = store->Scan(Table::kCollections, keys::Collection(1), keys::Collection(2));
    ASSERT_TRUE(rows->Valid());
    CollectionRecord record = *DecodeCollection(rows->value());
    ASSERT_EQ(record.earlier_active.size(), 2u);
    record.earlier_active.clear();
    batch->Put(Table::kCollections, std::string(rows->key()), Encode(record));
  });
  Restart();
  EXPECT_EQ(engine_->RollbackGeneration(Back())->generation.generation, 2u);
  EXPECT_EQ(engine_->RollbackGeneration(Back())->generation.generation, 1u);
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(Back()), Code::kFailedPrecondition, {"none served before 1"}));
}

TEST_F(Generations, ARollbackCountsWhatIsOutOfReachAndNamesTheFieldsAtFault) {
  MakeCollection(1);
  Register(0);
  Activate(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}, 2));
  SwitchCall call = Back();
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(call), Code::kFailedPrecondition,
                    {"generation 1 cannot reach 1 items", "roll back"}));
  call.expect_active = 1;
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(call), Code::kAborted,
                    {"field 'expect_active' is 1, but the active generation is 2 (since 20"}));
  call.expect_active = 2;
  call.force = true;
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(call), Code::kInvalidArgument, {"reason", "empty"}));
  call.reason = std::string(5000, 'x');
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(call), Code::kInvalidArgument, {"reason", "4096"}));
  call.reason = "searches got worse";
  const auto answer = engine_->RollbackGeneration(call);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->out_of_reach, 1u);
  call.collection = "other";
  EXPECT_TRUE(Fails(engine_->RollbackGeneration(call), Code::kNotFound, {"other"}));
}

TEST_F(Generations, TheAuditLogKeepsTheOrderOfEventsWhenTheClockWasAhead) {
  MakeCollection(2);
  Activate(2);
  constexpr int64_t kAheadUs = int64_t{400} * 24 * 3600 * 1'000'000;
  EditStore([](Store* store, WriteBatch* batch) {
    std::string last_key, last_value;
    const auto rows = store->Scan(Table::kMeta, keys::Meta(kAuditPrefix), keys::Meta(kAuditEnd));
    for (; rows->Valid(); rows->Next()) {
      last_key = std::string(rows->key());
      last_value = std::string(rows->value());
    }
    auto record = DecodeAudit(last_value);
    ASSERT_TRUE(record.ok()) << record.status();
    const auto at = ParseAuditKey(last_key);
    ASSERT_TRUE(at.has_value()) << last_key;
    record->time_us += kAheadUs;
    batch->Delete(Table::kMeta, last_key);
    batch->Put(Table::kMeta, keys::Meta(AuditName(at->first + kAheadUs, at->second)), Encode(*record));
  });
  engine_ = OpenEngine(folder_.path());
  ASSERT_TRUE(engine_->RollbackGeneration(Back("r1")).ok());
  Activate(2);
  const auto log = engine_->ListAudit("c", 0);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ(log->size(), 4u);
  EXPECT_FALSE((*log)[0].rollback);
  EXPECT_EQ((*log)[0].generation, 2u);
  EXPECT_TRUE((*log)[1].rollback);
  EXPECT_EQ((*log)[1].generation, 1u);
  EXPECT_EQ((*log)[2].generation, 2u);
  EXPECT_GT((*log)[2].time, (*log)[0].time) << "times stay those of the clock";
  EXPECT_EQ((*log)[3].generation, 1u);
}

TEST_F(Generations, TheAuditLogSaysWhatServedWhenAndWhyNewestFirst) {
  MakeCollection(2);
  Activate(2);
  SwitchCall call = Back("r1");
  call.reason = "a bad day";
  ASSERT_TRUE(engine_->RollbackGeneration(call).ok());
  Restart();
  const auto log = engine_->ListAudit("c", 0);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ(log->size(), 3u);
  EXPECT_TRUE((*log)[0].rollback);
  EXPECT_EQ((*log)[0].generation, 1u);
  EXPECT_EQ((*log)[0].previous_generation, 2u);
  EXPECT_EQ((*log)[0].reason, "a bad day");
  EXPECT_EQ((*log)[0].request_id, "r1");
  EXPECT_FALSE((*log)[1].rollback);
  EXPECT_EQ((*log)[1].generation, 2u);
  EXPECT_EQ((*log)[2].previous_generation, 0u);
  EXPECT_GE((*log)[0].time, (*log)[1].time);
  EXPECT_EQ(engine_->ListAudit("c", 1)->size(), 1u);
  EXPECT_TRUE(Fails(engine_->ListAudit("c", 10'001), Code::kInvalidArgument, {"limit", "10001", "0 .. 10000"}));
  EXPECT_TRUE(Fails(engine_->ListAudit("none", 1), Code::kNotFound, {"none"}));
}

TEST_F(Generations, OfTwoRacingRollbacksExactlyOneWins) {
  MakeCollection(3);
  for (int round = 0; round < 10; ++round) {
    Activate(2);
    Activate(3);
    std::atomic<int> won{0}, aborted{0};
    const auto race = [&] {
      SwitchCall call = Back();
      call.expect_active = 3;
      const auto answer = engine_->RollbackGeneration(call);
      if (answer.ok()) ++won;
      if (Fails(answer, Code::kAborted, {"expect_active"})) ++aborted;
    };
    std::thread a(race), b(race);
    a.join();
    b.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(aborted, 1);
    EXPECT_EQ(engine_->GetCollection("c")->active_generation, 2u);
  }
}

TEST_F(Generations, ARollbackIsAnotherViewOfTheSameRows) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0})}, 1));
  const auto before = HitNames(SearchFor({1, 0, 0, 0}));
  Activate(2);
  Write(BatchOf({ItemOf(Id("b"), {0.2f, 1, 0, 0})}, 2, /*same_content=*/true));
  EXPECT_THAT(HitNames(SearchFor({1, 0, 0, 0})), ElementsAre("'a'@1", "'b'@2"));
  Activate(1);
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0})), before);
  const auto status = engine_->GetCollection("c");
  EXPECT_THAT(status->items_by_generation, ElementsAre(std::pair<uint32_t, uint64_t>(1, 2)));
  Restart();
  EXPECT_EQ(HitNames(SearchFor({1, 0, 0, 0})), before);
  EXPECT_THAT(HitNames(SearchFor({1, 0, 0, 0}, 10, 2)), ElementsAre("'a'@1", "'b'@2"));
}

TEST_F(Generations, ACollectionCanDemandThatUpsertsNameTheirGeneration) {
  MakeCollection(2);
  Activate(2, /*force=*/true);
  UpdateCollectionCall update;
  update.collection = "c";
  EXPECT_TRUE(Fails(engine_->UpdateCollection(update), Code::kInvalidArgument, {"require_generation", "not set"}));
  const auto upsert = [&](uint32_t generation) {
    return engine_->Upsert(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0})}, generation), {});
  };
  EXPECT_FALSE(engine_->GetCollection("c")->require_generation);
  EXPECT_EQ(upsert(0)->generation, 2u);
  update.require_generation = true;
  EXPECT_TRUE(engine_->UpdateCollection(update)->require_generation);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Fails(upsert(0), Code::kInvalidArgument, {"field 'generation'", "require_generation", "1", "2"}));
    EXPECT_EQ(upsert(1)->generation, 1u);
    Restart();
  }
  EXPECT_TRUE(engine_->GetCollection("c")->require_generation);
  update.require_generation = false;
  ASSERT_TRUE(engine_->UpdateCollection(update).ok());
  EXPECT_TRUE(upsert(0).ok());
}

TEST_F(Generations, AnUpdateUnderARequestIdTakesPlaceOnce) {
  MakeCollection();
  UpdateCollectionCall update{"r", "c", true};
  ASSERT_TRUE(engine_->UpdateCollection(update)->require_generation);
  ASSERT_TRUE(engine_->UpdateCollection({"s", "c", false}).ok());
  EXPECT_FALSE(engine_->UpdateCollection(update)->require_generation) << "the first answer's request took place before";
  update.require_generation = false;
  EXPECT_TRUE(Fails(engine_->UpdateCollection(update), Code::kAlreadyExists, {"r"}));
}

}  // namespace
}  // namespace lightcone::server
