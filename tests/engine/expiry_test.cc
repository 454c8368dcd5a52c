// Items expire to the millisecond in every kind of answer, whatever clocks, restarts, rollbacks and backfills do.
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "engine_testing.h"
#include "server/engine/api/options.h"
#include "snapshot/restore.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

constexpr int64_t kDayMs = 86'400'000;

class ItemExpiry : public EngineTest {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_.path() + "-restored", ignored);
  }

  // An engine whose clocks the test moves. Expired items are removed in the background all the same.
  void Open() { Open(folder_.path()); }
  void Open(const std::string& folder) {
    EngineOptions options = OptionsFor(folder);
    options.clock = {[this] { return absl::FromUnixMillis(wall_ms_.load()); },
                     [this] { return absl::Milliseconds(steady_ms_.load()); }};
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  void Reopen() {
    engine_.reset();
    Open();
  }
  void Pass(int64_t ms) {
    wall_ms_ += ms;
    steady_ms_ += ms;
  }

  static UpsertItem Item(uint64_t id, std::optional<int64_t> ttl_ms) {
    UpsertItem item = ItemOf(Id(id), {0.1f * static_cast<float>(id % 7), 0.2f, 0.3f, 0.01f * static_cast<float>(id)},
                             StrCat("{\"kind\":\"k", id % 2, "\"}"));
    item.ttl_ms = ttl_ms;
    return item;
  }
  void WriteItems(uint64_t first, uint64_t last, std::optional<int64_t> ttl_ms) {
    std::vector<UpsertItem> items;
    for (uint64_t id = first; id <= last; ++id) items.push_back(Item(id, ttl_ms));
    Write(BatchOf(std::move(items)));
  }

  std::set<uint64_t> Searched(bool exact, const std::optional<FilterNode>& filter = {}) {
    SearchCall call = SearchFor({0.1f, 0.2f, 0.3f, 0.4f}, 200);
    call.exact = exact;
    call.filter = filter;
    std::set<uint64_t> found;
    for (const EngineHit& hit : Hits(call)) found.insert(std::get<uint64_t>(hit.id.value));
    return found;
  }
  // What every kind of answer shows is exactly this.
  void ExpectItems(const std::set<uint64_t>& ids, const std::string& what) {
    EXPECT_EQ(Searched(true), ids) << what;
    EXPECT_EQ(Searched(false), ids) << what;
    const FilterNode any = Leaf(FilterNode::Kind::kIn, "kind", {std::string("k0"), std::string("k1")});
    EXPECT_EQ(Searched(true, any), ids) << what;
    std::vector<ItemId> asked;
    for (uint64_t id = 1; id <= 100; ++id) asked.push_back(Id(id));
    const auto got = engine_->Get("c", asked, 0, false, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->items.size(), ids.size()) << what;
    const auto page = engine_->Scroll("c", {}, 1'000, "", false, {});
    ASSERT_TRUE(page.ok()) << page.status();
    std::set<uint64_t> listed;
    for (const StoredItem& item : page->items) listed.insert(std::get<uint64_t>(item.id.value));
    EXPECT_EQ(listed, ids) << what;
    EXPECT_EQ(engine_->Count("c", {}, {})->count, ids.size()) << what;
    EXPECT_EQ(engine_->Count("c", any, {})->count, ids.size()) << what;
    FacetCall facet;
    facet.collection = "c";
    facet.field = "kind";
    const auto faceted = engine_->Facet(facet, {});
    ASSERT_TRUE(faceted.ok()) << faceted.status();
    uint64_t counted = 0;
    for (const auto& [value, count] : faceted->values) counted += count;
    EXPECT_EQ(counted, ids.size()) << what;
  }
  static std::set<uint64_t> From(uint64_t first, uint64_t last) {
    std::set<uint64_t> ids;
    for (uint64_t id = first; id <= last; ++id) ids.insert(ids.end(), id);
    return ids;
  }
  bool Comes(const std::function<bool()>& condition) {
    for (const absl::Time end = absl::Now() + absl::Seconds(30); absl::Now() < end; std::this_thread::yield()) {
      if (condition()) return true;
    }
    return false;
  }
  uint64_t Removed() { return engine_->GetCollection("c")->items_expired; }

  std::atomic<int64_t> wall_ms_{1'700'000'000'000};
  std::atomic<int64_t> steady_ms_{5'000};
};

TEST_F(ItemExpiry, AnItemIsInNoAnswerFromItsTimeOnAndItsSpaceComesBack) {
  MakeCollection();
  WriteItems(1, 30, std::nullopt);
  WriteItems(31, 60, 1'000);
  WriteItems(61, 90, 400'000);  // beyond what is held in memory
  ExpectItems(From(1, 90), "all");
  Pass(999);
  ExpectItems(From(1, 90), "a millisecond before");
  Pass(1);
  std::set<uint64_t> left = From(1, 30);
  left.merge(From(61, 90));
  ExpectItems(left, "at the millisecond");
  EXPECT_TRUE(Comes([&] { return Removed() == 30; }));
  EXPECT_EQ(engine_->GetCollection("c")->items, 60u);
  ExpectItems(left, "removed");
  Pass(398'999);
  ExpectItems(left, "before the later ones");
  Pass(1);
  EXPECT_TRUE(Comes([&] { return Removed() == 60; }));
  ExpectItems(From(1, 30), "the later ones");
  engine_.reset();
  auto store = OpenStore(folder_ / "store", OptionsFor(folder_.path()).store);
  ASSERT_TRUE(store.ok()) << store.status();
  const keys::Range range = keys::ExpiryRange(1);
  EXPECT_FALSE((*store)->Scan(Table::kItems, range.begin, range.end)->Valid()) << "a row of a removed item stays";
}

TEST_F(ItemExpiry, AnswersTellTheTimeAndAnUpsertSetsItAnew) {
  MakeCollection();
  WriteItems(1, 1, 5'000);
  const auto expires = [&]() -> std::optional<absl::Time> {
    return engine_->Get("c", {Id(1)}, 0, false, {})->items.at(0).expires;
  };
  EXPECT_EQ(expires(), absl::FromUnixMillis(wall_ms_ + 5'000));
  Pass(4'000);
  WriteItems(1, 1, 5'000);
  Pass(4'000);
  ExpectItems({1}, "a second life");
  WriteItems(1, 1, 0);
  EXPECT_EQ(expires(), std::nullopt);
  Pass(100 * kDayMs);
  ExpectItems({1}, "for good");
}

TEST_F(ItemExpiry, ACollectionsDefaultIsForUpsertsThatSayNothing) {
  CreateCollectionCall call;
  call.name = "c";
  call.default_ttl_ms = 2'000;
  ASSERT_TRUE(engine_->CreateCollection(call).ok());
  Register(0);
  Activate(1);
  WriteItems(1, 2, std::nullopt);
  WriteItems(3, 3, 0);
  UpdateCollectionCall update;
  update.collection = "c";
  update.default_ttl_ms = 50'000;
  const auto updated = engine_->UpdateCollection(update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->default_ttl_ms, 50'000);
  WriteItems(4, 4, std::nullopt);
  Pass(2'000);
  ExpectItems({3, 4}, "the old default's");
  Reopen();
  EXPECT_EQ(engine_->GetCollection("c")->default_ttl_ms, 50'000);
  WriteItems(5, 5, std::nullopt);
  Pass(50'000);
  ExpectItems({3}, "the new default's");
  update.default_ttl_ms = -1;
  EXPECT_TRUE(
      Fails(engine_->UpdateCollection(update), Code::kInvalidArgument, {"default_ttl_ms", "-1", "0 (items stay)"}));
}

TEST_F(ItemExpiry, AnExpiredItemIsAsOneThatWasDeletedForEveryWrite) {
  MakeCollection(2);
  WriteItems(1, 4, 1'000);
  Pass(1'000);
  // Whether or not it has been removed by now.
  UpsertItem anew = Item(1, std::nullopt);
  anew.expected_sequence = 0;
  EXPECT_TRUE(engine_->Upsert(BatchOf({anew}), {})->outdated.empty());
  UpsertItem embedded = ItemOf(Id(2), {1, 0, 0, 0});
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({embedded}, 2, /*same_content=*/true), {}), Code::kNotFound, {"items[0]"}));
  embedded.expected_sequence = 1;
  EXPECT_EQ(engine_->Upsert(BatchOf({embedded}, 2, /*same_content=*/true), {})->outdated.size(), 1u);
  EXPECT_EQ(engine_->Delete("c", {Id(3)}, Durability::kDurable, {})->items, 0u);
  ChangePayloadCall change;
  change.collection = "c";
  change.change = PayloadChange::kSet;
  change.ids = {Id(4)};
  change.payload_json = "{\"a\":1}";
  EXPECT_EQ(engine_->ChangePayload(change, {})->missing, change.ids);
  ExpectItems({1}, "written anew alone");
}

TEST_F(ItemExpiry, AnotherEmbeddingAndAPayloadKeepTheTime) {
  MakeCollection(2);
  WriteItems(1, 2, 10'000);
  Pass(5'000);
  Write(BatchOf({ItemOf(Id(1), {1, 0, 0, 0})}, 2, /*same_content=*/true));
  ChangePayloadCall change;
  change.collection = "c";
  change.change = PayloadChange::kSet;
  change.ids = {Id(2)};
  change.payload_json = "{\"a\":1}";
  ASSERT_TRUE(engine_->ChangePayload(change, {}).ok());
  UpsertItem timed = ItemOf(Id(1), {1, 0, 0, 0});
  timed.ttl_ms = 1;
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({timed}, 2, /*same_content=*/true), {}), Code::kInvalidArgument,
                    {"items[0].ttl_ms", "same_content"}));
  timed.ttl_ms = kTtlMaxMs + 1;
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf({timed}), {}), Code::kInvalidArgument, {"items[0].ttl_ms"}));
  Activate(2, /*force=*/true);
  Pass(4'999);
  EXPECT_EQ(engine_->Count("c", {}, {})->count, 2u);
  Pass(1);
  EXPECT_EQ(engine_->Count("c", {}, {})->count, 0u);
  SwitchCall back;
  back.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  ExpectItems({}, "after a rollback");
}

TEST_F(ItemExpiry, AReplacedVectorGoesWithItsPayloadAtItsTime) {
  MakeCollection();
  IndexPayloadCall index;
  index.collection = "c";
  index.add = {{"kind", PayloadType::kKeyword}};
  index.wait = true;
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  WriteItems(1, 4, 10'000);
  WriteItems(5, 6, 0);
  Pass(5'000);
  UpsertBatch again = BatchOf({});
  for (const uint64_t id : {1, 2, 5}) again.items.push_back(ItemOf(Id(id), {0.3f, 0.1f, 0, 0}));
  again.keep_payload = true;
  Write(again);
  ExpectItems(From(1, 6), "with other vectors");
  Pass(4'999);
  ExpectItems(From(1, 6), "just before their time");
  Pass(1);
  ExpectItems(From(5, 6), "at their time");
  EXPECT_TRUE(Fails(engine_->Upsert(again, {}), absl::StatusCode::kNotFound, {"items[0]"}));
  EXPECT_TRUE(Comes([&] { return Removed() == 4; }));
  ExpectItems(From(5, 6), "when their space has come back");
}

TEST_F(ItemExpiry, AClockThatIsTurnedBackBringsNothingBack) {
  MakeCollection();
  WriteItems(1, 5, 2'000);
  WriteItems(6, 9, 60'000);
  wall_ms_ -= kDayMs;
  ExpectItems(From(1, 9), "the time that has passed is none");
  steady_ms_ += 2'000;
  ExpectItems(From(6, 9), "the steady clock goes on");
  WriteItems(10, 10, 3'000);
  steady_ms_ += 3'000;
  ExpectItems(From(6, 9), "an item that was written under the wrong clock");
  wall_ms_ += 2 * kDayMs;
  ExpectItems({}, "a day ahead");
}

TEST_F(ItemExpiry, AStartUnderAnEarlierClockKnowsWhatHasExpired) {
  MakeCollection();
  WriteItems(1, 5, 2'000);
  WriteItems(6, 9, 7'000);
  Pass(2'000);
  EXPECT_TRUE(Comes([&] { return Removed() == 5; }));
  engine_.reset();
  wall_ms_ -= kDayMs;
  Open();
  ExpectItems(From(6, 9), "not yet");
  steady_ms_ += 7'000;
  ExpectItems({}, "no later than its time from the last start on");
}

TEST_F(ItemExpiry, ARestoreBringsBackNothingWhoseTimeHasCome) {
  MakeCollection();
  WriteItems(1, 5, 2'000);
  WriteItems(6, 9, 60'000);
  const auto made = engine_->snapshots().Create({"before"}, {});
  ASSERT_TRUE(made.ok()) << made.status();
  Pass(2'000);
  EXPECT_TRUE(Comes([&] { return Removed() == 5; }));
  const std::string data = folder_.path() + "-restored/data";
  const auto restored = RestoreSnapshot(made->folder, data);
  ASSERT_TRUE(restored.ok()) << restored.status();
  engine_.reset();
  Open(data);
  ExpectItems(From(6, 9), "the snapshot holds all nine");
  EXPECT_TRUE(Comes([&] { return Removed() == 5; })) << "their space comes back there, too";
  Pass(58'000);
  ExpectItems({}, "the time goes on");
}

TEST_F(ItemExpiry, SearchesBesideExpiryNeverShowAnExpiredItem) {
  MakeCollection();
  constexpr uint64_t kItems = 400;
  std::vector<UpsertItem> items;
  for (uint64_t id = 1; id <= kItems; ++id) items.push_back(Item(id, static_cast<int64_t>(10 * id)));
  Write(BatchOf(std::move(items)));
  const int64_t start = wall_ms_;
  std::atomic<bool> ended{false};
  std::atomic<int> searches{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      while (!ended) {
        const int64_t before = wall_ms_;
        SearchCall call = SearchFor({0.1f, 0.2f, 0.3f, 0.4f}, kItems);
        call.exact = t == 0;
        for (const EngineHit& hit : Hits(call)) {
          const auto id = static_cast<int64_t>(std::get<uint64_t>(hit.id.value));
          EXPECT_GT(start + 10 * id, before) << id;
        }
        ++searches;
      }
    });
  }
  std::thread writer([&] {  // Others replace what expires meanwhile.
    for (uint64_t id = 1; !ended; id = id % kItems + 1) {
      if (10 * static_cast<int64_t>(id) < wall_ms_ - start) Write(BatchOf({Item(1'000 + id, 1)}));
    }
  });
  for (int i = 0; i < 450; ++i) {
    Pass(10);
    const int before = searches;
    EXPECT_TRUE(Comes([&] { return searches > before; }));
  }
  ended = true;
  for (std::thread& reader : readers) reader.join();
  writer.join();
  Pass(10);
  ExpectItems({}, "the end");
}

TEST_F(ItemExpiry, QueriesOfTwoVectorsShowNoExpiredItem) {
  MakeCollection(2);
  std::vector<UpsertItem> items;
  for (uint64_t id = 1; id <= 300; ++id) {
    items.push_back(Item(id, id % 60 == 1 ? std::optional<int64_t>(1'000) : std::nullopt));
  }
  Write(BatchOf(std::move(items), 1));
  Activate(2, /*force=*/true);
  SearchCall call = SearchFor({0.1f, 0.2f, 0.3f, 0.4f}, 300, 2);
  call.queries[0].older_vectors = {{1, {0.1f, 0.2f, 0.3f, 0.4f}}};
  EXPECT_EQ(Hits(call).size(), 300u);
  Pass(1'000);
  for (const int64_t k : {int64_t{10}, int64_t{300}}) {
    for (const bool exact : {true, false}) {
      call.k = k;
      call.exact = exact;
      const std::vector<EngineHit> hits = Hits(call);
      EXPECT_EQ(hits.size(), static_cast<size_t>(std::min<int64_t>(k, 295)));
      for (const EngineHit& hit : hits) EXPECT_NE(std::get<uint64_t>(hit.id.value) % 60, 1u);
    }
  }
}

TEST_F(ItemExpiry, AClockThatLeapsShowsNothingThatItHasPassed) {
  MakeCollection();
  WriteItems(1, 40, 100'000'000);  // far beyond what is held in memory
  Pass(100'000'000);
  EXPECT_TRUE(Hits(SearchFor({0.1f, 0.2f, 0.3f, 0.4f}, 100)).empty());
  EXPECT_EQ(engine_->Count("c", {}, {})->count, 0u);
}

TEST_F(ItemExpiry, ABurstOfExpiriesLeavesExactlyTheOthers) {
  MakeCollection();
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < 2'000; ++i) {
      const uint64_t id = 1'000 + static_cast<uint64_t>(batch) * 2'000 + i;
      items.push_back(Item(id, id % 10 == 0 ? std::optional<int64_t>() : 1'000));
    }
    Write(BatchOf(std::move(items)));
  }
  Pass(1'000);
  EXPECT_EQ(engine_->Count("c", {}, {})->count, 2'000u);
  SearchCall call = SearchFor({0.1f, 0.2f, 0.3f, 0.4f}, 3'000);
  EXPECT_EQ(Hits(call).size(), 2'000u);
  EXPECT_TRUE(Comes([&] { return engine_->GetCollection("c")->items == 2'000; }));
  Reopen();
  EXPECT_EQ(Hits(call).size(), 2'000u);
}

}  // namespace
}  // namespace lightcone::server
