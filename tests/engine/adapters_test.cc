// Searches through adapters, mode by mode, against a naive ranking; what stays over restarts; longer vectors.
#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"
#include "adapter_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::ElementsAre;

class Adapters : public AdapterTest {};

TEST_F(Adapters, EachModeAnswersAsABruteForceRankingOfItsOwnUnderEveryMetric) {
  int world = 0;
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    for (const int dimension : {6, 9}) {  // the same, and another than that of generation 1
      SCOPED_TRACE(StrCat(MetricName(metric), " ", dimension));
      engine_.reset();
      engine_ = OpenEngine(folder_ / StrCat("world", ++world));
      MakeWorld(metric, 6, dimension);
      if (HasFatalFailure()) return;
      EXPECT_THAT(engine_->GetGeneration("c", 2)->reach, ElementsAre(2));
      EXPECT_EQ(engine_->Search(Ask(new_rows_[1'001], 3), {})->out_of_reach, kOldRows);
      Put(item_);
      EXPECT_THAT(engine_->GetGeneration("c", 2)->reach, ElementsAre(1, 2));
      EXPECT_EQ(engine_->Search(Ask(new_rows_[1'001], 3), {})->out_of_reach, 0u);
      EXPECT_EQ(engine_->Search(Ask(new_rows_[1'001], 3, AdapterMode::kQuery), {})->out_of_reach, kOldRows);
      ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "an item adapter alone");
      Put(query_);
      ExpectMode(AdapterMode::kNone, AdapterMode::kNone, "none");
      ExpectMode(AdapterMode::kQuery, AdapterMode::kQuery, "query");
      ExpectMode(AdapterMode::kItem, AdapterMode::kItem, "item");
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(Adapters, WithBothTheQueryFindsCandidatesAndTheItemAdapterRanksThem) {
  MakeWorld(Metric::kLorentz, 6, 8);
  Put(item_);
  Put(query_);
  for (int round = 0; round < 5; ++round) {
    const std::vector<float> q = RandomVector(&random_, 8, 0.6f);
    ExpectRanking(Hits(Ask(q, 10)), Truth(q, AdapterMode::kItem), 10, "exact: every row is carried");
    // The 200 that the carried query finds, and generation 2 itself.
    std::map<uint64_t, double> item_distance;
    for (const auto& [distance, id] : Truth(q, AdapterMode::kItem)) item_distance[id] = distance;
    Ranking expected;
    size_t found = 0;
    for (const auto& [distance, id] : Truth(q, AdapterMode::kQuery)) {
      if (id > 1'000 || ++found <= 200) expected.emplace_back(item_distance[id], id);
    }
    std::sort(expected.begin(), expected.end());
    ExpectRanking(Hits(Ask(q, 10, AdapterMode::kDefault, /*exact=*/false)), expected, 10, "200 candidates");
  }
}

TEST_F(Adapters, ACompatibleGenerationIsRankedByTheAdapterAndFoundWithoutIt) {
  MakeWorld();
  RegisterSpace(new_, 1, false);  // generation 3 was trained to be compatible with 1
  PutAdapterCall put = PutOf(item_);
  put.to = 3;
  ASSERT_TRUE(engine_->PutAdapter(put).ok());
  const std::vector<float> q = RandomVector(&random_, 6, 0.6f);
  Ranking plain, carried;
  for (const auto& [id, z] : old_rows_) {
    plain.emplace_back(DistanceNaively(new_, Doubles(q), old_, Doubles(z)), id);
  }
  std::sort(plain.begin(), plain.end());
  plain.resize(200);
  for (const auto& [distance, id] : plain) {
    carried.emplace_back(DistanceNaively(new_, Doubles(q), new_, CarriedNaively(item_, old_rows_[id])), id);
  }
  std::sort(carried.begin(), carried.end());
  SearchCall call = Ask(q, 10, AdapterMode::kDefault, /*exact=*/false);
  call.generation = 3;
  ExpectRanking(Hits(call), carried, 10, "candidates by plain distance");
  call.adapter_mode = AdapterMode::kNone;
  ExpectRanking(Hits(call), plain, 10, "no adapter");
}

TEST_F(Adapters, AnswerTheSameFromSealedSegmentsAndAfterARestart) {
  MakeWorld(Metric::kCosine, 6, 9);
  const AdapterStatus put = Put(item_);
  Put(query_);
  const SearchCall by_item = Ask(RandomVector(&random_, 9, 0.6f), 30, AdapterMode::kItem);
  SearchCall by_query = by_item;
  by_query.adapter_mode = AdapterMode::kQuery;
  const auto answers = [&] { return std::pair(HitNames(by_item), HitNames(by_query)); };
  const auto before = answers();
  for (const SealedKind kind : {SealedKind::kFlat, SealedKind::kHnsw}) {
    IndexSettings settings;
    settings.kind = kind;
    ASSERT_TRUE(engine_->Rebuild("c", settings, /*wait=*/true, "", {}).ok());
    EXPECT_EQ(answers(), before);
  }
  Restart();
  EXPECT_EQ(answers(), before);
  const auto list = engine_->ListAdapters("c");
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].from, 1u);
  EXPECT_EQ((*list)[0].to, 2u);
  EXPECT_EQ((*list)[0].version, put.version);
  EXPECT_EQ((*list)[0].put, put.put);
  EXPECT_EQ((*list)[0].crc32c, put.crc32c);
  EXPECT_EQ((*list)[0].loss, "reg");
  EXPECT_EQ((*list)[1].direction, AdapterDirection::kQuery);
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  MakeWorld();
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
}

TEST_F(Adapters, NoMemoryForCarriedRowsAnswersTheSame) {
  engine_.reset();
  EngineOptions options = OptionsFor(folder_.path());
  options.adapted_rows_bytes_max = 0;
  engine_ = OpenEngine(options);
  MakeWorld(Metric::kLorentz, 6, 9);
  Put(item_);
  const int64_t before = engine_->GetCollection("c")->heap_bytes;
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "nothing is kept");
  EXPECT_EQ(engine_->GetCollection("c")->heap_bytes, before);
}

TEST_F(Adapters, CarriedRowsAreKeptOnceAndLetGoWithTheAdapter) {
  MakeWorld(Metric::kLorentz, 6, 9);
  const int64_t without = engine_->GetCollection("c")->heap_bytes;
  Put(item_);
  Hits(Ask(new_rows_[1'001], 5));
  const int64_t with = engine_->GetCollection("c")->heap_bytes;
  EXPECT_GE(with - without, 512 * 9 * 4) << "a block of 512 rows";
  Hits(Ask(new_rows_[1'002], 5));
  EXPECT_EQ(engine_->GetCollection("c")->heap_bytes, with);
  ASSERT_TRUE(engine_->DropAdapter(DropOf(1, 2)).ok());
  EXPECT_EQ(engine_->GetCollection("c")->heap_bytes, without);
}

TEST_F(Adapters, ASealedGalleryIsCarriedOverBehindTheSearchesAndAnswersTheSame) {
  MakeWorld(Metric::kLorentz, 6, 9);
  Put(item_);
  Activate(2);
  ASSERT_TRUE(engine_->Rebuild("c", IndexSettings(), /*wait=*/true, "", {}).ok());
  const auto carried = [&] { return engine_->GetCollection("c")->carried_rows; };
  // Searches go on meanwhile; a minute is long enough for 700 rows on any machine.
  const auto until = [&](const std::function<bool()>& done) {
    const absl::Time latest = absl::Now() + absl::Minutes(1);
    while (!done() && absl::Now() < latest) ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "meanwhile");
    return done();
  };
  const auto wait_for = [&](int64_t rows) { ASSERT_TRUE(until([&] { return carried() == rows; })) << carried(); };
  wait_for(kOldRows);
  const std::string folder = StrCat(folder_.path(), "/index/1/adapted");
  const auto folders = [&] {
    const auto entries = std::filesystem::directory_iterator(folder);
    return std::distance(begin(entries), end(entries));
  };
  EXPECT_EQ(folders(), 1);
  const auto status = engine_->GetCollection("c");
  EXPECT_GT(status->carried_bytes, static_cast<int64_t>(kOldRows) * 9 * 4);
  EXPECT_GE(status->mapped_bytes, status->carried_bytes);
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "carried");
  ExpectMode(AdapterMode::kNone, AdapterMode::kNone, "without adapters");
  old_rows_.erase(7);
  ASSERT_TRUE(engine_->Delete("c", {Id(uint64_t{7})}, Durability::kProcess, {}).ok());
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "a row less");

  Restart();
  wait_for(kOldRows);
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "opened again");
  SwitchCall back;
  back.collection = "c";
  back.force = true;
  back.reason = "to see what stays";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  EXPECT_EQ(carried(), static_cast<int64_t>(kOldRows)) << "a rollback does not touch it";

  Activate(2);
  Put(item_);  // another version: carried anew, and the old files go
  EXPECT_EQ(carried(), 0);
  wait_for(kOldRows);
  EXPECT_TRUE(until([&] { return folders() == 1; }));
  ASSERT_TRUE(engine_->DropAdapter(DropOf(1, 2, /*force=*/true)).ok());
  EXPECT_EQ(carried(), 0);
}

TEST_F(Adapters, WritesAndDeletesAreSeenThroughAnAdapterAtOnce) {
  MakeWorld();
  Put(item_);
  Activate(2);
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "before");
  for (uint64_t id = 1; id <= 40; ++id) {
    old_rows_.erase(id);
    ASSERT_TRUE(engine_->Delete("c", {Id(id)}, Durability::kProcess, {}).ok());
  }
  std::vector<UpsertItem> backfilled;
  for (uint64_t id = 100; id <= 160; ++id) {
    new_rows_[id] = RandomVector(&random_, 6, 0.6f);
    old_rows_.erase(id);
    backfilled.push_back(ItemOf(Id(id), new_rows_[id]));
  }
  Write(BatchOf(std::move(backfilled), 2, /*same_content=*/true));
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "after");
}

TEST_F(Adapters, AStoredItemAsksForItsLikeThroughTheAdapter) {
  MakeWorld(Metric::kLorentz, 6, 9);
  Put(item_);
  const std::vector<double> carried = CarriedNaively(item_, old_rows_[7]);
  SearchCall call = Ask({}, 20);
  call.queries[0].content = QueryByItem{Id(uint64_t{7})};
  Ranking truth;
  for (const auto& [id, z] : new_rows_) truth.emplace_back(DistanceNaively(new_, carried, new_, Doubles(z)), id);
  for (const auto& [id, z] : old_rows_) {
    if (id != 7) truth.emplace_back(DistanceNaively(new_, carried, new_, CarriedNaively(item_, z)), id);
  }
  std::sort(truth.begin(), truth.end());
  ExpectRanking(Hits(call), truth, 20, "more like this");
  call.adapter_mode = AdapterMode::kNone;  // its own generation is all that it can be compared with
  for (const EngineHit& hit : Hits(call)) EXPECT_EQ(hit.generation, 1u);
}

TEST_F(Adapters, ForEvaluationOneGenerationIsSearchedThroughThem) {
  MakeWorld(Metric::kLorentz, 6, 9);
  SearchCall call = Ask(RandomVector(&random_, 9, 0.6f), 2'000);
  call.evaluate_generations = {1};
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition,
                    {"generation 2", "9 dimensions", "generation 1", "6 dimensions"}));
  Put(item_);
  const auto hits = Hits(call);
  EXPECT_EQ(hits.size(), kOldRows);
  for (const EngineHit& hit : hits) EXPECT_EQ(hit.generation, 1u);
  call.adapter_mode = AdapterMode::kQuery;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition, {"cannot be compared"}));
}

TEST_F(Adapters, ARaceOfPutsAndSearchesAnswersByOneAdapterOrTheOther) {
  MakeWorld();
  AdapterSpec other = item_;
  for (float& x : other.linear) x = -x;
  Put(item_);
  const std::vector<float> q = RandomVector(&random_, 6, 0.6f);
  const auto distances = [&](const std::vector<EngineHit>& hits) {
    std::vector<double> all;
    for (const EngineHit& hit : hits) all.push_back(hit.distance);
    return all;
  };
  const SearchCall call = Ask(q, 50);
  const std::vector<double> first = distances(Hits(call));
  Put(other);
  const std::vector<double> second = distances(Hits(call));
  ASSERT_NE(first, second);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 60; ++i) Put(i % 2 == 0 ? item_ : other);
    done = true;
  });
  int searches = 0;
  std::vector<double> got;
  const auto same = [&](const std::vector<double>& expected) {
    if (got.size() != expected.size()) return false;
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::abs(got[i] - expected[i]) > 1e-5) return false;
    }
    return true;
  };
  do {
    got = distances(Hits(call));
    EXPECT_TRUE(same(first) || same(second)) << "search " << searches;
    ++searches;
  } while (!done);
  writer.join();
  EXPECT_EQ(engine_->ListAdapters("c")->at(0).version, 62u);
}

// bct+32, BT2: the old generation compares with the first numbers of the new one's vectors.
TEST_F(Adapters, LongerVectorsCompareByTheirPrefixWithOldAndWholeWithNew) {
  CreateCollectionCall create;
  create.name = "c";
  create.metric = Metric::kCosine;
  ASSERT_TRUE(engine_->CreateCollection(create).ok());
  const Space old_space{Metric::kCosine, 5, 1, 1}, new_space{Metric::kCosine, 8, 1, 1};
  RegisterSpace(old_space, 0, false);
  RegisterSpace(new_space, 1, false, /*prefix=*/5);
  RegisterSpace(Space{Metric::kCosine, 10, 1, 1}, 2, false, /*prefix=*/8);
  EXPECT_THAT(engine_->GetGeneration("c", 2)->reach, ElementsAre(1, 2));
  EXPECT_EQ(engine_->GetGeneration("c", 2)->compatible_prefix, 5);
  EXPECT_THAT(engine_->GetGeneration("c", 3)->reach, ElementsAre(1, 2, 3));
  std::map<uint64_t, std::vector<float>> rows;
  std::vector<UpsertItem> batches[2];
  for (uint64_t id = 1; id <= 300; ++id) {
    const bool old = id <= 200;
    rows[id] = RandomVector(&random_, old ? 5 : 8);
    batches[old ? 0 : 1].push_back(ItemOf(Id(id), rows[id]));
  }
  Write(BatchOf(std::move(batches[0]), 1));
  Write(BatchOf(std::move(batches[1]), 2));
  Activate(2);
  const auto check = [&](uint32_t generation, int dimension) {
    const std::vector<float> q = RandomVector(&random_, dimension);
    Ranking truth;
    for (const auto& [id, z] : rows) {
      const std::vector<double> leading(q.begin(), q.begin() + static_cast<std::ptrdiff_t>(z.size()));
      truth.emplace_back(DistanceNaively(old_space, leading, old_space, Doubles(z)), id);
    }
    std::sort(truth.begin(), truth.end());
    const auto answer = engine_->Search(SearchFor(q, 300, generation), {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->out_of_reach, 0u);
    ExpectRanking(answer->results[0].hits, truth, 300, StrCat("generation ", generation));
  };
  check(2, 8);
  check(3, 10);
  Restart();
  check(2, 8);
  // An old query does not know the later numbers, and an old item asks the old rows only.
  SearchCall like = SearchFor({}, 300, 2);
  like.queries[0].content = QueryByItem{Id(uint64_t{3})};
  EXPECT_EQ(Hits(like).size(), 199u);
  EXPECT_EQ(engine_->Search(like, {})->out_of_reach, 100u) << "the rows of generation 2 are not compared with it";
  // A prefix that holds nothing has no direction.
  const std::vector<float> tail = {0, 0, 0, 0, 0, 1, 1, 1};
  const auto answer = engine_->Search(SearchFor(tail, 5, 2), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"vector"}));
}

}  // namespace
}  // namespace lightcone::server
