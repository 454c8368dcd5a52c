// A collection notices rows and queries that another model made, says so, refuses them where it is told to, and lets
// right ones through.
#include <set>
#include <thread>

#include "engine_testing.h"
#include "tests/support/embedding_models.h"

namespace lightcone::server {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr int kDimensionOfTexts = 48;
constexpr uint32_t kRows = 3'000, kEnoughRows = 8'192;

class ForeignVectorsTest : public EngineTest {
 protected:
  void Make(ForeignVectors setting = ForeignVectors::kWarn) {
    CreateCollectionCall call;
    call.name = "c";
    call.metric = Metric::kCosine;
    call.foreign_vectors = setting;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    RegisterTexts();
    Activate(1);
  }
  void RegisterTexts() {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = StrCat("{\"dimension\":", kDimensionOfTexts, ",\"model\":\"gte-base\",\"revision\":\"2\"}");
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  // Contents from `first` on, each about another subject than the one before.
  absl::StatusOr<WriteResult> WriteTexts(const std::string& model, uint32_t first, uint32_t n,
                                         uint32_t generation = 1) {
    const EmbeddingModel embeds(model, kDimensionOfTexts);
    std::vector<UpsertItem> items;
    for (uint32_t i = first; i < first + n; ++i) items.push_back(ItemOf(Id(i), embeds.Embed(SubjectOf(i), i)));
    return engine_->Upsert(BatchOf(std::move(items), generation), {});
  }
  SearchCall Queries(const std::string& model, uint32_t first, uint32_t n) {
    const EmbeddingModel embeds(model, kDimensionOfTexts);
    SearchCall call;
    call.collection = "c";
    for (uint32_t i = first; i < first + n; ++i) {
      call.queries.emplace_back();
      call.queries.back().content = embeds.Embed(SubjectOf(i), i);
    }
    return call;
  }
  std::vector<std::string> Warnings(const std::string& model, uint32_t first, uint32_t n) {
    const auto answer = engine_->Search(Queries(model, first, n), {});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->warnings : std::vector<std::string>();
  }

  // Waits until rows of the generation were learnt.
  void AwaitLearnt(uint32_t generation = 1) {
    for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end; std::this_thread::yield()) {
      for (const ModelWatchStatus& watched : Watched()) {
        if (watched.generation == generation) return;
      }
    }
    FAIL() << "generation " << generation << " was never learnt";
  }
  // As many as refusals need.
  void WriteEnoughRows() {
    ASSERT_TRUE(WriteTexts("right", 0, kEnoughRows).ok());
    for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end; std::this_thread::yield()) {
      const auto watched = Watched();
      if (!watched.empty() && watched[0].rows_learnt == kEnoughRows) return;
    }
    FAIL() << "its rows were never learnt";
  }
  void AwaitForgotten() {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (!Watched().empty() && absl::Now() < end) std::this_thread::yield();
    EXPECT_THAT(Watched(), IsEmpty());
  }
  std::vector<ModelWatchStatus> Watched() { return engine_->GetCollection("c")->model_watch; }
  void Update(ForeignVectors setting) {
    UpdateCollectionCall call;
    call.collection = "c";
    call.foreign_vectors = setting;
    const auto updated = engine_->UpdateCollection(call);
    ASSERT_TRUE(updated.ok()) << updated.status();
    EXPECT_EQ(updated->foreign_vectors, setting);
  }

  static int SubjectOf(uint32_t content) { return static_cast<int>(content % EmbeddingModel::kSubjects); }
};

TEST_F(ForeignVectorsTest, AreNoticedAmongRowsAndQueriesAndRightOnesAreNot) {
  Make();
  ASSERT_TRUE(WriteTexts("right", 0, kRows).ok());
  AwaitLearnt();
  EXPECT_TRUE(Watched()[0].tells_directions);
  EXPECT_EQ(Watched()[0].rows_learnt, kRows);
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_THAT(WriteTexts("right", kRows + 50 * i, 50)->warnings, IsEmpty());
    EXPECT_THAT(Warnings("right", 20'000 + 50 * i, 50), IsEmpty());
  }
  EXPECT_THAT(Watched()[0].rows.alarms, IsEmpty());

  for (const std::string model : {"rotated", "seed", "layer", "unnormalised"}) {
    SCOPED_TRACE(model);
    const auto written = WriteTexts(model, 50'000, 100);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->items, 100u);
    EXPECT_THAT(written->warnings, Contains(HasSubstr("generation 1 (model 'gte-base', revision '2')")));
    EXPECT_THAT(Warnings(model, 60'000, 100), Contains(HasSubstr("the last queries may not come from the model")));
    const ModelWatchStatus watched = Watched()[0];
    EXPECT_FALSE(watched.rows.alarms.empty() || watched.queries.alarms.empty());
    EXPECT_GE(watched.rows.foreign, 50);
    // An alarm is no reason to warn callers whose vectors are right.
    EXPECT_THAT(WriteTexts("right", 70'000, 10)->warnings, IsEmpty());
    for (uint32_t i = 0; i < 12; ++i) {
      EXPECT_THAT(WriteTexts("right", 71'000 + 50 * i, 50)->warnings, IsEmpty());
      EXPECT_THAT(Warnings("right", 80'000 + 50 * i, 50), IsEmpty());
    }
  }
}

TEST_F(ForeignVectorsTest, AnotherPrefixIsNoticedByWhereTheVectorsLie) {
  Make();
  ASSERT_TRUE(WriteTexts("right", 0, 6'000).ok());
  AwaitLearnt();
  const auto written = WriteTexts("prefix", 50'000, 100);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(written->warnings, Contains(HasSubstr("another prompt prefix")));
  EXPECT_THAT(Watched()[0].rows.alarms, Contains("place"));
}

TEST_F(ForeignVectorsTest, OneAtATimeAndAfterARestart) {
  Make();
  ASSERT_TRUE(WriteTexts("right", 0, kRows).ok());
  Restart();
  AwaitLearnt();
  int until = 0;
  for (uint32_t i = 0; i < 100 && until == 0; ++i) {
    if (!Warnings("seed", 50'000 + i, 1).empty()) until = static_cast<int>(i) + 1;
  }
  EXPECT_GT(until, 0);
  EXPECT_LE(until, 100);
}

TEST_F(ForeignVectorsTest, AreRefusedWhereTheCollectionSaysSo) {
  Make(ForeignVectors::kReject);
  WriteEnoughRows();
  EXPECT_TRUE(
      Fails(WriteTexts("rotated", 50'000, 100), Code::kFailedPrecondition, {"items", "generation 1", "'reject'"}));
  EXPECT_EQ(engine_->Count("c", {}, {})->count, kEnoughRows);
  EXPECT_TRUE(WriteTexts("right", 51'000, 100).ok());

  ASSERT_TRUE(engine_->Search(Queries("rotated", 60'000, 100), {}).ok());
  SearchCall mixed = Queries("right", 61'040, 1);
  mixed.queries.push_back(Queries("rotated", 62'000, 1).queries[0]);
  const auto answer = engine_->Search(mixed, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->results[0].status.ok()) << answer->results[0].status;
  EXPECT_TRUE(Fails(answer->results[1].status, Code::kFailedPrecondition, {"queries[1]", "generation 1"}));

  Update(ForeignVectors::kWarn);
  EXPECT_TRUE(WriteTexts("rotated", 70'000, 100).ok());
  Update(ForeignVectors::kIgnore);
  AwaitForgotten();  // also the alarms that were on
  EXPECT_THAT(WriteTexts("rotated", 80'000, 100)->warnings, IsEmpty());
  Restart();
  EXPECT_EQ(engine_->GetCollection("c")->foreign_vectors, ForeignVectors::kIgnore);
}

TEST_F(ForeignVectorsTest, AFewRowsAreTooFewToRefuseBy) {
  Make(ForeignVectors::kReject);
  ASSERT_TRUE(WriteTexts("right", 0, kRows).ok());
  AwaitLearnt();
  const auto written = WriteTexts("rotated", 50'000, 100);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(written->warnings, Contains(HasSubstr("another model")));
}

TEST_F(ForeignVectorsTest, AnImportThatIsOrderedBySubjectIsNoneOfAnotherModel) {
  Make();
  const EmbeddingModel embeds("right", kDimensionOfTexts);
  uint32_t id = 0;
  std::vector<std::string> warnings;
  for (int subject = 0; subject < EmbeddingModel::kSubjects; ++subject) {
    std::vector<UpsertItem> items;
    for (int i = 0; i < 300; ++i, ++id) items.push_back(ItemOf(Id(id), embeds.Embed(subject, id)));
    const auto written = engine_->Upsert(BatchOf(std::move(items), 1), {});
    ASSERT_TRUE(written.ok()) << written.status();
    warnings.insert(warnings.end(), written->warnings.begin(), written->warnings.end());
    if (subject == 4) AwaitLearnt();
  }
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(ForeignVectorsTest, RightCallersAreServedBesideForeignOnes) {
  Make(ForeignVectors::kReject);
  WriteEnoughRows();
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_FALSE(WriteTexts("rotated", 50'000 + 100 * i, 100).ok());
    const auto right = WriteTexts("right", 60'000 + 20 * i, 20);
    EXPECT_TRUE(right.ok()) << right.status();
    Warnings("seed", 70'000 + 100 * i, 100);
    const auto answer = engine_->Search(Queries("right", 80'000 + 20 * i, 20), {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const QueryAnswer& one : answer->results) EXPECT_TRUE(one.status.ok()) << one.status;
  }
}

TEST_F(ForeignVectorsTest, LengthsRefuseNothingWhereDirectionsAreCompared) {
  Make(ForeignVectors::kReject);
  WriteEnoughRows();
  for (uint32_t i = 0; i < 3; ++i) {
    const auto written = WriteTexts("unnormalised", 50'000 + 100 * i, 100);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_THAT(written->warnings, Contains(HasSubstr("normalised")));
  }
}

TEST_F(ForeignVectorsTest, EachGenerationHasItsOwnModel) {
  Make();
  ASSERT_TRUE(WriteTexts("right", 0, kRows).ok());
  RegisterTexts();
  ASSERT_TRUE(WriteTexts("seed", 10'000, kRows, 2).ok());
  AwaitLearnt(1);
  AwaitLearnt(2);
  EXPECT_THAT(WriteTexts("right", 20'000, 100, 1)->warnings, IsEmpty());
  EXPECT_THAT(WriteTexts("seed", 21'000, 100, 2)->warnings, IsEmpty());
  EXPECT_THAT(WriteTexts("right", 22'000, 100, 2)->warnings, Contains(HasSubstr("generation 2")));
  EXPECT_THAT(WriteTexts("seed", 23'000, 100, 1)->warnings, Contains(HasSubstr("generation 1")));
}

}  // namespace
}  // namespace lightcone::server
