// Strict mode: what a collection refuses beside the server's limits.
#include "engine_testing.h"
#include "server/engine/collection/meta.h"
#include "server/engine/collection/strict_checks.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using Kind = FilterNode::Kind;

class StrictModes : public EngineTest {
 protected:
  // A collection "c" with ten items, an index over "city", and strict mode as given.
  void MakeStrict(const StrictMode& strict) {
    MakeCollection();
    IndexPayloadCall index;
    index.collection = "c";
    index.add = {{"city", PayloadType::kKeyword}};
    ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < 10; ++i) {
      items.push_back(ItemOf(Id(i), {1, 0, 0, static_cast<float>(i)}, R"({"city":"Rome","year":2001})"));
    }
    Write(BatchOf(std::move(items)));
    Set(strict);
  }
  void Set(const StrictMode& strict) {
    UpdateCollectionCall update;
    update.collection = "c";
    update.strict_mode = strict;
    const auto updated = engine_->UpdateCollection(update);
    ASSERT_TRUE(updated.ok()) << updated.status();
  }
  static SearchCall Asked(int64_t k) {
    SearchCall call = SearchFor({1, 0, 0, 0}, k);
    call.exact = false;
    return call;
  }
  absl::Status Search(const SearchCall& call) { return engine_->Search(call, {}).status(); }
  absl::Status SetPayload(const std::string& payload, std::vector<ItemId> ids) {
    ChangePayloadCall call;
    call.collection = "c";
    call.payload_json = payload;
    call.ids = std::move(ids);
    return engine_->ChangePayload(call, {}).status();
  }
};

TEST_F(StrictModes, SearchesAreBoundedByWhatTheCollectionSays) {
  StrictMode strict;
  strict.enabled = true;
  strict.k_max = 5;
  strict.ef_max = 50;
  strict.queries_max = 2;
  strict.allow_exact = false;
  MakeStrict(strict);
  EXPECT_TRUE(Search(Asked(5)).ok());
  EXPECT_TRUE(Fails(Search(Asked(6)), Code::kInvalidArgument, {"strict mode of collection 'c'", "'k' is 6", "1 .. 5"}));
  SearchCall call = Asked(3);
  call.offset = 3;
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'offset' is 3", "0 .. 2"}));
  call = Asked(0);
  call.group_by = GroupBy{"city", 2, 3};
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'group_by.group_size' is 3", "1 .. 2"}));
  call = Asked(1);
  call.ef = 50;
  EXPECT_TRUE(Search(call).ok());
  call.ef = 51;
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'ef' is 51", ".. 50"}));
  call.ef = 0;
  call.nprobe = 51;
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'nprobe' is 51", ".. 50"}));
  call.nprobe = 0;
  call.target_recall = 0.9;
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'target_recall' is 0.9", "at most 50"}));
  call = Asked(1);
  call.exact = true;
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'exact' is true", "false"}));
  call = Asked(1);
  call.refresh_top = 6;
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'refresh_top' is 6", "0 .. 5"}));
  call = Asked(1);
  call.queries.resize(3, call.queries[0]);
  EXPECT_TRUE(Fails(Search(call), Code::kInvalidArgument, {"strict mode", "'queries' is 3 long", "1 .. 2"}));
}

TEST_F(StrictModes, TheServersOwnLimitsSayNothingOfStrictMode) {
  StrictMode strict;
  strict.enabled = true;
  strict.k_max = UINT32_MAX;
  MakeStrict(strict);
  const absl::Status refused = Search(Asked(10'001));
  EXPECT_TRUE(Fails(refused, Code::kInvalidArgument, {"'k' is 10001", "1 .. 10000"}));
  EXPECT_THAT(MessageOf(refused), testing::Not(testing::HasSubstr("strict mode")));
}

TEST_F(StrictModes, FiltersWithoutAnIndexAreRefusedByTheConditionsName) {
  StrictMode strict;
  strict.enabled = true;
  strict.allow_unindexed_reads = false;
  MakeStrict(strict);
  const FilterNode rome = Leaf(Kind::kEquals, "city", {std::string("Rome")});
  const FilterNode year = Leaf(Kind::kEquals, "year", {int64_t{2001}});
  const FilterNode both = Branch(Kind::kAnd, {rome, Branch(Kind::kNot, {year})});
  const std::vector<std::string> texts = {"strict mode of collection 'c'", "field 'filter'", "'year'",
                                          "lightcone collection index-payload c --add 'year=integer'"};
  const auto search = [this](const FilterNode& filter) {
    SearchCall call = Asked(3);
    call.filter = filter;
    return Search(call);
  };
  const auto facet = [this](const FilterNode& filter) {
    return engine_->Facet({"c", "city", filter, 10}, {}).status();
  };
  OrderBy order;
  order.field = "city";
  EXPECT_TRUE(Fails(search(both), Code::kFailedPrecondition, texts));
  EXPECT_TRUE(Fails(engine_->Scroll("c", both, 5, "", {}, {}), Code::kFailedPrecondition, texts));
  EXPECT_TRUE(Fails(engine_->ScrollOrdered("c", order, both, 5, "", {}, {}), Code::kFailedPrecondition, texts));
  EXPECT_TRUE(Fails(engine_->Count("c", both, {}), Code::kFailedPrecondition, texts));
  EXPECT_TRUE(Fails(facet(both), Code::kFailedPrecondition, texts));
  EXPECT_TRUE(search(rome).ok());
  EXPECT_TRUE(facet(rome).ok());
  EXPECT_EQ(engine_->Count("c", rome, {})->count, 10u);
  // What is written may still be filtered as ever.
  DeleteByFilterCall remove;
  remove.collection = "c";
  remove.filter = year;
  remove.limit = 1;
  EXPECT_TRUE(engine_->DeleteByFilter(remove, {}).ok());
  IndexPayloadCall index;
  index.collection = "c";
  index.add = {{"year", PayloadType::kInteger}};
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  EXPECT_TRUE(search(both).ok()) << "an index counts from its declaration on";
}

TEST_F(StrictModes, FiltersOfWritesAreRefusedOnTheirOwn) {
  StrictMode strict;
  strict.enabled = true;
  strict.allow_unindexed_writes = false;
  MakeStrict(strict);
  DeleteByFilterCall remove;
  remove.collection = "c";
  remove.filter = Leaf(Kind::kExists, "year");
  EXPECT_TRUE(Fails(engine_->DeleteByFilter(remove, {}), Code::kFailedPrecondition, {"strict mode", "'year'"}));
  ChangePayloadCall change;
  change.collection = "c";
  change.payload_json = R"({"seen":true})";
  change.filter = remove.filter;
  EXPECT_TRUE(Fails(engine_->ChangePayload(change, {}), Code::kFailedPrecondition, {"strict mode", "'year'"}));
  EXPECT_EQ(engine_->Count("c", remove.filter, {})->count, 10u);
  remove.filter = Leaf(Kind::kExists, "city");
  EXPECT_EQ(engine_->DeleteByFilter(remove, {})->deleted, 10u);
}

TEST_F(StrictModes, BatchesAndPayloadsAreBounded) {
  StrictMode strict;
  strict.enabled = true;
  strict.batch_items_max = 2;
  strict.payload_bytes_max = 20;
  MakeStrict(strict);
  const auto upsert = [this](size_t count, const std::string& payload) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < count; ++i) items.push_back(ItemOf(Id(100 + i), {0, 1, 0, 0}, payload));
    return engine_->Upsert(BatchOf(std::move(items)), {}).status();
  };
  const std::string just = R"({"a":"345678901234"})";
  ASSERT_EQ(just.size(), 20u);
  EXPECT_TRUE(upsert(2, just).ok());
  EXPECT_TRUE(Fails(upsert(3, just), Code::kInvalidArgument, {"strict mode", "'items' is 3 long", "1 .. 2"}));
  EXPECT_TRUE(Fails(upsert(1, just + " "), Code::kInvalidArgument,
                    {"strict mode", "'items[0].payload_json' is 21 bytes long", "at most 20"}));
  EXPECT_TRUE(Fails(SetPayload(just + " ", {Id(100)}), Code::kInvalidArgument,
                    {"strict mode", "'payload_json' is 21 bytes long", "at most 20"}));
  EXPECT_TRUE(Fails(SetPayload(R"({"b":1})", {Id(100)}), Code::kInvalidArgument, {"item 100", "at most 20"}));
  EXPECT_TRUE(Fails(SetPayload("{}", {Id(1), Id(2), Id(3)}), Code::kInvalidArgument,
                    {"strict mode", "'ids' is 3 long", "1 .. 2"}));
  EXPECT_TRUE(engine_->Delete("c", {Id(1), Id(2), Id(3)}, Durability::kDurable, {}).ok()) << "deletions are no upserts";
}

TEST_F(StrictModes, LimitsOutliveARestartAndHoldOnlyWhileTheyAreOn) {
  StrictMode strict;
  strict.k_max = 5;
  MakeStrict(strict);
  EXPECT_TRUE(Search(Asked(6)).ok()) << "nobody has turned it on";
  StrictMode on;
  on.enabled = true;
  Set(on);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(engine_->GetCollection("c")->strict_mode, Changed(strict, on));
    EXPECT_TRUE(Fails(Search(Asked(6)), Code::kInvalidArgument, {"strict mode", "1 .. 5"}));
    Restart();
  }
  StrictMode unbounded;
  unbounded.k_max = 0;
  Set(unbounded);
  EXPECT_TRUE(Search(Asked(6)).ok());
}

TEST_F(StrictModes, AnUpdateThatChangesNothingIsRefused) {
  MakeCollection();
  UpdateCollectionCall update;
  update.collection = "c";
  update.strict_mode = StrictMode();
  EXPECT_TRUE(Fails(engine_->UpdateCollection(update), Code::kInvalidArgument, {"strict_mode"}));
}

TEST(StrictConditions, EachKindWantsAnIndexThatAnswersIt) {
  CollectionRecord record;
  record.name = "c";
  record.strict_mode.enabled = true;
  record.strict_mode.allow_unindexed_reads = false;
  record.payload_fields = {{"word", PayloadType::kKeyword}, {"text", PayloadType::kText}, {"at", PayloadType::kGeo}};
  const auto check = [&record](const FilterNode& node) {
    const auto filter = Filter::Make(node);
    EXPECT_TRUE(filter.ok()) << filter.status();
    return CheckStrictFilter(record, &*filter, /*writes=*/false);
  };
  const auto text = [](std::string field, FilterNode::TextMatch match) {
    FilterNode node = Leaf(Kind::kText, std::move(field));
    node.match = match;
    node.text = "red";
    return node;
  };
  FilterNode near = Leaf(Kind::kGeoRadius, "at");
  near.radius = 10;
  FilterNode ids = Branch(Kind::kHasId);
  ids.ids = {Id(1)};
  FilterNode nested = Branch(Kind::kNested, {Leaf(Kind::kExists, "word")});
  nested.field = "word";
  EXPECT_TRUE(check(near).ok());
  EXPECT_TRUE(check(ids).ok());
  EXPECT_TRUE(check(Leaf(Kind::kEquals, "$generation", {int64_t{1}})).ok());
  EXPECT_TRUE(check(Leaf(Kind::kIsNull, "at")).ok());
  EXPECT_TRUE(check(Leaf(Kind::kEquals, "\"word\"", {std::string("red")})).ok()) << "another spelling of the path";
  EXPECT_TRUE(check(text("text", FilterNode::TextMatch::kPhrase)).ok());
  EXPECT_TRUE(check(text("word", FilterNode::TextMatch::kPrefix)).ok());
  const std::vector<std::pair<FilterNode, std::string>> refused = {
      {text("word", FilterNode::TextMatch::kWords), "word=text"},
      {text("text", FilterNode::TextMatch::kPrefix), "text=keyword"},
      {Leaf(Kind::kEquals, "text", {std::string("red")}), "text=keyword"},
      {Leaf(Kind::kEquals, "price", {1.5}), "price=float"},
      {Leaf(Kind::kIn, "sold", {true}), "sold=boolean"},
      {nested, "a nested condition on 'word'"}};
  for (const auto& [node, expected] : refused) {
    EXPECT_TRUE(Fails(check(node), Code::kFailedPrecondition, {expected}));
  }
}

TEST(StrictRecords, ComeBackAndOlderOnesHaveNone) {
  CollectionRecord record;
  record.name = "c";
  const std::string older = Encode(record);
  EXPECT_EQ(older.find("strict_mode"), std::string::npos);
  EXPECT_EQ(DecodeCollection(older)->strict_mode, StrictMode());
  record.strict_mode.enabled = true;
  record.strict_mode.allow_exact = false;
  record.strict_mode.k_max = 0;
  record.strict_mode.payload_bytes_max = UINT32_MAX;
  const std::string encoded = Encode(record);
  EXPECT_EQ(DecodeCollection(encoded)->strict_mode, record.strict_mode);
  std::string damaged = encoded;
  damaged.replace(damaged.find("4294967295"), 10, "4294967296");
  EXPECT_TRUE(Fails(DecodeCollection(damaged), Code::kDataLoss, {"'strict_mode'"}));
}

}  // namespace
}  // namespace lightcone::server
