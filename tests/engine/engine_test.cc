// Collections, items and reading: what an application sees of a healthy engine.
#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"
#include "engine_testing.h"
#include "server/engine/collection/meta.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::ElementsAre;

class EngineLife : public EngineTest {};

TEST_F(EngineLife, AWriteIsSeenByTheNextSearchGetAndCount) {
  MakeCollection();
  for (uint64_t i = 0; i < 50; ++i) {
    const auto written = engine_->Upsert(BatchOf({ItemOf(Id(i), {static_cast<float>(i) * 0.01f, 0, 0, 0})}), {});
    ASSERT_TRUE(written.ok());
    EXPECT_EQ(written->sequence, i + 1) << "sequences have no gaps";
    EXPECT_EQ(written->generation, 1u);
    SearchCall call = SearchFor({static_cast<float>(i) * 0.01f, 0, 0, 0}, 1);
    call.wait_for_sequence = written->sequence;
    const auto hits = Hits(call);
    ASSERT_EQ(hits.size(), 1u);
    EXPECT_EQ(hits[0].id, Id(i));
    EXPECT_EQ(hits[0].score, -hits[0].distance);
    EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, i + 1);
  }
}

TEST_F(EngineLife, SearchesOfOneCallAnswerEachQueryWithPayloadAndVector) {
  MakeCollection();
  std::mt19937 random(1);
  std::vector<std::vector<float>> vectors;
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 300; ++i) {
    vectors.push_back(RandomVector(&random, kDimension, 0.5f));
    items.push_back(ItemOf(Id(i), vectors.back(), StrCat("{\"n\":", i, "}")));
  }
  Write(BatchOf(std::move(items)));
  const Space space = engine_->GetGeneration("c", 1)->space;
  SearchCall call = SearchFor({}, 7);
  call.with_payload = call.with_vector = true;
  call.queries.resize(40);
  std::vector<std::vector<float>> queries;
  for (Query& query : call.queries) {
    queries.push_back(RandomVector(&random, kDimension, 0.5f));
    query.content = queries.back();
  }
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (size_t q = 0; q < queries.size(); ++q) {
    const auto bound = BoundQuery::Make(space, space, queries[q]);
    std::vector<std::pair<double, uint64_t>> truth;
    for (uint64_t i = 0; i < vectors.size(); ++i) truth.emplace_back(bound->Distance(vectors[i]), i);
    std::sort(truth.begin(), truth.end());
    const auto& hits = answer->results[q].hits;
    ASSERT_EQ(hits.size(), 7u);
    for (size_t r = 0; r < hits.size(); ++r) {
      EXPECT_EQ(hits[r].id, Id(truth[r].second));
      EXPECT_EQ(hits[r].distance, truth[r].first);
      EXPECT_EQ(hits[r].vector, vectors[truth[r].second]);
      EXPECT_EQ(hits[r].payload_json, StrCat("{\"n\":", truth[r].second, "}"));
    }
  }
}

TEST_F(EngineLife, AnUpsertReplacesAndADeleteRemoves) {
  MakeCollection();
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}, R"({"v":1})"), ItemOf(Id("b"), {0, 1, 0, 0})}));
  Write(BatchOf({ItemOf(Id("a"), {0, 0, 1, 0}, R"({"v":2})")}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.with_payload = true;
  const auto hits = Hits(call);
  ASSERT_EQ(hits.size(), 2u);
  for (const EngineHit& hit : hits) {
    if (hit.id == Id("a")) {
      EXPECT_EQ(hit.payload_json, R"({"v":2})");
    }
  }
  const auto deleted = engine_->Delete("c", {Id("a"), Id("zz"), Id("a")}, Durability::kDurable, {});
  ASSERT_TRUE(deleted.ok());
  EXPECT_EQ(deleted->items, 1u);
  EXPECT_EQ(deleted->sequence, 3u);
  EXPECT_THAT(HitNames(SearchFor({1, 0, 0, 0})), ElementsAre("'b'@1"));
  const auto nothing = engine_->Delete("c", {Id("zz")}, Durability::kDurable, {});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->items, 0u);
  EXPECT_EQ(nothing->sequence, 3u);
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, 1u);
}

TEST_F(EngineLife, ScrollWalksEveryItemOnceInTheOrderOfIds) {
  MakeCollection();
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 700; ++i)
    items.push_back(ItemOf(Id(i), {1, 0, 0, 0}, StrCat("{\"even\":", i % 2 == 0, "}")));
  items.push_back(ItemOf(Id("name"), {0.5f, 0, 0, 0}));
  Write(BatchOf(std::move(items)));
  for (const int64_t page_size : {1, 100, 350, 701, 5000}) {
    std::vector<ItemId> seen;
    std::string token;
    do {
      const auto page = engine_->Scroll("c", std::nullopt, page_size, token, true, {});
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_LE(static_cast<int64_t>(page->items.size()), page_size);
      for (const StoredItem& item : page->items) {
        seen.push_back(item.id);
        EXPECT_EQ(item.vector.size(), 4u);
      }
      token = page->token;
    } while (!token.empty());
    ASSERT_EQ(seen.size(), 701u) << page_size;
    for (uint64_t i = 0; i < 700; ++i) EXPECT_EQ(seen[i], Id(i));
    EXPECT_EQ(seen[700], Id("name"));
  }
  const FilterNode even = Leaf(FilterNode::Kind::kEquals, "even", {true});
  std::string token;
  size_t found = 0;
  do {
    const auto page = engine_->Scroll("c", even, 99, token, false, {});
    ASSERT_TRUE(page.ok());
    found += page->items.size();
    token = page->token;
  } while (!token.empty());
  EXPECT_EQ(found, 350u);
  EXPECT_EQ(engine_->Count("c", even, {})->count, 350u);
}

TEST_F(EngineLife, AnAliasStandsForItsCollectionAndMoves) {
  MakeCollection();
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}));
  CreateCollectionCall other;
  other.name = "other";
  ASSERT_TRUE(engine_->CreateCollection(other).ok());
  ASSERT_TRUE(engine_->SetAlias("live", "c", "r").ok());
  ASSERT_TRUE(engine_->SetAlias("live", "c", "r").ok()) << "the same request again";
  EXPECT_TRUE(Fails(engine_->SetAlias("live", "other", "r"), Code::kAlreadyExists, {"request_id"}));
  EXPECT_EQ(engine_->Count("live", std::nullopt, {})->count, 1u);
  EXPECT_THAT(engine_->GetCollection("c")->aliases, ElementsAre("live"));
  ASSERT_TRUE(engine_->SetAlias("live", "other", "").ok());
  EXPECT_EQ(engine_->Count("live", std::nullopt, {})->count, 0u);
  EXPECT_TRUE(Fails(engine_->SetAlias("c", "other", ""), Code::kAlreadyExists, {"'c'"}));
  EXPECT_TRUE(Fails(engine_->SetAlias("x", "nowhere", ""), Code::kNotFound, {"nowhere"}));
  EXPECT_TRUE(Fails(engine_->DropCollection("live", ""), Code::kInvalidArgument, {"alias"}));
  Restart();
  EXPECT_EQ(engine_->GetCollection("live")->name, "other");
  ASSERT_TRUE(engine_->DropCollection("other", "d").ok());
  ASSERT_TRUE(engine_->DropCollection("other", "d").ok()) << "the same request again";
  EXPECT_TRUE(Fails(engine_->GetCollection("live"), Code::kNotFound, {"no collection 'live'"}));
}

TEST_F(EngineLife, OperatorCallsAreIdempotentUnderARequestId) {
  CreateCollectionCall create;
  create.name = "c";
  create.request_id = "create-1";
  const auto first = engine_->CreateCollection(create);
  ASSERT_TRUE(first.ok());
  const auto again = engine_->CreateCollection(create);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->created, first->created);
  create.curvature = 0.5;
  EXPECT_TRUE(Fails(engine_->CreateCollection(create), Code::kAlreadyExists, {"request_id", "create-1"}));
  RegisterCall call;
  call.collection = "c";
  call.request_id = "register-1";
  call.manifest_json = ManifestFor(4);
  EXPECT_EQ(engine_->RegisterGeneration(call)->generation, 1u);
  Restart();
  EXPECT_EQ(engine_->RegisterGeneration(call)->generation, 1u);
  EXPECT_EQ(engine_->ListGenerations("c")->size(), 1u);
  call.manifest_json = ManifestFor(5);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kAlreadyExists, {"request_id"}));
}

TEST_F(EngineLife, ADamagedMemoryOfARequestRefusesThatRequestAlone) {
  CreateCollectionCall call;
  call.name = "c";
  call.request_id = "create-1";
  ASSERT_TRUE(engine_->CreateCollection(call).ok());
  EditStore([](Store*, WriteBatch* batch) { batch->Put(Table::kMeta, keys::Meta(RequestName("create-1")), "x"); });
  Restart();
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kDataLoss, {"request record"}));
  call.name = "d";
  call.request_id = "create-2";
  EXPECT_TRUE(engine_->CreateCollection(call).ok());
}

TEST_F(EngineLife, ADroppedCollectionIsGoneFromDiskAndItsNameIsFree) {
  MakeCollection();
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}));
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/index/1"));
  EXPECT_TRUE(Fails(engine_->Count("c", std::nullopt, {}), Code::kNotFound, {"no collection 'c'"}));
  MakeCollection();
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, 0u);
  EXPECT_TRUE(Hits(SearchFor({1, 0, 0, 0})).empty());
  Restart();
  EXPECT_EQ(engine_->GetCollection("c")->sequence, 0u);
}

TEST_F(EngineLife, TheSameDataAnswersTheSameAfterARestartAndARebuild) {
  MakeCollection(2);
  std::mt19937 random(2);
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 400; ++i) items.push_back(ItemOf(Id(i), RandomVector(&random, kDimension)));
  Write(BatchOf(std::move(items), 1));
  std::vector<ItemId> gone;
  for (uint64_t i = 0; i < 400; i += 7) gone.push_back(Id(i));
  ASSERT_TRUE(engine_->Delete("c", gone, Durability::kProcess, {}).ok());
  std::vector<UpsertItem> newer;
  for (uint64_t i = 1; i < 400; i += 7) newer.push_back(ItemOf(Id(i), RandomVector(&random, kDimension)));
  Write(BatchOf(std::move(newer), 2, /*same_content=*/true));
  Activate(2);
  SearchCall call = SearchFor(RandomVector(&random, kDimension), 50);
  const auto answer = [&] {
    std::vector<std::tuple<ItemId, double, uint32_t>> all;
    for (const EngineHit& hit : Hits(call)) all.emplace_back(hit.id, hit.distance, hit.generation);
    return all;
  };
  const auto first = answer();
  EXPECT_EQ(first.size(), 50u);
  Restart();
  EXPECT_EQ(answer(), first);
  IndexSettings settings;
  settings.kind = SealedKind::kFlat;
  const auto rebuilt = engine_->Rebuild("c", settings, /*wait=*/true, "", {});
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  EXPECT_EQ(answer(), first);
  Restart();
  EXPECT_EQ(answer(), first);
  const auto status = engine_->GetCollection("c");
  EXPECT_EQ(status->index.kind, SealedKind::kFlat);
  EXPECT_EQ(status->items, 400u - gone.size());
  EXPECT_THAT(status->items_by_generation, ElementsAre(std::pair<uint32_t, uint64_t>(1, 400 - gone.size() - 57),
                                                       std::pair<uint32_t, uint64_t>(2, 57)));
}

TEST_F(EngineLife, AnIndexAheadOfItsStoreIsRebuiltFromTheStore) {
  MakeCollection();
  std::mt19937 random(5);
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 200; ++i) items.push_back(ItemOf(Id(i), RandomVector(&random, kDimension)));
  Write(BatchOf(std::move(items)));
  const SearchCall call = SearchFor(RandomVector(&random, kDimension), 200);
  const std::vector<std::string> before = HitNames(call);
  ASSERT_EQ(before.size(), 200u);
  const std::string store = folder_ / "store", kept = folder_ / "kept";
  engine_.reset();
  std::filesystem::copy(store, kept, std::filesystem::copy_options::recursive);

  // Then writes that a power loss takes from the store, while the index has them in synced files already.
  Restart();
  std::vector<UpsertItem> lost;
  for (uint64_t i = 100; i < 300; ++i) lost.push_back(ItemOf(Id(i), RandomVector(&random, kDimension)));
  Write(BatchOf(std::move(lost)));
  ASSERT_TRUE(engine_->Delete("c", {Id(uint64_t{0})}, Durability::kProcess, {}).ok());
  IndexSettings settings;
  settings.kind = SealedKind::kFlat;
  ASSERT_TRUE(engine_->Rebuild("c", settings, /*wait=*/true, "", {}).ok());
  engine_.reset();
  std::filesystem::remove_all(store);
  std::filesystem::rename(kept, store);

  Restart();
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, 200u);
  EXPECT_EQ(HitNames(call), before);
  EXPECT_EQ(Write(BatchOf({ItemOf(Id("new"), {1, 0, 0, 0})})), 2u) << "the store's sequence goes on, not the index's";
  EXPECT_EQ(Hits(SearchFor({1, 0, 0, 0}, 1))[0].id, Id("new"));
  Restart();
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, 201u);
  EXPECT_EQ(Hits(SearchFor({1, 0, 0, 0}, 1))[0].id, Id("new"));
}

TEST_F(EngineLife, ConcurrentWritersShareOneGapFreeSequence) {
  MakeCollection();
  std::vector<std::thread> writers;
  for (int w = 0; w < 8; ++w) {
    writers.emplace_back([&, w] {
      for (uint64_t i = 0; i < 30; ++i) {
        const auto written = engine_->Upsert(
            BatchOf({ItemOf(Id(static_cast<uint64_t>(w) * 1000 + i), {1, static_cast<float>(w), 0, 0})}), {});
        ASSERT_TRUE(written.ok()) << written.status();
      }
    });
  }
  for (auto& writer : writers) writer.join();
  const auto status = engine_->GetCollection("c");
  EXPECT_EQ(status->sequence, 240u);
  EXPECT_EQ(status->items, 240u);
}

TEST_F(EngineLife, AFullWriteQueueIsSaidAtOnce) {
  engine_.reset();
  EngineOptions options = OptionsFor(folder_.path());
  options.write_queue_max = 1;
  engine_ = OpenEngine(options);
  MakeCollection();
  std::atomic<int> refused{0}, written{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < 8; ++w) {
    writers.emplace_back([&, w] {
      for (uint64_t i = 0; i < 50; ++i) {
        const auto result =
            engine_->Upsert(BatchOf({ItemOf(Id(static_cast<uint64_t>(w) * 1000 + i), {1, 0, 0, 0})}), {});
        result.ok() ? ++written : ++refused;
        if (!result.ok()) {
          EXPECT_TRUE(Fails(result, Code::kResourceExhausted, {"waiting for the writer"}));
        }
      }
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(engine_->GetCollection("c")->items, static_cast<uint64_t>(written));
}

}  // namespace
}  // namespace lightcone::server
