// Searches with `refresh_top`: older candidates are embedded before they are ranked, and stay so.
#include <condition_variable>

#include "tests/engine/endpoint_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// 40 texts that generation 1 embedded; generation 2, which is active, embeds them with another prefix.
class RefreshTest : public EndpointTest {
 protected:
  static constexpr int kTexts = 40;

  void SetUp() override {
    EndpointTest::SetUp();
    Fill(/*keep=*/true);
  }
  void Fill(bool keep) {
    AddAndActivate();
    std::vector<std::string> texts;
    for (int i = 0; i < kTexts; ++i) texts.push_back(TextOf(i));
    Write(Texts(texts, keep));
    AddAndActivate({{"document_prefix", "new: "}, {"batch_size", 64}});
  }
  void Reopen(const std::function<void(EngineOptions*)>& change) {
    engine_.reset();
    EngineOptions options = Options();
    change(&options);
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }

  static std::string TextOf(int i) { return StrCat("text ", i); }
  static std::vector<float> New(int i) { return StubEndpoint::VectorOf("new: " + TextOf(i), kLength); }
  // The item's own text as a query: the older vector finds the item, the newer one says where it belongs.
  static Query QueryFor(int i) {
    Query query;
    query.content = New(i);
    query.older_vectors = {{1, StubEndpoint::VectorOf(TextOf(i), kLength)}};
    return query;
  }
  static SearchCall CallFor(std::vector<int> items, int64_t refresh_top, int64_t k = 3) {
    SearchCall call;
    call.collection = "c";
    call.k = k;
    call.refresh_top = refresh_top;
    for (const int i : items) call.queries.push_back(QueryFor(i));
    return call;
  }
  SearchAnswer Search(const SearchCall& call, const CallContext& context = {}) {
    auto answer = engine_->Search(call, context);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : SearchAnswer();
  }
  int64_t EmbeddedBy(uint32_t generation) {
    const auto status = engine_->GetCollection("c");
    if (!status.ok()) return -1;
    for (const auto& [of, items] : status->items_by_generation) {
      if (of == generation) return static_cast<int64_t>(items);
    }
    return 0;
  }
  size_t TextsAsked() {
    size_t count = 0;
    for (const StubEndpoint::Seen& request : stub_.seen()) count += request.texts.size();
    return count;
  }
};

TEST_F(RefreshTest, TheFirstCandidatesAreRankedByTheirNewEmbeddingAndKeepIt) {
  const SearchAnswer before = Search(CallFor({7}, 0, kTexts));
  EXPECT_FALSE(before.refresh.has_value());
  EXPECT_THAT(before.results[0].hits, AllOf(SizeIs(kTexts), Each(Field(&EngineHit::generation, 1u))));

  const SearchAnswer first = Search(CallFor({7}, 5));
  ASSERT_TRUE(first.refresh.has_value());
  EXPECT_EQ(first.refresh->candidates, 5);
  EXPECT_EQ(first.refresh->refreshed, 5);
  EXPECT_EQ(first.refresh->error, "");
  ASSERT_FALSE(first.results[0].hits.empty());
  EXPECT_EQ(ToString(first.results[0].hits[0].id), ToString(Id(7)));
  EXPECT_EQ(first.results[0].hits[0].generation, 2u);
  EXPECT_NEAR(first.results[0].hits[0].distance, 0, 1e-6);
  EXPECT_EQ(EmbeddedBy(2), 5);
  // The five candidates were those that the search without refreshing has first.
  for (int rank = 0; rank < 5; ++rank) {
    const auto item = engine_->Get("c", {before.results[0].hits[static_cast<size_t>(rank)].id}, 2, ItemParts(true), {});
    ASSERT_TRUE(item.ok() && item->missing.empty()) << rank;
  }

  Open();  // What was embedded is stored.
  EXPECT_EQ(EmbeddedBy(2), 5);
  const size_t asked = TextsAsked();
  const SearchAnswer again = Search(CallFor({7}, 5));
  EXPECT_LT(again.refresh->candidates, 5) << "item 7 is native now, and among the first five";
  EXPECT_EQ(again.refresh->refreshed, again.refresh->candidates);
  EXPECT_EQ(TextsAsked(), asked + static_cast<size_t>(again.refresh->refreshed));
}

TEST_F(RefreshTest, EveryCandidateMakesTheAnswerThatOfAFullReEmbedding) {
  const SearchAnswer answer = Search(CallFor({3, 11}, kTexts, kTexts));
  EXPECT_EQ(answer.refresh->candidates, kTexts) << "each item once, whatever the number of queries";
  EXPECT_EQ(answer.refresh->refreshed, kTexts);
  for (size_t q = 0; q < 2; ++q) {
    const BoundQuery query = *BoundQuery::Make(Space{Metric::kCosine, kLength, 1, 1},
                                               Space{Metric::kCosine, kLength, 1, 1}, New(q == 0 ? 3 : 11));
    std::vector<std::pair<double, int>> truth;
    for (int i = 0; i < kTexts; ++i) truth.emplace_back(query.Distance(New(i)), i);
    std::sort(truth.begin(), truth.end());
    ASSERT_THAT(answer.results[q].hits, SizeIs(kTexts));
    for (size_t rank = 0; rank < kTexts; ++rank) {
      EXPECT_EQ(ToString(answer.results[q].hits[rank].id), ToString(Id(static_cast<uint64_t>(truth[rank].second))));
    }
  }
}

TEST_F(RefreshTest, ItemsWithoutAStoredInputStayAsTheyAre) {
  CreateCollectionCall create;
  create.name = "bare";
  create.metric = Metric::kCosine;
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  create.name = "c";
  ASSERT_TRUE(engine_->CreateCollection(create).ok());
  Fill(/*keep=*/false);
  const SearchAnswer answer = Search(CallFor({7}, 5));
  EXPECT_EQ(answer.refresh->candidates, 5);
  EXPECT_EQ(answer.refresh->without_input, 5);
  EXPECT_EQ(answer.refresh->refreshed, 0);
  EXPECT_THAT(answer.results[0].hits, AllOf(SizeIs(3), Each(Field(&EngineHit::generation, 1u))));
}

TEST_F(RefreshTest, WhatTheDeadlineCutsOffIsRankedAsItIs) {
  std::mutex mu;
  std::condition_variable changed;
  bool answered = false;
  stub_.Queue([&](const std::vector<std::string>&, httplib::Response& response) {
    std::unique_lock lock(mu);
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return answered; });
    response.status = 500;
  });
  CallContext context;
  context.deadline = absl::Now() + absl::Seconds(2);
  const SearchAnswer answer = Search(CallFor({7}, 5), context);
  EXPECT_LT(absl::Now(), context.deadline);
  EXPECT_EQ(answer.refresh->candidates, 5);
  EXPECT_EQ(answer.refresh->late, 5);
  EXPECT_FALSE(answer.partial);
  EXPECT_THAT(answer.results[0].hits, AllOf(SizeIs(3), Each(Field(&EngineHit::generation, 1u))));
  {
    const std::lock_guard lock(mu);
    answered = true;
  }
  changed.notify_all();
  stub_.Close();  // Its answer waits with what ends here.
}

TEST_F(RefreshTest, AnEncoderThatIsGoneHurtsNoSearch) {
  stub_.Close();
  const SearchAnswer answer = Search(CallFor({7}, 20));
  EXPECT_EQ(answer.refresh->candidates, 20);
  EXPECT_EQ(answer.refresh->failed, 20);
  EXPECT_THAT(answer.refresh->error, HasSubstr("stored input of item"));
  EXPECT_THAT(answer.results[0].hits, AllOf(SizeIs(3), Each(Field(&EngineHit::generation, 1u))));
}

TEST_F(RefreshTest, AnItemThatChangesMeanwhileKeepsItsNewContent) {
  stub_.Queue([&](const std::vector<std::string>& texts, httplib::Response& response) {
    UpsertBatch batch = BatchOf({ItemOf(Id(7), StubEndpoint::VectorOf("rewritten", kLength))}, 2);
    EXPECT_TRUE(engine_->Upsert(std::move(batch), {}).ok());
    response.set_content(StubEndpoint::BodyFor(texts, kLength).dump(), "application/json");
  });
  const SearchAnswer answer = Search(CallFor({7}, 5));
  EXPECT_EQ(answer.refresh->changed, 1);
  EXPECT_EQ(answer.refresh->refreshed, 4);
  const auto item = engine_->Get("c", {Id(7)}, 0, ItemParts(true), {});
  EXPECT_EQ(item->items[0].vector, StubEndpoint::VectorOf("rewritten", kLength));
}

TEST_F(RefreshTest, TheServersBudgetBoundsAllSearchesTogether) {
  Reopen([](EngineOptions* options) { options->refresh_items_per_second_max = 5; });
  const SearchAnswer first = Search(CallFor({7}, 20));
  EXPECT_EQ(first.refresh->refreshed, 1) << "a fifth of a second's budget";
  EXPECT_EQ(first.refresh->over_budget, 19);
  Reopen([](EngineOptions* options) { options->refresh_items_per_second_max = 0; });
  EXPECT_TRUE(Fails(engine_->Search(CallFor({7}, 20), {}), Code::kFailedPrecondition,
                    {"refresh_top", "encoder.refresh_items_per_second_max"}));
}

TEST_F(RefreshTest, ATextIsEmbeddedByOlderGenerationsTooWhereTheCallAsksForIt) {
  SearchCall call = SearchText(TextOf(7));
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition, {"out of reach"}));
  call.embed_older = true;
  call.queries.push_back(QueryFor(11));  // A vector stays as it is.
  SearchAnswer answer = Search(call);
  EXPECT_EQ(answer.older_error, "");
  EXPECT_EQ(answer.out_of_reach, 0u);
  EXPECT_EQ(ToString(answer.results[0].hits.at(0).id), ToString(Id(7)));
  EXPECT_EQ(ToString(answer.results[1].hits.at(0).id), ToString(Id(11)));

  const size_t asked = stub_.seen().size();
  call.queries.resize(1);
  call.refresh_top = 3;
  EXPECT_EQ(Search(call).refresh->refreshed, 3);
  size_t documents = 0;
  const std::vector<StubEndpoint::Seen> seen = stub_.seen();
  for (size_t i = asked; i < seen.size(); ++i) documents += seen[i].texts[0].starts_with("new: ");
  EXPECT_EQ(seen.size(), asked + 2 + documents) << "the query by both generations, and the candidates";

  const auto answers_well = [](const std::vector<std::string>& texts, httplib::Response& response) {
    response.set_content(StubEndpoint::BodyFor(texts, kLength).dump(), "application/json");
  };
  call.refresh_top = 0;
  stub_.Queue(answers_well);
  stub_.QueueStatus(400);
  answer = Search(call);  // Three items are native by now.
  EXPECT_THAT(answer.older_error, AllOf(HasSubstr("generation 1"), HasSubstr("queries[0].input")));
  EXPECT_EQ(answer.out_of_reach, static_cast<uint64_t>(kTexts - 3));
  EXPECT_THAT(answer.results[0].hits, AllOf(SizeIs(3), Each(Field(&EngineHit::generation, 2u))));
}

TEST_F(RefreshTest, BoundsOfTheSearchAreAppliedAfterwards) {
  SearchCall call = CallFor({7}, kTexts, 10);
  call.distance_max = 1e-6;
  EXPECT_THAT(Search(call).results[0].hits, ElementsAre(Field(&EngineHit::id, Id(7))));
}

TEST_F(RefreshTest, AnOffsetLeavesOutHitsAndNoCandidates) {
  SearchCall call = CallFor({7}, 5, 1);
  call.offset = 1;
  call.with_payload = true;
  const SearchAnswer answer = Search(call);
  EXPECT_EQ(answer.refresh->refreshed, 5);
  EXPECT_TRUE(engine_->Get("c", {Id(7)}, 2, ItemParts(), {})->missing.empty()) << "the nearest is a candidate, too";
  EXPECT_NE(ToString(answer.results[0].hits.at(0).id), ToString(Id(7)));
}

TEST_F(RefreshTest, WhatANewerGenerationEmbeddedHoldsUpNoneOfTheOthers) {
  ASSERT_TRUE(Add(ManifestOf({{"document_prefix", "newest: "}})).ok());
  UpsertBatch batch = BatchOf({ItemOf(Id(7), StubEndpoint::VectorOf("newest", kLength))}, 3, /*same_content=*/true);
  Write(std::move(batch));
  const SearchAnswer answer = Search(CallFor({7}, 5));
  EXPECT_EQ(answer.refresh->candidates, 5);
  EXPECT_EQ(answer.refresh->changed, 1);
  EXPECT_EQ(answer.refresh->refreshed, 4);
}

TEST_F(RefreshTest, WhatCannotBeRefreshedIsNamed) {
  const auto fails = [&](const SearchCall& call, Code code, const std::vector<std::string>& texts) {
    EXPECT_TRUE(Fails(engine_->Search(call, {}), code, texts));
  };
  fails(CallFor({7}, -1), Code::kInvalidArgument, {"'refresh_top' is -1", "0 .. 1000"});
  fails(CallFor({7}, 1'001), Code::kInvalidArgument, {"'refresh_top' is 1001", "0 .. 1000"});
  fails(CallFor(std::vector<int>(11, 7), 1'000), Code::kInvalidArgument, {"1000 for 11 queries", "10000"});
  SearchCall call = CallFor({7}, 5);
  call.evaluate_generations = {1};
  fails(call, Code::kInvalidArgument, {"refresh_top", "evaluate_generations"});
  call = CallFor({7}, 5, 0);
  call.group_by = GroupBy{.field = "kind"};
  fails(call, Code::kInvalidArgument, {"refresh_top", "group_by"});

  CallContext reader;
  reader.caller = "reader";
  reader.may_write = [](const std::string& collection) { return collection != "c"; };
  EXPECT_TRUE(Fails(engine_->Search(CallFor({7}, 5), reader), Code::kPermissionDenied, {"'reader'", "write", "'c'"}));
  EXPECT_TRUE(engine_->Search(CallFor({7}, 0), reader).ok());

  RegisterCall external;
  external.collection = "c";
  external.manifest_json = ManifestFor(kLength);
  external.parent = 2;
  ASSERT_TRUE(engine_->RegisterGeneration(external).ok());
  call = CallFor({7}, 5);
  call.generation = 3;
  fails(call, Code::kFailedPrecondition, {"generation 3", "no encoder"});
  EXPECT_EQ(EmbeddedBy(2), 0);
}

}  // namespace
}  // namespace lightcone::server
