// Canaries and drafts: who serves which search, what both sides are told apart by, and how it ends.
#include "server/engine/rollout/canary.h"

#include <cmath>
#include <set>

#include "tests/engine/engine_testing.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class CanaryTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    MakeCollection(2);
    Write(BatchOf({ItemOf(Id(1), {1, 0, 0, 0}), ItemOf(Id(2), {0, 1, 0, 0})}));
  }
  absl::StatusOr<CanaryStatus> Set(uint32_t generation, double share) {
    SetCanaryCall call;
    call.collection = "c";
    call.generation = generation;
    call.share = share;
    return engine_->SetCanary(call);
  }
  // By a vector of each generation.
  SearchAnswer Ask(const std::string& key) {
    SearchCall call = SearchFor({1, 0, 0, 0}, 1);
    call.queries[0].canary_vector = {0, 1, 0, 0};
    call.canary_key = key;
    const auto answer = engine_->Search(call, {});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : SearchAnswer{};
  }
  std::set<int> KeysOfTheCanary(int keys) {
    std::set<int> chosen;
    for (int i = 0; i < keys; ++i) {
      if (Ask(StrCat("user-", i)).canary) chosen.insert(i);
    }
    return chosen;
  }
};

TEST_F(CanaryTest, AKeyIsAlwaysServedByTheSameSideAndAGrowingShareKeepsItsKeys) {
  ASSERT_TRUE(Set(2, 0.2).ok());
  const std::set<int> fifth = KeysOfTheCanary(500);
  EXPECT_NEAR(static_cast<double>(fifth.size()), 100, 40);
  EXPECT_EQ(KeysOfTheCanary(500), fifth);
  ASSERT_TRUE(Set(2, 0.5).ok());
  const std::set<int> half = KeysOfTheCanary(500);
  EXPECT_TRUE(std::includes(half.begin(), half.end(), fifth.begin(), fifth.end()));
  EXPECT_NEAR(static_cast<double>(half.size()), 250, 60);
  Restart();
  EXPECT_EQ(KeysOfTheCanary(500), half) << "a restart changes nothing";
  ASSERT_TRUE(Set(2, 1).ok());
  EXPECT_EQ(KeysOfTheCanary(100).size(), 100u);
  int same = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::string key = StrCat("key ", i);
    EXPECT_FALSE(CanaryHas(key, 1, 2, 0));
    EXPECT_TRUE(CanaryHas(key, 1, 2, 1));
    for (const double share : {0.1, 0.5, 0.9}) EXPECT_LE(CanaryHas(key, 1, 2, share / 2), CanaryHas(key, 1, 2, share));
    same += CanaryHas(key, 1, 2, 0.5) == CanaryHas(key, 1, 3, 0.5);
  }
  EXPECT_NEAR(same, 500, 80) << "another canary tries other users";
}

TEST_F(CanaryTest, EachSideAnswersByItsOwnVectorAndGeneration) {
  ASSERT_TRUE(Set(2, 0.5).ok());
  int canary = 0;
  for (int i = 0; i < 50; ++i) {
    const SearchAnswer answer = Ask(StrCat(i));
    ASSERT_EQ(answer.results[0].hits.size(), 1u);
    EXPECT_EQ(answer.serving_generation, answer.canary ? 2u : 1u);
    EXPECT_EQ(answer.results[0].hits[0].id, Id(answer.canary ? 2 : 1));
    canary += answer.canary;
  }
  const auto status = engine_->GetCanary("c");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->generation, 2u);
  EXPECT_EQ(status->canary.searches, static_cast<uint64_t>(canary));
  EXPECT_EQ(status->active.searches, static_cast<uint64_t>(50 - canary));
  EXPECT_EQ(status->canary.failures + status->active.failures + status->unroutable, 0u);
  EXPECT_GT(status->canary.p99_ms, 0);
  EXPECT_LE(status->canary.p50_ms, status->canary.p99_ms);
  EXPECT_NEAR(status->canary.nearest_distance, 0, 1e-6);
  // A search without a key, and one that names its generation, are not the canary's business.
  EXPECT_FALSE(engine_->Search(SearchFor({1, 0, 0, 0}), {})->canary);
  EXPECT_EQ(engine_->GetCanary("c")->active.searches, static_cast<uint64_t>(50 - canary));
}

TEST_F(CanaryTest, AVectorOfTheActiveGenerationAloneStaysWithItAndIsCounted) {
  ASSERT_TRUE(Set(2, 1).ok());
  SearchCall call = SearchFor({1, 0, 0, 0}, 1);
  call.canary_key = "somebody";
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->canary);
  EXPECT_EQ(answer->serving_generation, 1u);
  EXPECT_EQ(engine_->GetCanary("c")->unroutable, 1u);
  // A stored item has a vector by whoever embedded it.
  call.queries[0].content = QueryByItem{Id(1)};
  EXPECT_TRUE(engine_->Search(call, {})->canary);
  // Raw input: this generation has no encoder.
  call.queries[0].content = RawInput(std::string("a picture"));
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition, {"generation 1", "no encoder"}));
  EXPECT_EQ(engine_->GetCanary("c")->unroutable, 2u);
  EXPECT_EQ(engine_->GetCanary("c")->active.failures, 1u);
  // A query that is wrong for the canary is the canary's failure.
  call = SearchFor({1, 0, 0, 0}, 1);
  call.canary_key = "somebody";
  call.queries[0].canary_vector = {1, 0};
  const auto wrong = engine_->Search(call, {});
  ASSERT_TRUE(wrong.ok());
  EXPECT_TRUE(Fails(wrong->results[0].status, Code::kInvalidArgument, {"queries[0].canary_vector", "2"}));
  EXPECT_EQ(engine_->GetCanary("c")->canary.failures, 1u);
}

TEST_F(CanaryTest, AnActivationAndARollbackEndItAndARetirementIsRefused) {
  RetireCall retire;
  retire.collection = "c";
  retire.generation = 2;
  ASSERT_TRUE(Set(2, 0.5).ok());
  EXPECT_TRUE(Fails(engine_->RetireGeneration(retire), Code::kFailedPrecondition, {"generation 2", "canary"}));
  Activate(2);
  EXPECT_EQ(engine_->GetCanary("c")->generation, 0u);
  ASSERT_TRUE(Set(1, 0.25).ok()) << "an older one may be a canary, too";
  SwitchCall rollback;
  rollback.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(rollback).ok());
  EXPECT_EQ(engine_->GetCanary("c")->generation, 0u);
  ASSERT_TRUE(Set(2, 0.5).ok());
  ASSERT_TRUE(Set(0, 0).ok());
  EXPECT_EQ(engine_->GetCanary("c")->generation, 0u);
  EXPECT_TRUE(Set(0, 0).ok()) << "again: nothing to do";
  const auto audit = engine_->ListAudit("c", 3);
  ASSERT_TRUE(audit.ok());
  EXPECT_EQ((*audit)[0].canary_share, 0.0);
  EXPECT_EQ((*audit)[0].generation, 2u);
  EXPECT_EQ((*audit)[1].canary_share, 0.5);
  EXPECT_EQ((*audit)[1].previous_generation, 1u);
  EXPECT_FALSE((*audit)[2].canary_share.has_value());
  // Canaries in the log are no way back: generation 1 served before nothing that is still there.
  EXPECT_EQ(engine_->GetCollection("c")->active_generation, 1u);
  EXPECT_TRUE(
      Fails(engine_->RollbackGeneration(rollback), Code::kFailedPrecondition, {"no generation to roll back to"}));
}

TEST_F(CanaryTest, TheGateOfActivationsStandsBeforeItToo) {
  PutProbesCall probes;
  probes.collection = "c";
  probes.name = "daily";
  probes.probes.resize(1);
  probes.probes[0].vectors = {{1, {1, 0, 0, 0}}, {2, {1, 0, 0, 0}}};
  probes.probes[0].relevant = {Id(1)};
  ASSERT_TRUE(engine_->PutProbes(probes).ok());
  EXPECT_TRUE(
      Fails(Set(2, 0.5), Code::kFailedPrecondition, {"generation 2", "has not been validated", "make a canary of"}));
  SetCanaryCall call;
  call.collection = "c";
  call.generation = 2;
  call.share = 0.5;
  call.force = true;
  EXPECT_TRUE(Fails(engine_->SetCanary(call), Code::kInvalidArgument, {"reason"}));
  call.reason = "a test";
  call.request_id = "once";
  ASSERT_TRUE(engine_->SetCanary(call).ok());
  ASSERT_TRUE(engine_->SetCanary(call).ok()) << "the same request again";
  EXPECT_EQ(engine_->ListAudit("c", 0)->size(), 2u);
  EXPECT_TRUE((*engine_->ListAudit("c", 1))[0].forced);
  call.share = 0.6;
  EXPECT_TRUE(Fails(engine_->SetCanary(call), Code::kAlreadyExists, {"once"}));
}

TEST_F(CanaryTest, WhatMakesNoSenseIsRefused) {
  for (const double share : {0.0, -0.1, 1.5, std::nan("")}) {
    EXPECT_TRUE(Fails(Set(2, share), Code::kInvalidArgument, {"share", "above 0 .. 1"}));
  }
  EXPECT_TRUE(Fails(Set(0, 0.5), Code::kInvalidArgument, {"share", "0 where generation is 0"}));
  EXPECT_TRUE(Fails(Set(1, 0.5), Code::kInvalidArgument, {"generation", "another one than the active generation"}));
  EXPECT_TRUE(Fails(Set(9, 0.5), Code::kNotFound, {"no generation 9"}));
  EXPECT_TRUE(Fails(engine_->GetCanary("nobody"), Code::kNotFound, {"nobody"}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.canary_key = std::string(257, 'k');
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"canary_key", "257", "256"}));
  call.canary_key = "\xff";
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"canary_key", "UTF-8"}));
  call.canary_key = "me";
  call.generation = 2;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"canary_key", "generation is 2"}));
}

class DraftTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    MakeCollection(1);
    Write(BatchOf({ItemOf(Id(1), {1, 0, 0, 0})}));
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ManifestFor(kDimension);
    call.parent = 1;
    call.as_draft = true;
    ASSERT_EQ(engine_->RegisterGeneration(call)->state, GenerationState::kDraft);
  }
  static RegisterCall TakeUp(uint32_t draft) {
    RegisterCall call;
    call.collection = "c";
    call.draft = draft;
    return call;
  }
};

TEST_F(DraftTest, NothingEmbedsSearchesOrServesByADraftUntilItIsTakenUp) {
  const auto is_draft = [](const absl::Status& status) {
    return Fails(status, Code::kFailedPrecondition, {"generation 2", "is a draft"});
  };
  ActivateCall activate;
  activate.collection = "c";
  activate.generation = 2;
  for (int start = 0; start < 2; ++start) {
    EXPECT_TRUE(is_draft(engine_->Search(SearchFor({1, 0, 0, 0}, 1, 2), {}).status()));
    EXPECT_TRUE(is_draft(engine_->Upsert(BatchOf({ItemOf(Id(2), {1, 0, 0, 0})}, 2), {}).status()));
    EXPECT_TRUE(is_draft(engine_->ActivateGeneration(activate).status()));
    EXPECT_TRUE(is_draft(engine_->SetCanary({"", "c", 2, 0.5, false, ""}).status()));
    EXPECT_TRUE(is_draft(engine_->SampleItems({"c", 2, 10, 1}, {}).status()));
    EXPECT_TRUE(is_draft(engine_->Get("c", {Id(1)}, 2, false, {}).status()));
    ValidateCall validate;
    validate.collection = "c";
    validate.generation = 2;
    EXPECT_TRUE(is_draft(engine_->ValidateGeneration(validate).status()));
    RegisterCall child;
    child.collection = "c";
    child.manifest_json = ManifestFor(kDimension);
    child.parent = 2;
    EXPECT_TRUE(Fails(engine_->RegisterGeneration(child), Code::kFailedPrecondition, {"parent", "no draft"}));
    EXPECT_EQ(engine_->GetGeneration("c", 2)->state, GenerationState::kDraft);
    Restart();
  }
  RegisterCall call = TakeUp(2);
  call.request_id = "take";
  const auto taken = engine_->RegisterGeneration(call);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->state, GenerationState::kRegistered);
  EXPECT_EQ(engine_->RegisterGeneration(call)->generation, 2u) << "the same request again";
  EXPECT_TRUE(
      Fails(engine_->RegisterGeneration(TakeUp(2)), Code::kFailedPrecondition, {"generation 2", "is no draft"}));
  EXPECT_TRUE(engine_->ActivateGeneration(activate).ok());
  Restart();
  EXPECT_EQ(engine_->GetGeneration("c", 2)->state, GenerationState::kActive);
}

TEST_F(DraftTest, ADraftIsThrownAwayByRetiringAndNeverNamedWithOtherThings) {
  RegisterCall call = TakeUp(2);
  call.manifest_json = ManifestFor(kDimension);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"draft", "nothing beside it"}));
  EXPECT_TRUE(
      Fails(engine_->RegisterGeneration(TakeUp(1)), Code::kFailedPrecondition, {"generation 1", "is no draft"}));
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(TakeUp(7)), Code::kNotFound, {"no generation 7"}));
  RetireCall retire;
  retire.collection = "c";
  retire.generation = 2;
  ASSERT_TRUE(engine_->RetireGeneration(retire).ok());
  EXPECT_EQ(engine_->GetGeneration("c", 2)->state, GenerationState::kRetired);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(TakeUp(2)), Code::kFailedPrecondition, {"is retired"}));
}

}  // namespace
}  // namespace lightcone::server
