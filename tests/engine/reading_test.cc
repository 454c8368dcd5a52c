// Reading while others write: what happens between two reads of the store is decided by the test.
#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "engine_testing.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"
#include "tests/engine/forwarding_store.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

// What happens right before the next read of a table by the test's own thread, once.
struct Meanwhile {
  const std::thread::id thread = std::this_thread::get_id();
  Table table = Table::kItems;
  std::function<void()> happens;
  std::atomic<int64_t> keys_read{0};  // by MultiGet, of all tables
};

class InterruptedStore final : public ForwardingStore {
 public:
  InterruptedStore(std::unique_ptr<Store> inner, Meanwhile* meanwhile)
      : ForwardingStore(std::move(inner)), meanwhile_(meanwhile) {}

  absl::StatusOr<std::string> Get(Table table, std::string_view key) const override {
    Interrupt(table);
    return ForwardingStore::Get(table, key);
  }
  std::vector<absl::StatusOr<std::string>> MultiGet(Table table, std::span<const std::string> keys) const override {
    Interrupt(table);
    meanwhile_->keys_read += static_cast<int64_t>(keys.size());
    return ForwardingStore::MultiGet(table, keys);
  }

 private:
  void Interrupt(Table table) const {
    if (std::this_thread::get_id() != meanwhile_->thread) return;
    if (!meanwhile_->happens || meanwhile_->table != table) return;
    const std::function<void()> happens = std::exchange(meanwhile_->happens, nullptr);  // it reads the store itself
    happens();
  }

  Meanwhile* const meanwhile_;
};

class Reading : public EngineTest {
 protected:
  void SetUp() override {
    EngineOptions options = OptionsFor(folder_.path());
    options.search_threads = 1;  // what runs side by side elsewhere runs in its order here
    auto store = OpenStore(options.data_folder + "/store", options.store);
    ASSERT_TRUE(store.ok()) << store.status();
    auto interrupted = std::make_unique<InterruptedStore>(std::move(*store), &meanwhile_);
    store_ = interrupted.get();
    auto engine = std::make_unique<EngineImpl>(options, std::move(interrupted));
    ASSERT_TRUE(engine->Load().ok());
    engine_ = std::move(engine);
  }

  void BeforeTheNextReadOf(Table table, std::function<void()> happens) {
    meanwhile_.table = table;
    meanwhile_.happens = std::move(happens);
  }

  // As a write of raw inputs leaves it, without an encoder: content of this internal id that has an input.
  void PutWithInput(const ItemId& id, uint64_t internal_id, const std::string& image, uint64_t replaced = 0) {
    WriteBatch batch;
    batch.Put(Table::kItems, keys::Item(kNumber, id), EncodeItem({internal_id, internal_id, {1}, "{}", true}));
    batch.Put(Table::kEmbeddings, keys::Embedding(kNumber, 1, internal_id), EncodeEmbedding({{1, 0, 0, 0}, 0}));
    if (!image.empty()) batch.Put(Table::kInputs, keys::Input(kNumber, internal_id), EncodeInput(RawInput(image)));
    if (replaced != 0) {
      batch.Delete(Table::kInputs, keys::Input(kNumber, replaced));
      batch.Delete(Table::kEmbeddings, keys::Embedding(kNumber, 1, replaced));
    }
    ASSERT_TRUE(store_->Write(batch, Durability::kProcess).ok());
  }

  static constexpr uint32_t kNumber = 1;  // of the only collection

  Meanwhile meanwhile_;
  Store* store_ = nullptr;
};

TEST_F(Reading, AScrollGivesNoItemWhoseNewContentDoesNotPassTheFilter) {
  MakeCollection();
  const std::string red = R"({"colour":"red"})", blue = R"({"colour":"blue"})";
  const FilterNode is_red = Leaf(FilterNode::Kind::kEquals, "colour", {std::string("red")});
  for (const bool late : {false, true}) {
    Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}, red), ItemOf(Id("b"), {1, 0, 0, 0}, red)}));
    BeforeTheNextReadOf(Table::kEmbeddings, [&] { Write(BatchOf({ItemOf(Id("a"), {0, 1, 0, 0}, blue)})); });
    FilterNode any = Leaf(FilterNode::Kind::kRange, "$uncertainty");
    any.greater_equal = 0.0;
    const FilterNode filter = late ? Branch(FilterNode::Kind::kAnd, {is_red, any}) : is_red;
    const auto page = engine_->Scroll("c", filter, 0, "", false, {});
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_FALSE(meanwhile_.happens) << "nothing happened meanwhile";
    ASSERT_EQ(page->items.size(), 1u) << late;
    EXPECT_EQ(page->items[0].id, Id("b"));
  }
}

TEST_F(Reading, TheInputOfAnItemThatIsReplacedMeanwhileIsThatOfItsNewContent) {
  MakeCollection();
  PutWithInput(Id("a"), 71, "first");
  BeforeTheNextReadOf(Table::kInputs, [&] { PutWithInput(Id("a"), 72, "second", /*replaced=*/71); });
  const auto input = engine_->GetInput("c", Id("a"));
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(std::get<std::string>(*input), "second");
  PutWithInput(Id("a"), 73, "", /*replaced=*/72);
  EXPECT_TRUE(Fails(engine_->GetInput("c", Id("a")), Code::kDataLoss, {"item 'a'", "input is missing"}));
  Write(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0})}));
  EXPECT_TRUE(Fails(engine_->GetInput("c", Id("b")), Code::kFailedPrecondition, {"'b'", "was not kept"}));
}

TEST_F(Reading, AnItemOfWhichASearchMeetsTwoEmbeddingsTakesOnePlaceOfTheK) {
  MakeCollection(3);
  Activate(3);
  const std::string payload = R"({"kept":true})";
  Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0}, payload), ItemOf(Id("y"), {0, 1, 0, 0}, payload)}, 1));
  for (const uint32_t g : {2u, 3u}) Write(BatchOf({ItemOf(Id("x"), {1, 0, 0, 0})}, g, /*same_content=*/true));
  ASSERT_TRUE(engine_->Rebuild("c", {}, /*wait=*/true, "", {}).ok()) << "segments that outlive the retirement";
  SearchCall call = SearchFor({1, 0, 0, 0}, 2);
  call.filter = Leaf(FilterNode::Kind::kEquals, "kept", {true});
  const std::vector<std::string> both = {"'x'@3", "'y'@1"};
  ASSERT_EQ(HitNames(call), both);
  // The view is pinned before payloads are looked at. Without generation 2, which superseded it, the row of generation
  // 1 is superseded by generation 3: later than the view was pinned, as far as the row can say.
  BeforeTheNextReadOf(Table::kItems, [&] {
    Write(BatchOf({ItemOf(Id("z"), {0, 0, 1, 0})}));
    const auto retired = engine_->RetireGeneration({"", "c", 2, "a test"});
    ASSERT_TRUE(retired.ok()) << retired.status();
    while (!engine_->GetJob(retired->job)->final()) std::this_thread::yield();
  });
  EXPECT_EQ(HitNames(call), both);
  EXPECT_FALSE(meanwhile_.happens) << "nothing happened meanwhile";
}

TEST_F(Reading, AnAnswerThatWouldBeTooLargeIsNotReadToItsEnd) {
  MakeCollection();
  constexpr size_t kItems = 500;
  std::vector<ItemId> ids;
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < kItems; ++i) {
    ids.push_back(Id(i));
    items.push_back(ItemOf(ids[i], {1, 0, 0, 0}, "{\"t\":\"" + std::string(1'000, 'x') + "\"}"));
  }
  Write(BatchOf(std::move(items)));
  CallContext small;
  small.answer_bytes_max = 20'000;
  const auto keys_read_when_refused = [&](const absl::Status& status) {
    EXPECT_TRUE(Fails(status, Code::kResourceExhausted, {"field 'limits.answer_bytes_max' is 20000", "about"}));
    return meanwhile_.keys_read.exchange(0);
  };
  meanwhile_.keys_read = 0;
  EXPECT_LT(keys_read_when_refused(engine_->Get("c", ids, 0, false, small).status()), 200) << "of 500 items";
  EXPECT_TRUE(engine_->Get("c", {ids.begin(), ids.begin() + 15}, 0, true, small).ok());

  SearchCall call = SearchFor({1, 0, 0, 0}, 100);
  ASSERT_TRUE(engine_->Search(call, small).ok()) << "ids alone";
  call.queries.resize(40, call.queries[0]);
  meanwhile_.keys_read = 0;
  EXPECT_EQ(keys_read_when_refused(engine_->Search(call, small).status()), 0) << "the hits alone are too many";
  call.k = 7;
  EXPECT_TRUE(engine_->Search(call, small).ok());
  call.with_payload = true;
  meanwhile_.keys_read = 0;
  EXPECT_LT(keys_read_when_refused(engine_->Search(call, small).status()), 100) << "of 280 payloads";
  call.queries.resize(2);
  EXPECT_TRUE(engine_->Search(call, small).ok());
  call.with_payload = false;
  call.with_vector = true;
  call.k = 100;
  const auto with_vectors = engine_->Search(call, small);
  ASSERT_TRUE(with_vectors.ok()) << with_vectors.status();
  for (const EngineHit& hit : with_vectors->results[1].hits) EXPECT_EQ(hit.vector.size(), 4u);
  call.queries.resize(4, call.queries[0]);
  (void)keys_read_when_refused(engine_->Search(call, small).status());
}

TEST_F(Reading, APageOfAScrollEndsBeforeItIsTooLargeAndNothingIsReadTwice) {
  MakeCollection();
  constexpr uint64_t kItems = 100;
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < kItems; ++i) {
    const size_t bytes = i == 50 ? 30'000 : 1'000;  // one is too large for any page
    items.push_back(ItemOf(Id(i), {1, 0, 0, 0}, "{\"t\":\"" + std::string(bytes, 'x') + "\"}"));
  }
  Write(BatchOf(std::move(items)));
  CallContext small;
  small.answer_bytes_max = 10'000;
  const std::optional<FilterNode> all, with_text = Leaf(FilterNode::Kind::kExists, "t");
  for (const std::optional<FilterNode>& filter : {all, with_text}) {
    meanwhile_.keys_read = 0;
    uint64_t next = 0;
    int64_t pages = 0;
    std::string token;
    do {
      const auto page = engine_->Scroll("c", filter, 0, token, true, small);
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_FALSE(page->items.empty());
      EXPECT_LT(page->items.size(), 10u);
      for (const StoredItem& item : page->items) {
        EXPECT_EQ(item.id, Id(next));
        EXPECT_TRUE(page->items.size() == 1 || next != 50) << "a page of its own";
        ++next;
      }
      token = page->token;
      ++pages;
    } while (!token.empty());
    EXPECT_EQ(next, kItems);
    EXPECT_LT(pages, 20);
    EXPECT_LE(meanwhile_.keys_read, static_cast<int64_t>(kItems) + 2 * pages) << "besides how each page ends";
  }
}

TEST(LegsDeadlineTest, LeavesATenthOfTheTimeAndAtMostTwentyMilliseconds) {
  const absl::Time now = absl::FromUnixSeconds(1'000);
  EXPECT_EQ(LegsDeadline(now + absl::Seconds(1), now), now + absl::Milliseconds(980));
  EXPECT_EQ(LegsDeadline(now + absl::Milliseconds(100), now), now + absl::Milliseconds(90));
  for (const absl::Time none : {now, now - absl::Seconds(1), absl::InfinitePast(), absl::InfiniteFuture()}) {
    EXPECT_EQ(LegsDeadline(none, now), none);
  }
}

TEST_F(Reading, AnAnswerIsPartialSoEarlyThatItReachesACallerWithADeadline) {
  MakeCollection();
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}));
  SearchCall call = SearchFor({1, 0, 0, 0}, 1);
  call.queries.resize(8, call.queries[0]);  // more than one thread takes at once
  int64_t looks = 0, looks_all = -1;
  CallContext context;
  context.cancelled = [&] {
    // The last look of the last queries: the reserve has begun, and the caller's deadline is not over yet.
    if (++looks == looks_all) {
      while (absl::Now() < context.deadline - absl::Milliseconds(20)) std::this_thread::yield();
    }
    return false;
  };
  auto answer = engine_->Search(call, context);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->partial);
  looks_all = std::exchange(looks, 0);
  context.deadline = absl::Now() + absl::Seconds(2);
  answer = engine_->Search(call, context);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->partial);
  ASSERT_TRUE(answer->results[0].status.ok()) << answer->results[0].status;
  EXPECT_EQ(answer->results[0].hits.size(), 1u);
  EXPECT_TRUE(Fails(answer->results[7].status, Code::kDeadlineExceeded, {"deadline"}));
}

}  // namespace
}  // namespace lightcone::server
