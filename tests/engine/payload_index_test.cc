// Payload indexes: what they answer is what reading every payload answers, through writes, restarts and all else.
#include "server/engine/filter/payload_index.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/cores.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/instant.h"
#include "server/engine/filter/value_index.h"
#include "store/keys.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/payload_truth.h"
#include "tests/engine/random_filters.h"

namespace lightcone::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Kind = FilterNode::Kind;

constexpr PayloadType kAllTypes[] = {PayloadType::kKeyword, PayloadType::kInteger, PayloadType::kFloat,
                                     PayloadType::kBoolean, PayloadType::kTime,    PayloadType::kText,
                                     PayloadType::kGeo};

TEST(PayloadTimes, KeysOrderAsTimeDoesWhateverTheSpelling) {
  // Ascending; the texts of a line are one instant.
  const std::vector<std::vector<std::string>> lines = {
      {"0000-01-01T00:00:00Z"},
      {"1969-12-31T23:59:59.999999Z", "1970-01-01T01:59:59.9999990+02:00"},
      {"2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
      {"2023-12-31T23:30:00-05:30", "2024-01-01T05:00:00Z", "2024-01-01t05:00:00.000z"},
      {"2024-02-29T12:30:00Z", "2024-02-29T14:30:00+02:00", "2024-02-29T12:30:00.0-00:00", "2024-02-28T12:45:00-23:45"},
      {"2024-02-29T12:30:00.000001Z"},
      {"2024-02-29T12:30:00.25Z", "2024-02-29T12:30:00.250000Z"},
      {"2024-02-29T12:30:00.3Z"},
      {"9999-12-31T23:59:59.999999Z"}};
  int64_t before = INT64_MIN;
  for (const auto& line : lines) {
    const auto key = TimeKey(line[0]);
    ASSERT_TRUE(key.has_value()) << line[0];
    EXPECT_GT(*key, before) << line[0];
    before = *key;
    for (const std::string& text : line) EXPECT_EQ(TimeKey(text), key) << text;
    EXPECT_EQ(TimeKey(TimeText(*key)), key);
  }
  EXPECT_EQ(TimeText(*TimeKey("2024-02-29T14:30:00.250+02:00")), "2024-02-29T12:30:00.25Z");
  EXPECT_EQ(TimeText(*TimeKey("2016-12-31T23:59:60Z")), "2017-01-01T00:00:00Z");
  for (const char* other :
       {"", "Z", "2024-05-01", "2024-05-01T12:30:00", "2024-05-01 12:30:00Z", "2024-05-01T12:30:00.Z",
        "2024-05-01T12:30:00+0100", "2024-05-01T12:30:00+24:00", "2024-05-01T12:30:00.1aZ", "x024-05-01T12:30:00Z",
        "2024-99-01T12:30:00Z", "2024-02-30T12:30:00Z", "2023-02-29T12:30:00Z", "2024-05-01T24:00:00Z",
        "2024-05-01T12:30:60Z", "2024-05-01T12:30:00Z "}) {
    EXPECT_FALSE(ParseInstant(other).has_value()) << other;
  }
  EXPECT_TRUE(ParseInstant("2024-05-01T12:30:00.1234567Z").has_value());
  EXPECT_FALSE(TimeKey("2024-05-01T12:30:00.1234567Z").has_value()) << "finer than a key";
}

using Truth = PayloadTruth;

// Compares with the filter itself: `must` and `may` enclose what passes, and without any of another type they are it.
void ExpectRight(const PayloadIndex& index, const Truth& truth, const FilterNode& node, bool exactly) {
  const auto filter = Filter::Make(node);
  ASSERT_TRUE(filter.ok());
  const CompiledFilter compiled = index.Compile(node, 1, /*may_test=*/true);
  EXPECT_TRUE(compiled.exact() || !exactly);
  for (const auto& [id, json] : truth.payloads) {
    const bool passes = filter->Matches({&json, 1, 0});
    if (compiled.exact()) {
      ASSERT_EQ(compiled.bounds.must.Contains(id), passes) << json;
    } else {
      ASSERT_LE(compiled.bounds.must.Contains(id), passes) << json;
      ASSERT_LE(passes, compiled.bounds.upper().Contains(id)) << json;
    }
  }
}

TEST(PayloadTimes, AFilterComparesInstantsByTimeWhateverTheIndex) {
  const auto range = [](const char* low, const char* high) {
    FilterNode node = Leaf(Kind::kRange, "t");
    if (low != nullptr) node.greater_equal = std::string(low);
    if (high != nullptr) node.less = std::string(high);
    return node;
  };
  const auto equals = [](const char* text) { return Leaf(Kind::kEquals, "t", {std::string(text)}); };
  // What is in a payload, and whether each of the conditions holds.
  const std::vector<FilterNode> nodes = {equals("2024-05-01T12:30:00Z"),
                                         equals("2024-05-01T14:30:00.0+02:00"),
                                         range("2024-05-01T12:30:00.1Z", "2024-05-02T00:00:00+02:00"),
                                         range("2024-05-01T12:30:00.12345678Z", nullptr),
                                         range("2024-05-01", "2024-05-02"),
                                         range("2024-05-01T12:30:00.", nullptr)};
  const std::vector<std::pair<const char*, std::vector<bool>>> cases = {
      {R"({"t":"2024-05-01T12:30:00Z"})", {true, true, false, false, true, true}},
      {R"({"t":"2024-05-01T12:30:00.000Z"})", {true, true, false, false, true, true}},
      {R"({"t":"2024-05-01T08:30:00-04:00"})", {true, true, false, false, true, false}},
      {R"({"t":"2024-05-01T21:00:00.5Z"})", {false, false, true, true, true, true}},
      {R"({"t":"2024-05-02T01:00:00+03:00"})", {false, false, false, true, false, true}},
      {R"({"t":"2024-05-01T12:30:00.123456789Z"})", {false, false, true, true, true, true}},
      {R"({"t":"2024-05-01T12:30:00"})", {false, false, false, false, true, false}},
      {R"({"t":"soon"})", {false, false, false, false, false, true}},
      {R"({"t":["soon","2024-05-01T23:59:59+02:00"]})", {false, false, true, true, true, true}}};
  for (const PayloadType type : {PayloadType::kTime, PayloadType::kKeyword, PayloadType::kInteger}) {
    Truth truth;
    for (size_t i = 0; i < cases.size(); ++i) truth.payloads[i + 1] = cases[i].first;
    PayloadIndex index(&truth);
    index.Declare(std::vector<PayloadField>{{"t", type}});
    ASSERT_TRUE(index.WaitReady({}));
    for (size_t n = 0; n < nodes.size(); ++n) {
      ASSERT_NO_FATAL_FAILURE(ExpectRight(index, truth, nodes[n], /*exactly=*/false)) << "condition " << n;
      for (const auto& [json, holds] : cases) {
        const std::string payload = json;
        EXPECT_EQ(Filter::Make(nodes[n])->Matches({&payload, 1, 0}), holds[n]) << json << ", condition " << n;
      }
    }
    const PayloadIndexStatus status = index.Status()[0];
    EXPECT_TRUE(status.ready);
    EXPECT_EQ(MessageOf(status.error).substr(0, 12), type == PayloadType::kTime ? "3 items have" : "") << status.error;
  }
}

TEST(PayloadTimes, AnIndexAnswersAloneForOffsetsAndForDates) {
  Truth truth;
  for (int i = 0; i < 48; ++i) {
    const int hour = i % 24;
    const std::string clock = StrCat(hour < 10 ? "0" : "", hour, ":00:00");
    truth.payloads[static_cast<uint64_t>(i) + 1] = StrCat("{\"t\":\"2024-05-0", 1 + i / 24, "T", clock,
                                                          "Z\",\"u\":\"2024-05-0", 1 + i / 24, "T", clock, "+05:00\"}");
  }
  PayloadIndex index(&truth);
  index.Declare(std::vector<PayloadField>{{"t", PayloadType::kTime}, {"u", PayloadType::kTime}});
  ASSERT_TRUE(index.WaitReady({}));
  FilterNode day = Leaf(Kind::kRange, "t"), hours = Leaf(Kind::kRange, "u");
  day.greater_equal = std::string("2024-05-02");
  hours.greater = std::string("2024-05-01T03:00:00+01:00");
  hours.less_equal = std::string("2024-05-01T20:00:00Z");
  ASSERT_NO_FATAL_FAILURE(ExpectRight(index, truth, day, /*exactly=*/true));
  ASSERT_NO_FATAL_FAILURE(ExpectRight(index, truth, hours, /*exactly=*/true));
}

TEST(PayloadIndexes, EncloseWhatPassesWhateverTheTypesOfFieldsAndValues) {
  RandomCases cases(11);
  const auto never = [] { return false; };
  int exact = 0, indexed = 0;
  for (int round = 0; round < 30; ++round) {
    Truth truth;
    uint64_t next = 1;
    for (int i = 0; i < 150; ++i) truth.payloads[next++] = cases.Object(2).dump();
    std::vector<PayloadField> fields;
    for (const char* path : {"a", "b", "c", "a.b", "b.a", "c.c.a", "\"d.e\"", "\"\".a", "a.\"d.e\""}) {
      if (cases.Pick(4) != 0) fields.push_back({path, kAllTypes[cases.Pick(7)]});
    }
    PayloadIndex index(&truth);
    index.Declare(fields);
    ASSERT_TRUE(index.WaitReady(never));
    for (int step = 0; step < 3; ++step) {
      for (int f = 0; f < 40; ++f) {
        const FilterNode node = cases.Node(3);
        ASSERT_NO_FATAL_FAILURE(ExpectRight(index, truth, node, /*exactly=*/false));
        const CompiledFilter compiled = index.Compile(node, 1, /*may_test=*/true);
        exact += compiled.exact();
        indexed += compiled.unindexed.empty() && !compiled.indexed.empty();
      }
      // Some go, some come, some are said to go and stay.
      std::vector<std::pair<uint64_t, std::string>> fresh;
      for (int i = 0; i < 60; ++i) {
        const auto any = std::next(truth.payloads.begin(), cases.Pick(static_cast<int>(truth.payloads.size())));
        index.Discard(any->first, any->second);
        if (i % 3 != 0) truth.payloads.erase(any);
      }
      ASSERT_TRUE(index.Sweep().ok());
      for (int i = 0; i < 60; ++i) fresh.emplace_back(next++, cases.Object(2).dump());
      truth.payloads.insert(fresh.begin(), fresh.end());
      std::vector<PayloadIndex::Entry> entries(fresh.begin(), fresh.end());
      index.Add(entries);
      index.Add(entries);  // once more is no change
    }
  }
  EXPECT_GT(exact, 300);
  EXPECT_GT(indexed, 300);
}

// Payloads that are not read before they are let go.
class HeldTruth : public Truth {
 public:
  absl::Status ForEachPayload(absl::FunctionRef<absl::Status(uint64_t, std::string_view)> visit,
                              std::vector<uint64_t>* damaged) override {
    reading.Notify();
    go_on.WaitForNotification();
    return Truth::ForEachPayload(visit, damaged);
  }
  absl::Notification reading, go_on;
};

TEST(PayloadIndexes, AreBuiltBesideAsManyOthersAsBuildsHaveThreads) {
  const std::vector<PayloadField> fields = {{"n", PayloadType::kInteger}};
  const auto late = [give_up = absl::Now() + absl::Minutes(1)] { return absl::Now() > give_up; };
  std::vector<std::unique_ptr<HeldTruth>> held;
  std::vector<std::unique_ptr<PayloadIndex>> indexes;
  for (int i = 0; i < std::max(4, AvailableCores()); ++i) {
    held.push_back(std::make_unique<HeldTruth>());
    indexes.push_back(std::make_unique<PayloadIndex>(held.back().get()));
    indexes.back()->Declare(fields);
    EXPECT_TRUE(held.back()->reading.WaitForNotificationWithTimeout(absl::Minutes(1)));
  }
  Truth small;
  small.payloads[1] = R"({"n": 1})";
  PayloadIndex index(&small);
  index.Declare(fields);
  EXPECT_TRUE(index.WaitReady(late));
  for (const auto& truth : held) truth->go_on.Notify();
  for (const auto& other : indexes) EXPECT_TRUE(other->WaitReady(late));
}

TEST(PayloadIndexes, HoldManyValuesInLeavesThatSplitAndEmpty) {
  for (const int distinct : {1, 3, 50, 700, 100'000}) {
    Truth truth;
    std::mt19937 random(5);
    PayloadIndex index(&truth);
    index.Declare(std::vector<PayloadField>{{"n", PayloadType::kInteger},
                                            {"x", PayloadType::kFloat},
                                            {"s", PayloadType::kKeyword},
                                            {"t", PayloadType::kTime}});
    ASSERT_TRUE(index.WaitReady({}));
    const auto number = [&] { return static_cast<int>(random() % static_cast<unsigned>(distinct)); };
    const auto time = [](int n) {
      char text[32];
      std::snprintf(text, sizeof(text), "20%02d-%02d-01T00:00:%02dZ", n % 100, n % 12 + 1, n % 60);
      return std::string(text);
    };
    for (uint64_t id = 1; id <= 6'000; ++id) {
      const int n = number();
      const Json payload = {{"n", n}, {"x", n * 0.25}, {"s", {StrCat("v", n), StrCat("v", number())}}, {"t", time(n)}};
      truth.payloads[id] = payload.dump();
      index.Add(std::vector<PayloadIndex::Entry>{{id, truth.payloads[id]}});
    }
    const auto range = [&](const char* field, const auto& value) {
      FilterNode node = Leaf(Kind::kRange, field);
      const FilterValue low = value(number()), high = value(number());
      (random() % 2 ? node.greater : node.greater_equal) = low;
      (random() % 2 ? node.less : node.less_equal) = high;
      return node;
    };
    const auto check = [&] {
      for (int i = 0; i < 5; ++i) {
        const int n = number();
        const auto text = [](int v) -> FilterValue { return StrCat("v", v); };
        const auto whole = [](int v) -> FilterValue { return int64_t{v}; };
        const auto half = [](int v) -> FilterValue { return v * 0.5; };
        const auto instant = [&](int v) -> FilterValue { return time(v); };
        for (const FilterNode& node :
             {Leaf(Kind::kEquals, "n", {int64_t{n}}), Leaf(Kind::kEquals, "x", {n * 0.25}), range("n", whole),
              range("n", half), range("x", whole), range("s", text), range("t", instant),
              Leaf(Kind::kIn, "s", {text(n), text(number())}), Leaf(Kind::kEquals, "t", {time(n)})}) {
          ASSERT_NO_FATAL_FAILURE(ExpectRight(index, truth, node, /*exactly=*/true));
        }
      }
    };
    ASSERT_NO_FATAL_FAILURE(check());
    for (const bool all : {false, true}) {
      const auto payloads = truth.payloads;
      for (const auto& [id, json] : payloads) {
        if (!all && random() % 3 == 0) continue;
        truth.payloads.erase(id);
        index.Discard(id, json);
      }
      ASSERT_TRUE(index.Sweep().ok());
      ASSERT_NO_FATAL_FAILURE(check());
    }
    for (const PayloadIndexStatus& status : index.Status()) EXPECT_EQ(status.items, 0u) << status.field.path;
  }
}

class IndexedPayloads : public EngineTest {
 protected:
  void Index(std::vector<PayloadField> add, std::vector<std::string> drop = {}) {
    IndexPayloadCall call;
    call.collection = "c";
    call.add = std::move(add);
    call.drop = std::move(drop);
    call.wait = true;
    const auto done = engine_->IndexPayload(call, {});
    ASSERT_TRUE(done.ok()) << done.status();
    for (const PayloadIndexStatus& status : done->payload_indexes) EXPECT_TRUE(status.ready);
  }

  SearchAnswer Answer(SearchCall call) {
    call.profile = true;
    auto answer = engine_->Search(call, {});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : SearchAnswer{};
  }

  // What a scan over all payloads finds.
  std::set<ItemId> Scrolled(const FilterNode& node) {
    std::set<ItemId> ids;
    const auto page = engine_->Scroll("c", node, 10'000, "", false, {});
    EXPECT_TRUE(page.ok()) << page.status();
    for (const StoredItem& item : page->items) ids.insert(item.id);
    return ids;
  }
};

TEST_F(IndexedPayloads, AnswerAsReadingEveryPayloadDoesThroughAllThatHappensToItems) {
  MakeCollection(3);
  RandomCases cases(23);
  std::mt19937 random(3);
  std::vector<PayloadField> fields = {{"a", PayloadType::kInteger},
                                      {"b", PayloadType::kKeyword},
                                      {"c", PayloadType::kFloat},
                                      {"a.b", PayloadType::kBoolean}};
  uint32_t active = 1;
  for (int round = 0; round < 12; ++round) {
    std::vector<UpsertItem> items, again;
    for (int i = 0; i < 80; ++i) {
      items.push_back(ItemOf(Id(random() % 300), RandomVector(&random, kDimension), cases.Object(2).dump()));
    }
    std::sort(items.begin(), items.end(), [](const auto& x, const auto& y) { return x.id < y.id; });
    items.erase(std::unique(items.begin(), items.end(), [](const auto& x, const auto& y) { return x.id == y.id; }),
                items.end());
    Write(BatchOf(items, active));
    std::vector<ItemId> gone;
    for (int i = 0; i < 10; ++i) gone.push_back(Id(random() % 300));
    std::sort(gone.begin(), gone.end());
    gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
    ASSERT_TRUE(engine_->Delete("c", gone, Durability::kDurable, {}).ok());
    if (round == 4 || round == 7) {  // and a backfill of some of what is there
      Activate(++active, /*force=*/true);
      const auto page = engine_->Scroll("c", std::nullopt, 0, "", false, {});
      ASSERT_TRUE(page.ok()) << page.status();
      for (const StoredItem& item : page->items) {
        if (random() % 2) again.push_back(ItemOf(item.id, RandomVector(&random, kDimension)));
      }
      Write(BatchOf(again, active, /*same_content=*/true));
    }
    if (round == 1) Index(fields);
    if (round == 5) Index({{"c", PayloadType::kInteger}}, {"c", "a.b"});
    if (round == 3 || round == 8) {
      ASSERT_NO_FATAL_FAILURE(Restart());
    }
    if (round == 9) {
      ASSERT_TRUE(engine_->Rebuild("c", {}, true, "", {}).ok());
    }
    for (int f = 0; f < 25; ++f) {
      SearchCall call = SearchFor(RandomVector(&random, kDimension), 1'000);
      call.exact = f % 2 == 0;
      call.filter = cases.Node(3);
      if (f % 5 == 0) {
        call.filter = Branch(Kind::kAnd, {Leaf(Kind::kIn, "$generation", {int64_t{active}, int64_t{1}}), *call.filter});
      }
      std::set<ItemId> found;
      for (const EngineHit& hit : Hits(call)) found.insert(hit.id);
      ASSERT_EQ(found, Scrolled(*call.filter)) << "round " << round;
    }
  }
  EXPECT_EQ(engine_->GetCollection("c")->payload_indexes.size(), 3u);
}

TEST_F(IndexedPayloads, ADamagedItemIsLeftOutAndHoldsUpNoOther) {
  MakeCollection();
  std::vector<UpsertItem> items;
  for (const char* id : {"a", "bad", "c", "worse"}) {
    items.push_back(ItemOf(Id(id), {1, 0, 0, 0}, R"({"color":"red"})"));
  }
  items.push_back(ItemOf(Id("d"), {1, 0, 0, 0}, R"({"color":"blue"})"));
  Write(BatchOf(std::move(items)));
  EditStore([](Store*, WriteBatch* batch) {
    for (const char* id : {"bad", "worse"}) batch->Put(Table::kItems, keys::Item(1, Id(id)), "x");
  });
  Restart();
  Index({{"color", PayloadType::kKeyword}});
  const auto status = engine_->GetCollection("c")->payload_indexes;
  ASSERT_EQ(status.size(), 1u);
  EXPECT_EQ(status[0].items, 3u);
  EXPECT_TRUE(Fails(status[0].error, absl::StatusCode::kDataLoss, {"2 items are damaged"}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.filter = Leaf(Kind::kEquals, "color", {std::string("red")});
  EXPECT_THAT(HitNames(call), ::testing::UnorderedElementsAre("'a'@1", "'c'@1"));
  call.filter = Branch(Kind::kNot, {*call.filter});
  EXPECT_THAT(HitNames(call), ElementsAre("'d'@1")) << "nobody knows that they are not red";
}

TEST_F(IndexedPayloads, TheProfileSaysWhichFieldsAnIndexAnswered) {
  CreateCollectionCall create;
  create.name = "c";
  create.payload_fields = {{"kind", PayloadType::kKeyword}, {"size", PayloadType::kInteger}};
  ASSERT_TRUE(engine_->CreateCollection(create).ok());
  Register(0);
  Activate(1);
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 200; ++i) {
    const Json payload = {{"kind", i % 2 ? "odd" : "even"}, {"size", i}, {"other", i}};
    items.push_back(ItemOf(Id(i), {0.01f * static_cast<float>(i), 0, 0, 0}, payload.dump()));
  }
  Write(BatchOf(std::move(items)));
  const auto ready = [](const PayloadIndexStatus& status) { return status.ready; };
  while (!std::ranges::all_of(engine_->GetCollection("c")->payload_indexes, ready)) std::this_thread::yield();

  SearchCall call = SearchFor({0, 0, 0, 0}, 2);
  call.filter = Leaf(Kind::kEquals, "kind", {std::string("odd")});
  SearchAnswer answer = Answer(call);
  EXPECT_THAT(HitNames(call), ElementsAre("1@1", "3@1"));
  EXPECT_THAT(answer.profile->indexed_fields, ElementsAre("kind"));
  EXPECT_THAT(answer.profile->unindexed_fields, IsEmpty());
  EXPECT_EQ(answer.profile->payloads_read, 0);
  EXPECT_EQ(answer.profile->legs.at(0).segments.size(), 1u);

  FilterNode small = Leaf(Kind::kRange, "other");
  small.greater = int64_t{100};
  call.filter = Branch(Kind::kAnd, {*call.filter, small});
  answer = Answer(call);
  EXPECT_THAT(HitNames(call), ElementsAre("101@1", "103@1"));
  EXPECT_THAT(answer.profile->indexed_fields, ElementsAre("kind"));
  EXPECT_THAT(answer.profile->unindexed_fields, ElementsAre("other"));
  EXPECT_GT(answer.profile->payloads_read, 0);

  // Of the wrong type: no error, and no hit.
  call.filter = Leaf(Kind::kEquals, "size", {std::string("7")});
  EXPECT_THAT(Hits(call), IsEmpty());
  call.filter = Leaf(Kind::kEquals, "size", {7.0});
  EXPECT_THAT(HitNames(call), ElementsAre("7@1"));
  EXPECT_FALSE(engine_->Search(SearchFor({0, 0, 0, 0}), {})->profile.has_value());
}

TEST_F(IndexedPayloads, RefuseBadDeclarationsAndNameThem) {
  MakeCollection();
  const auto declare = [&](std::vector<PayloadField> add, std::vector<std::string> drop = {}, std::string id = "") {
    return engine_->IndexPayload({std::move(id), "c", std::move(add), std::move(drop), false}, {});
  };
  EXPECT_TRUE(
      Fails(declare({{"", PayloadType::kKeyword}}), absl::StatusCode::kInvalidArgument, {"add[0].path", "empty"}));
  EXPECT_TRUE(Fails(declare({{"$generation", PayloadType::kInteger}}), absl::StatusCode::kInvalidArgument,
                    {"add[0].path", "$generation"}));
  EXPECT_TRUE(Fails(declare({{"a..b", PayloadType::kKeyword}}), absl::StatusCode::kInvalidArgument, {"single dots"}));
  EXPECT_TRUE(Fails(declare({{std::string(257, 'x'), PayloadType::kKeyword}}), absl::StatusCode::kInvalidArgument,
                    {"257 bytes", "at most 256"}));
  EXPECT_TRUE(Fails(declare({{"a", PayloadType::kKeyword}, {"a", PayloadType::kFloat}}),
                    absl::StatusCode::kInvalidArgument, {"add[1].path", "'a' again"}));
  std::vector<PayloadField> many;
  for (int i = 0; i < 65; ++i) many.push_back({StrCat("f", i), PayloadType::kKeyword});
  EXPECT_TRUE(Fails(declare(many), absl::StatusCode::kInvalidArgument, {"65 long", "at most 64"}));
  CreateCollectionCall create;
  create.name = "d";
  create.payload_fields = many;
  EXPECT_TRUE(Fails(engine_->CreateCollection(create), absl::StatusCode::kInvalidArgument, {"payload_fields", "65"}));
  EXPECT_TRUE(
      Fails(ParsePayloadType("words", "type"), absl::StatusCode::kInvalidArgument, {"'words'", "keyword, integer"}));

  ASSERT_TRUE(declare({{"a", PayloadType::kKeyword}}, {}, "r1").ok());
  ASSERT_TRUE(declare({{"a", PayloadType::kKeyword}}, {}, "r1").ok());  // the same call again
  EXPECT_TRUE(Fails(declare({{"b", PayloadType::kKeyword}}, {}, "r1"), absl::StatusCode::kAlreadyExists, {"r1"}));
  ASSERT_TRUE(declare({{"a", PayloadType::kKeyword}}).ok());  // there already
  EXPECT_TRUE(Fails(declare({{"a", PayloadType::kFloat}}), absl::StatusCode::kAlreadyExists, {"'a'", "keyword"}));
  EXPECT_TRUE(Fails(declare({}, {"b"}), absl::StatusCode::kNotFound, {"drop[0]", "'b'", "a=keyword"}));
  ASSERT_TRUE(declare({{"a", PayloadType::kFloat}}, {"a"}).ok());
  ASSERT_NO_FATAL_FAILURE(Restart());
  const auto status = engine_->GetCollection("c");
  ASSERT_EQ(status->payload_indexes.size(), 1u);
  EXPECT_EQ(status->payload_indexes[0].field, (PayloadField{"a", PayloadType::kFloat}));
}

TEST(ValueIndex, PutsAnyRangeOfManyValuesTogetherFromAFewSets) {
  constexpr int64_t kValues = 100'000;
  std::mt19937 random(11);
  const auto number = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  ValueIndex<int64_t> index;
  std::map<uint64_t, std::set<int64_t>> truth;
  const auto add = [&](uint64_t id) {
    auto& values = truth[id];
    values.insert(number(kValues));
    if (id % 5 == 0) values.insert(number(kValues));
    if (id % 3 == 0) values.insert(number(4) * kValues / 4);  // frequent ones among the others
    for (const int64_t value : values) index.Add(value, id);
  };
  const auto check = [&](size_t ids_max) {
    for (int i = 0; i < 60; ++i) {
      const int64_t low = i % 4 == 0 ? -1 : number(kValues), high = i % 5 == 0 ? kValues : low + number(kValues);
      IdPieces pieces;
      index.Collect([&](int64_t v) { return v < low; }, [&](int64_t v) { return v > high; }, &pieces);
      EXPECT_LT(pieces.sets.size(), 120u) << low << " .. " << high;
      EXPECT_LE(pieces.ids.size(), ids_max) << low << " .. " << high;
      std::vector<uint64_t> right, found;
      for (const auto& [id, values] : truth) {
        const auto at = values.lower_bound(low);
        if (at != values.end() && *at <= high) right.push_back(id);
      }
      pieces.Union().ForEachIn(0, UINT64_MAX, [&](std::span<const uint64_t> ids) {
        found.insert(found.end(), ids.begin(), ids.end());
        return true;
      });
      ASSERT_EQ(found, right) << low << " .. " << high;
    }
  };
  for (uint64_t id = 1; id <= 100'000; ++id) add(id);
  ASSERT_NO_FATAL_FAILURE(check(2 * 1'024));
  const auto remove = [&](uint64_t id) {
    for (const int64_t value : truth[id]) index.Remove(value, id);
    truth.erase(id);
  };
  for (uint64_t id = 1; id <= 100'000; ++id) {
    if (number(10) < 8) remove(id);
  }
  index.Remove(5, 200'000);  // was never there
  ASSERT_NO_FATAL_FAILURE(check(2 * 1'024));
  while (!truth.empty()) remove(truth.begin()->first);
  ASSERT_NO_FATAL_FAILURE(check(0));
  EXPECT_LT(index.bytes(), 1'000u);
  for (uint64_t id = 1; id <= 3'000; ++id) add(id);
  ASSERT_NO_FATAL_FAILURE(check(2 * 1'024));
}

TEST(ValueIndex, KeepsFewLeavesHoweverTheValuesCome) {
  // A frequent least value has a leaf of its own; what comes in falling order behind it shares leaves all the same.
  ValueIndex<int64_t> index;
  uint64_t id = 0;
  for (int i = 0; i < 2'000; ++i) index.Add(0, ++id);
  constexpr int64_t kValues = 20'000;
  for (int64_t value = kValues; value >= 1; --value) index.Add(value, ++id);
  EXPECT_LT(index.bytes(), static_cast<size_t>(kValues) * 48);
  IdPieces pieces;
  index.Collect([](int64_t v) { return v < 7; }, [](int64_t v) { return v > 9; }, &pieces);
  EXPECT_EQ(pieces.Union().Count(), 3u);
}

TEST_F(IndexedPayloads, AnIndexAnswersForEverySpellingOfItsPath) {
  MakeCollection();
  IndexPayloadCall index;
  index.collection = "c";
  index.add = {{R"("a")", PayloadType::kInteger}, {R"("d.e")", PayloadType::kKeyword}};
  index.wait = true;
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  Write(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0}, R"({"a":1,"d.e":"x"})")}));
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.profile = true;
  call.filter =
      Branch(Kind::kAnd, {Leaf(Kind::kEquals, "a", {int64_t{1}}), Leaf(Kind::kEquals, R"("d.e")", {std::string("x")})});
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->results[0].hits.size(), 1u);
  EXPECT_THAT(answer->profile->indexed_fields, ::testing::ElementsAre("a", R"("d.e")"));
  index.add = {{"a", PayloadType::kKeyword}};
  EXPECT_TRUE(Fails(engine_->IndexPayload(index, {}), absl::StatusCode::kAlreadyExists, {"\"a\""}));
  index.add.clear();
  index.drop = {"a"};
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  EXPECT_EQ(engine_->GetCollection("c")->payload_indexes.size(), 1u);
}

}  // namespace
}  // namespace lightcone::server
