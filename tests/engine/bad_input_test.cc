// Every bad input that the engine meets: the code and the text that its caller reads.
#include <fstream>
#include <limits>

#include "absl/time/clock.h"
#include "engine_testing.h"
#include "server/engine/collection/meta.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class BadInput : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    MakeCollection();
    Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}));
  }
  absl::Status UpsertStatus(UpsertBatch batch) { return engine_->Upsert(std::move(batch), {}).status(); }
  // Nothing of a refused batch is there.
  void TearDown() override {
    const auto counted = engine_->Count("c", std::nullopt, {});
    ASSERT_TRUE(counted.ok());
    EXPECT_EQ(counted->count, 1u);
  }
};

TEST_F(BadInput, AVectorOfAnotherLengthNamesItsPlaceAndTheLengthAllowed) {
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0}), ItemOf(Id("d"), {1, 0})})),
                    Code::kInvalidArgument, {"items[1].vector", "2", "4"}));
  const auto answer = engine_->Search(SearchFor({1, 0}), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"queries[0].vector", "2", "4"}));
}

TEST_F(BadInput, NanAndInfinityAreNamedWithTheirPosition) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf({ItemOf(Id("b"), {1, 0, nan, 0})})), Code::kInvalidArgument,
                    {"items[0].vector[2]", "nan", "allowed: a finite number"}));
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf({ItemOf(Id("b"), {1, inf, 0, 0})})), Code::kInvalidArgument,
                    {"items[0].vector[1]", "inf", "allowed: a finite number"}));
}

TEST_F(BadInput, UnknownNamesListWhatThereIs) {
  EXPECT_TRUE(Fails(engine_->GetCollection("foo"), Code::kNotFound, {"no collection 'foo'"}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.collection = "foo";
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kNotFound, {"no collection 'foo'"}));
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0})}, 7)), Code::kNotFound,
                    {"no generation 7", "there are: 1"}));
  EXPECT_TRUE(Fails(engine_->Search(SearchFor({1, 0, 0, 0}, 10, 9), {}), Code::kNotFound,
                    {"no generation 9 in collection 'c'; there are: 1"}));
  ActivateCall activate;
  activate.collection = "c";
  activate.generation = 9;
  EXPECT_TRUE(Fails(engine_->ActivateGeneration(activate), Code::kNotFound,
                    {"no generation 9 in collection 'c'; there are: 1"}));
  EXPECT_TRUE(Fails(engine_->GetGeneration("c", 5), Code::kNotFound, {"no generation 5", "there are: 1"}));
  EXPECT_TRUE(Fails(engine_->DropCollection("foo", ""), Code::kNotFound, {"no collection 'foo'"}));
}

TEST_F(BadInput, AnUnknownItemIsMissingInGetAndAnErrorOfItsQueryInSearch) {
  const auto got = engine_->Get("c", {Id("a"), Id("zz")}, 0, false, {});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->items.size(), 1u);
  ASSERT_EQ(got->missing.size(), 1u);
  EXPECT_EQ(got->missing[0], Id("zz"));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.queries.emplace_back();
  call.queries[1].content = QueryByItem{Id("zz")};
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->results[0].hits.size(), 1u) << "one bad query loses the others";
  EXPECT_TRUE(Fails(answer->results[1].status, Code::kNotFound, {"queries[1].item", "zz"}));
}

TEST_F(BadInput, EmptyAndOversizedBatchesAreRefused) {
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf({})), Code::kInvalidArgument, {"items", "empty"}));
  EXPECT_TRUE(Fails(engine_->Get("c", {}, 0, false, {}), Code::kInvalidArgument, {"ids", "empty"}));
  EXPECT_TRUE(Fails(engine_->Delete("c", {}, Durability::kDurable, {}), Code::kInvalidArgument, {"ids", "empty"}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.queries.clear();
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"queries", "empty"}));
  std::vector<UpsertItem> many;
  for (uint64_t i = 0; i <= 10'000; ++i) many.push_back(ItemOf(Id(i), {1, 0, 0, 0}));
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf(std::move(many))), Code::kInvalidArgument, {"items", "10001", "10000"}));
  call.queries.resize(1'001);
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"queries", "1001", "1000"}));
  std::vector<ItemId> ids;
  for (uint64_t i = 0; i <= 10'000; ++i) ids.push_back(Id(i));
  EXPECT_TRUE(Fails(engine_->Get("c", ids, 0, false, {}), Code::kInvalidArgument, {"ids", "10001", "10000"}));
  EXPECT_TRUE(
      Fails(engine_->Delete("c", ids, Durability::kDurable, {}), Code::kInvalidArgument, {"ids", "10001", "10000"}));
}

TEST_F(BadInput, IdsHaveALengthAndAreUtf8) {
  const auto with_id = [&](std::string id) {
    return UpsertStatus(BatchOf({ItemOf(ItemId{std::move(id)}, {1, 0, 0, 0})}));
  };
  EXPECT_TRUE(Fails(with_id(""), Code::kInvalidArgument, {"items[0].id", "empty", "1 .. 512 bytes of UTF-8"}));
  EXPECT_TRUE(Fails(with_id(std::string(513, 'x')), Code::kInvalidArgument, {"items[0].id", "513", "512"}));
  EXPECT_TRUE(Fails(with_id("\xff\xfe"), Code::kInvalidArgument, {"items[0].id", "not UTF-8"}));
  EXPECT_TRUE(Fails(engine_->Get("c", {ItemId{std::string()}}, 0, false, {}), Code::kInvalidArgument, {"ids[0]"}));
}

TEST_F(BadInput, AnIdTwiceInABatchNamesBothPlaces) {
  EXPECT_TRUE(Fails(UpsertStatus(BatchOf(
                        {ItemOf(Id("x"), {1, 0, 0, 0}), ItemOf(Id(1), {1, 0, 0, 0}), ItemOf(Id("x"), {1, 0, 0, 0})})),
                    Code::kInvalidArgument, {"items[2].id", "items[0]"}));
}

TEST_F(BadInput, PayloadsAreJsonObjectsWithinALimit) {
  const auto with_payload = [&](std::string payload) {
    return UpsertStatus(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0}, std::move(payload))}));
  };
  EXPECT_TRUE(
      Fails(with_payload("{\"a\": }"), Code::kInvalidArgument, {"items[0].payload_json", "byte 7", "JSON object"}));
  EXPECT_TRUE(Fails(with_payload("[1]"), Code::kInvalidArgument, {"items[0].payload_json", "JSON object"}));
  EXPECT_TRUE(Fails(with_payload("{} x"), Code::kInvalidArgument, {"malformed JSON"}));
  EXPECT_TRUE(Fails(with_payload("{\"a\":\"\xff\"}"), Code::kInvalidArgument, {"malformed JSON"}));
  EXPECT_TRUE(Fails(with_payload("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"),
                    Code::kInvalidArgument, {"nested too deep"}));
  EXPECT_TRUE(Fails(with_payload("{\"a\":\"" + std::string(1 << 20, 'x') + "\"}"), Code::kInvalidArgument,
                    {"items[0].payload_json", "1048584", "1048576"}));
}

TEST_F(BadInput, KAndEfHaveRanges) {
  EXPECT_TRUE(Fails(engine_->Search(SearchFor({1, 0, 0, 0}, 0), {}), Code::kInvalidArgument,
                    {"field 'k' is 0; allowed: 1 .. 10000"}));
  EXPECT_TRUE(Fails(engine_->Search(SearchFor({1, 0, 0, 0}, 10'001), {}), Code::kInvalidArgument, {"k", "10001"}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.ef = -1;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"ef"}));
}

TEST_F(BadInput, AFilterThatMakesNoSenseIsNamedByItsNode) {
  SearchCall call = SearchFor({1, 0, 0, 0});
  FilterNode bad;
  bad.kind = FilterNode::Kind::kRange;
  bad.field = "price";
  call.filter = Branch(FilterNode::Kind::kAnd, {Leaf(FilterNode::Kind::kExists, "a"), bad});
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"filter.and[1].range", "greater"}));
  EXPECT_TRUE(Fails(engine_->Count("c", call.filter, {}), Code::kInvalidArgument, {"filter.and[1].range"}));
  EXPECT_TRUE(Fails(engine_->Scroll("c", call.filter, 0, "", false, {}), Code::kInvalidArgument, {"filter.and[1]"}));
}

TEST_F(BadInput, ADeadlineThatIsOverDoesNothing) {
  CallContext late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_TRUE(Fails(engine_->Search(SearchFor({1, 0, 0, 0}), late), Code::kDeadlineExceeded, {"deadline"}));
  EXPECT_TRUE(
      Fails(engine_->Upsert(BatchOf({ItemOf(Id("b"), {1, 0, 0, 0})}), late), Code::kDeadlineExceeded, {"deadline"}));
  EXPECT_TRUE(Fails(engine_->Get("c", {Id("a")}, 0, false, late), Code::kDeadlineExceeded, {"deadline"}));
  EXPECT_TRUE(Fails(engine_->Count("c", std::nullopt, late), Code::kDeadlineExceeded, {"deadline"}));
  EXPECT_TRUE(Fails(engine_->Scroll("c", std::nullopt, 0, "", false, late), Code::kDeadlineExceeded, {"deadline"}));
  EXPECT_TRUE(
      Fails(engine_->Delete("c", {Id("a")}, Durability::kDurable, late), Code::kDeadlineExceeded, {"deadline"}));
  CallContext gone;
  gone.cancelled = [] { return true; };
  EXPECT_TRUE(Fails(engine_->Search(SearchFor({1, 0, 0, 0}), gone), Code::kCancelled, {"cancelled"}));
}

TEST_F(BadInput, WaitingForASequenceThatNeverComesNamesBothSequences) {
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.wait_for_sequence = 99;
  CallContext context;
  context.deadline = absl::Now() + absl::Seconds(2);  // long enough to get as far as the waiting on a busy machine
  EXPECT_TRUE(Fails(engine_->Search(call, context), Code::kDeadlineExceeded, {"99", "1"}));
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kOutOfRange, {"wait_for_sequence", "99"}));
}

TEST_F(BadInput, ManifestsOfAnotherDimensionCurvatureOrMetricAreRefusedWithTheReason) {
  RegisterCall call;
  call.collection = "c";
  call.parent = 1;
  call.manifest_json = ManifestFor(8);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition,
                    {"manifest.dimension", "8", "4", "parent generation 1", "adapter"}));
  call.parent = 0;
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition, {"manifest.dimension", "8", "4"}));
  call.manifest_json = ManifestFor(4, 0.5);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition,
                    {"manifest.curvature", "is 0.5; allowed: 1", "adapter"}));
  call.manifest_json = R"({"dimension":4,"metric":"cosine"})";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition, {"manifest.metric", "cosine"}));
  call.manifest_json = R"({"dimension":4})";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"manifest.curvature", "missing"}));
  call.manifest_json = R"({"dimension":"4","curvature":1,"clip_radius":1})";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"manifest.dimension", "string"}));
  call.manifest_json = "{";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"manifest_json", "malformed"}));
  call.manifest_json = ManifestFor(4, -1);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"curvature", "-1"}));
  call.manifest_json = ManifestFor(4);
  call.parent = 9;
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kNotFound, {"parent", "9"}));
}

TEST_F(BadInput, RawInputNeedsAnEncoder) {
  UpsertBatch batch = BatchOf({ItemOf(Id("b"), {})});
  batch.items[0].content = RawInput(std::string("not an image"));
  EXPECT_TRUE(Fails(UpsertStatus(batch), Code::kFailedPrecondition, {"generation 1", "no encoder", "items[0].input"}));
  SearchCall call = SearchFor({});
  call.queries[0].content = RawInput(std::string("not an image"));
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition, {"generation 1", "no encoder"}));
  batch = BatchOf({ItemOf(Id("b"), {1, 0, 0, 0})});
  batch.keep_input = true;
  EXPECT_TRUE(Fails(UpsertStatus(batch), Code::kInvalidArgument, {"items[0]", "keep_input"}));
}

TEST_F(BadInput, NamesOfCollectionsAndRequestsAreChecked) {
  CreateCollectionCall call;
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"name", "empty"}));
  call.name = "a/b";
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"name", "a/b"}));
  call.name = std::string(129, 'x');
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"name", "129"}));
  call.name = "c";
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kAlreadyExists, {"'c'"}));
  call.name = "d";
  call.curvature = 0;
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"curvature", "0"}));
  call.curvature = 1;
  call.index.hnsw_m = 0;
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"hnsw_m"}));
  call.index = {};
  call.request_id = std::string(200, 'r');
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"request_id", "128"}));
}

TEST_F(BadInput, ARequestIdThatIsNoneIsRefusedBeforeTheCollectionIsLookedFor) {
  const std::string id(200, 'r');
  const auto refused = [](const absl::Status& status) {
    return Fails(status, Code::kInvalidArgument, {"request_id", "128"});
  };
  RegisterCall made;
  made.request_id = id;
  made.collection = "none";
  EXPECT_TRUE(refused(engine_->RegisterGeneration(made).status()));
  SwitchCall back;
  back.request_id = id;
  back.collection = "none";
  EXPECT_TRUE(refused(engine_->RollbackGeneration(back).status()));
  EXPECT_TRUE(refused(engine_->PauseBackfill("none", id).status()));
  EXPECT_TRUE(refused(engine_->DropProbes("none", "daily", id)));
  EXPECT_TRUE(refused(engine_->Rebuild("none", {}, false, id, {}).status()));
}

TEST_F(BadInput, ANewNameIsNeitherAFolderNorAnOption) {
  for (const char* name : {".", "..", "-s", "--help"}) {
    CreateCollectionCall call;
    call.name = name;
    EXPECT_TRUE(
        Fails(engine_->CreateCollection(call), Code::kInvalidArgument, {"name", name, "without a '-' in front"}));
    EXPECT_TRUE(
        Fails(engine_->SetAlias(name, "c", ""), Code::kInvalidArgument, {"alias", name, "neither '.' nor '..'"}));
  }
  CreateCollectionCall call;
  for (const char* name : {"...", ".s", "s-", "_-"}) {
    call.name = name;
    EXPECT_TRUE(engine_->CreateCollection(call).ok()) << name;
  }
}

// As an older server may have made them.
TEST_F(BadInput, NamesLikeOptionsThatExistAlreadyStayUsable) {
  ASSERT_TRUE(engine_->SetAlias("a", "c", "").ok());
  engine_.reset();
  {
    auto store = OpenStore(folder_.path() + "/store", OptionsFor(folder_.path()).store);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto number = (*store)->Get(Table::kMeta, keys::CollectionName("c"));
    ASSERT_TRUE(number.ok());
    const std::string key = keys::Collection(static_cast<uint32_t>(std::stoul(*number)));
    auto record = DecodeCollection((*store)->Get(Table::kCollections, key).value());
    ASSERT_TRUE(record.ok());
    record->name = "--help";
    record->aliases = {"-s"};
    WriteBatch batch;
    batch.Put(Table::kCollections, key, Encode(*record));
    for (const char* gone : {"c", "a"}) batch.Delete(Table::kMeta, keys::CollectionName(gone));
    for (const char* name : {"--help", "-s"}) batch.Put(Table::kMeta, keys::CollectionName(name), *number);
    ASSERT_TRUE((*store)->Write(batch, Durability::kDurable).ok());
  }
  engine_ = OpenEngine(folder_.path());
  UpsertBatch batch = BatchOf({ItemOf(Id("b"), {0, 1, 0, 0})});
  batch.collection = "--help";
  EXPECT_TRUE(engine_->Upsert(std::move(batch), {}).ok());
  EXPECT_EQ(engine_->Count("-s", std::nullopt, {})->count, 2u);
  EXPECT_TRUE(engine_->Rebuild("--help", {}, /*wait=*/true, "", {}).ok());
  EXPECT_TRUE(engine_->SetAlias("-s", "--help", "").ok());
  EXPECT_TRUE(engine_->SetAlias("-s", "", "").ok());
  EXPECT_TRUE(engine_->DropCollection("--help", "").ok());
  MakeCollection();
  Write(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}));
}

TEST_F(BadInput, AScrollTokenMustBeOneOfOurs) {
  EXPECT_TRUE(Fails(engine_->Scroll("c", std::nullopt, 0, "zz", false, {}), Code::kInvalidArgument, {"token"}));
  EXPECT_TRUE(
      Fails(engine_->Scroll("c", std::nullopt, 0, std::string(40, '0'), false, {}), Code::kInvalidArgument, {"token"}));
  EXPECT_TRUE(
      Fails(engine_->Scroll("c", std::nullopt, -1, "", false, {}), Code::kInvalidArgument, {"page_size", "-1"}));
}

TEST(BadInputToOpen, AFolderThatIsNotOursInUseOrBadlySetIsRefused) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/thesis.doc") << "precious";
  EXPECT_TRUE(Fails(Engine::Open(OptionsFor(folder.path())), Code::kFailedPrecondition,
                    {"thesis.doc", "no store", "give an empty folder"}));
  EXPECT_TRUE(
      Fails(Engine::Open(OptionsFor(folder.path() + "/thesis.doc")), Code::kFailedPrecondition, {"not a folder"}));
  TemporaryFolder other;
  const auto engine = OpenEngine(other.path());
  EXPECT_TRUE(Fails(Engine::Open(OptionsFor(other.path())), Code::kUnavailable, {other.path()}));
  EngineOptions options = OptionsFor("");
  EXPECT_TRUE(Fails(Engine::Open(options), Code::kInvalidArgument, {"data_folder"}));
  options = OptionsFor(other.path());
  options.write_queue_max = 0;
  EXPECT_TRUE(Fails(Engine::Open(options), Code::kInvalidArgument, {"field 'write_queue_max' is 0; allowed: 1 .. "}));
  options = OptionsFor(other.path());
  options.limits.k_max = 0;
  EXPECT_TRUE(Fails(Engine::Open(options), Code::kInvalidArgument, {"limits.k_max"}));
}

TEST(BadInputCosine, AZeroVectorHasNoDirection) {
  TemporaryFolder folder;
  const auto engine = OpenEngine(folder.path());
  CreateCollectionCall create;
  create.name = "c";
  create.metric = Metric::kCosine;
  ASSERT_TRUE(engine->CreateCollection(create).ok());
  RegisterCall call;
  call.collection = "c";
  call.manifest_json = R"({"dimension":4})";
  ASSERT_TRUE(engine->RegisterGeneration(call).ok());
  EXPECT_TRUE(Fails(engine->Upsert(BatchOf({ItemOf(Id("a"), {0, 0, 0, 0})}, 1), {}), Code::kInvalidArgument,
                    {"items[0].vector"}));
  EXPECT_TRUE(Fails(engine->Upsert(BatchOf({ItemOf(Id("a"), {1, 0, 0, 0})}), {}), Code::kFailedPrecondition,
                    {"no active generation", "there are: 1"}));
}

}  // namespace
}  // namespace lightcone::server
