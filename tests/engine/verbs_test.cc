// Changes of payloads, facets, groups and ordered scrolls, against naive models.
#include <map>
#include <set>
#include <thread>

#include "engine_testing.h"
#include "naive_filter.h"
#include "nlohmann/json.hpp"
#include "random_filters.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using Kind = FilterNode::Kind;
using Json = nlohmann::json;

class Verbs : public EngineTest {
 protected:
  void WriteRandom(uint64_t count) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < count; ++i) {
      payloads_[i] = cases_.Object(2);
      vectors_[i] = RandomVector(&random_, kDimension);
      items.push_back(ItemOf(Id(i), vectors_[i], payloads_[i].dump()));
    }
    Write(BatchOf(std::move(items)));
  }

  void IndexFields(std::vector<PayloadField> fields) {
    IndexPayloadCall call;
    call.collection = "c";
    call.add = std::move(fields);
    call.wait = true;
    const auto indexed = engine_->IndexPayload(call, {});
    ASSERT_TRUE(indexed.ok()) << indexed.status();
  }

  static ChangePayloadCall Change(PayloadChange change, std::vector<ItemId> ids, std::string json = "") {
    ChangePayloadCall call;
    call.collection = "c";
    call.change = change;
    call.ids = std::move(ids);
    call.payload_json = std::move(json);
    return call;
  }

  Json PayloadOf(const ItemId& id) {
    const auto got = engine_->Get("c", {id}, 0, false, {});
    EXPECT_TRUE(got.ok() && got->items.size() == 1) << got.status();
    return got.ok() && got->items.size() == 1 ? Json::parse(got->items[0].payload_json) : Json();
  }

  // Every payload is as the model has it, and filters by index, by reading and by the model agree.
  void ExpectAsModel() {
    const auto page = engine_->Scroll("c", {}, 1'000, "", false, {});
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_EQ(page->items.size(), payloads_.size());
    for (const StoredItem& item : page->items) {
      EXPECT_EQ(Json::parse(item.payload_json), payloads_[std::get<uint64_t>(item.id.value)]);
    }
    for (int i = 0; i < 8; ++i) {
      const FilterNode filter = cases_.Node(2);
      uint64_t passing = 0;
      for (const auto& [id, payload] : payloads_) passing += Naive(filter, payload);
      SearchCall call = SearchFor({0, 0, 0, 0}, 400);
      call.filter = filter;
      EXPECT_EQ(Hits(call).size(), passing);
    }
  }

  RandomCases cases_{41};
  std::mt19937 random_{43};
  std::map<uint64_t, Json> payloads_;
  std::map<uint64_t, std::vector<float>> vectors_;
};

TEST_F(Verbs, RandomChangesOfPayloadsAgreeWithAModelWithIndexesAndAfterARestart) {
  MakeCollection();
  WriteRandom(200);
  IndexFields({{"a", PayloadType::kKeyword}, {"b", PayloadType::kInteger}, {"c", PayloadType::kFloat}});
  for (int round = 0; round < 60; ++round) {
    std::vector<ItemId> ids;
    for (const auto& [id, payload] : payloads_) {
      if (cases_.Pick(6) == 0) ids.push_back(Id(id));
    }
    if (ids.empty()) continue;
    const Json given = cases_.Object(1);
    ChangePayloadCall call = Change(static_cast<PayloadChange>(cases_.Pick(4)), ids);
    if (call.change == PayloadChange::kSet || call.change == PayloadChange::kOverwrite) {
      call.payload_json = given.dump();
    }
    if (call.change == PayloadChange::kDeleteKeys) call.keys = {"a", "\"d.e\""};
    const auto answer = engine_->ChangePayload(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->changed, ids.size());
    EXPECT_TRUE(answer->missing.empty());
    for (const ItemId& id : ids) {
      Json& payload = payloads_[std::get<uint64_t>(id.value)];
      if (call.change == PayloadChange::kSet) payload.update(given);
      if (call.change == PayloadChange::kOverwrite) payload = given;
      if (call.change == PayloadChange::kDeleteKeys) payload.erase("a"), payload.erase("d.e");
      if (call.change == PayloadChange::kClear) payload = Json::object();
    }
    if (round % 20 == 19) Restart();
    if (round % 10 == 9) ExpectAsModel();
  }
  // Items that are written anew leave the values that changes gave them.
  WriteRandom(200);
  ExpectAsModel();
}

TEST_F(Verbs, AChangeOfThePayloadKeepsVectorsAndMovesTheSequence) {
  MakeCollection();
  Write(BatchOf({ItemOf(Id(1), {1, 0, 0, 0}, R"({"a":1})"), ItemOf(Id(2), {0, 1, 0, 0})}));
  const auto before = engine_->Get("c", {Id(1)}, 0, true, {});
  const auto answer = engine_->ChangePayload(Change(PayloadChange::kSet, {Id(1), Id(7)}, R"({"b":[2]})"), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->changed, 1u);
  EXPECT_EQ(answer->missing, std::vector<ItemId>{Id(7)});
  const auto after = engine_->Get("c", {Id(1)}, 0, true, {});
  EXPECT_EQ(after->items[0].vector, before->items[0].vector);
  EXPECT_EQ(after->items[0].payload_json, R"({"a":1,"b":[2]})");
  EXPECT_EQ(after->items[0].sequence, answer->sequence);
  EXPECT_GT(answer->sequence, before->items[0].sequence);
  // The same once more changes nothing.
  EXPECT_EQ(engine_->ChangePayload(Change(PayloadChange::kSet, {Id(1)}, R"({"b":[2]})"), {})->sequence,
            answer->sequence);
}

TEST_F(Verbs, ASetInsideAKeyMakesAbsentObjectsAndRefusesOthersWhole) {
  MakeCollection();
  Write(BatchOf({ItemOf(Id(1), {1, 0, 0, 0}, R"({"a":{"b":[{"x":1},{"y":2}]}})"), ItemOf(Id(2), {1, 0, 0, 0}),
                 ItemOf(Id(3), {1, 0, 0, 0}, R"({"a":5})")}));
  ChangePayloadCall call = Change(PayloadChange::kSet, {Id(1), Id(2)}, R"({"z":3})");
  call.key = "a.b";
  ASSERT_TRUE(engine_->ChangePayload(call, {}).ok());
  EXPECT_EQ(PayloadOf(Id(1)), Json::parse(R"({"a":{"b":[{"x":1,"z":3},{"y":2,"z":3}]}})"));
  EXPECT_EQ(PayloadOf(Id(2)), Json::parse(R"({"a":{"b":{"z":3}}})"));
  call.payload_json = R"({"z":4})";
  call.ids = {Id(2), Id(3)};
  EXPECT_TRUE(Fails(engine_->ChangePayload(call, {}), Code::kFailedPrecondition, {"item 3", "a.b", "number"}));
  EXPECT_EQ(PayloadOf(Id(2)), Json::parse(R"({"a":{"b":{"z":3}}})")) << "a part of a refused batch was written";
}

TEST_F(Verbs, ChangesByFilterReachEachItemThatPassesOnce) {
  MakeCollection();
  WriteRandom(300);
  for (int round = 0; round < 6; ++round) {
    ChangePayloadCall call = Change(PayloadChange::kSet, {}, StrCat(R"({"round":)", round, "}"));
    call.filter = cases_.Node(2);
    call.limit = 1 + cases_.Pick(40);
    uint64_t passing = 0, changed = 0;
    for (auto& [id, payload] : payloads_) {
      if (!Naive(*call.filter, payload)) continue;
      payload["round"] = round;
      ++passing;
    }
    do {
      const auto answer = engine_->ChangePayload(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      changed += answer->changed;
      call.token = answer->token;
    } while (!call.token.empty());
    EXPECT_EQ(changed, passing);
  }
  ExpectAsModel();
}

TEST_F(Verbs, ConcurrentSetsLoseNothingWhileFieldsAreIndexed) {
  MakeCollection();
  std::vector<UpsertItem> items;
  std::vector<ItemId> ids;
  for (uint64_t i = 0; i < 20; ++i) {
    ids.push_back(Id(i));
    items.push_back(ItemOf(Id(i), RandomVector(&random_, kDimension)));
  }
  Write(BatchOf(std::move(items)));
  constexpr int kWriters = 4, kSets = 40;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kSets; ++i) {
        ChangePayloadCall call = Change(PayloadChange::kSet, ids, StrCat("{\"k", w, "_", i, "\":1,\"last\":", w, "}"));
        call.durability = Durability::kProcess;
        EXPECT_TRUE(engine_->ChangePayload(call, {}).ok());
      }
    });
  }
  IndexFields({{"last", PayloadType::kInteger}, {"k0_0", PayloadType::kInteger}});
  for (std::thread& writer : writers) writer.join();
  for (const ItemId& id : ids) EXPECT_EQ(PayloadOf(id).size(), kWriters * kSets + 1u);
  uint64_t by_index = 0;
  for (int w = 0; w < kWriters; ++w) {
    SearchCall call = SearchFor({0, 0, 0, 0}, 100);
    call.filter = Leaf(Kind::kEquals, "last", {int64_t{w}});
    call.with_payload = true;
    for (const EngineHit& hit : Hits(call)) {
      EXPECT_EQ(Json::parse(hit.payload_json)["last"], w);
      ++by_index;
    }
  }
  EXPECT_EQ(by_index, ids.size()) << "the index holds another value than the payload";
}

TEST_F(Verbs, AChangeSaysWhatItCannotDo) {
  MakeCollection();
  const auto refused = [&](const ChangePayloadCall& call, const std::vector<std::string>& texts) {
    EXPECT_TRUE(Fails(engine_->ChangePayload(call, {}), Code::kInvalidArgument, texts));
  };
  refused(Change(PayloadChange::kSet, {Id(1)}), {"payload_json", "empty"});
  refused(Change(PayloadChange::kSet, {Id(1)}, "[]"), {"payload_json", "object"});
  refused(Change(PayloadChange::kClear, {Id(1)}, "{}"), {"payload_json", "given"});
  refused(Change(PayloadChange::kClear, {}), {"ids", "empty"});
  refused(Change(PayloadChange::kClear, {Id(1), Id(1)}), {"ids[1]", "second time"});
  refused(Change(PayloadChange::kDeleteKeys, {Id(1)}), {"keys", "empty"});
  ChangePayloadCall call = Change(PayloadChange::kDeleteKeys, {Id(1)});
  call.keys = {"a", "b."};
  refused(call, {"keys[1]", "b."});
  call = Change(PayloadChange::kOverwrite, {Id(1)}, "{}");
  call.key = "a";
  refused(call, {"key", "SET"});
  call = Change(PayloadChange::kClear, {Id(1)});
  call.filter = Leaf(Kind::kExists, "a");
  refused(call, {"ids", "filter"});
}

TEST_F(Verbs, FacetsCountAsAModelDoesByIndexAndByReading) {
  MakeCollection();
  WriteRandom(300);
  const auto check = [&](const std::string& field, const std::optional<FilterNode>& filter) {
    FacetCall call;
    call.collection = "c";
    call.field = field;
    call.filter = filter;
    call.limit = kFacetLimitMax;
    const auto answer = engine_->Facet(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    std::map<FieldValue, uint64_t> expected, counted;
    for (const auto& [id, payload] : payloads_) {
      if (filter && !Naive(*filter, payload)) continue;
      for (const FieldValue& value : NaiveValues(payload, field)) ++expected[value];
    }
    for (size_t i = 0; i < answer->values.size(); ++i) {
      counted[answer->values[i].first] = answer->values[i].second;
      if (i > 0) {
        EXPECT_GE(answer->values[i - 1].second, answer->values[i].second);
      }
    }
    EXPECT_EQ(counted, expected) << field;
    EXPECT_EQ(answer->distinct, expected.size());
  };
  for (const bool indexed : {false, true}) {
    if (indexed) {
      // A field whose index has every value, and one whose index has not.
      for (auto& [id, payload] : payloads_) payload["n"] = static_cast<int64_t>(id % 7);
      for (auto& [id, payload] : payloads_) {
        const auto set = StrCat("{\"n\":", id % 7, "}");
        ASSERT_TRUE(engine_->ChangePayload(Change(PayloadChange::kSet, {Id(id)}, set), {}).ok());
      }
      IndexFields({{"a", PayloadType::kKeyword}, {"n", PayloadType::kInteger}, {"c", PayloadType::kFloat}});
    }
    for (int i = 0; i < 20; ++i) {
      const char* fields[] = {"a", "b", "c", "a.b", "\"d.e\"", "n"};
      const std::string field = fields[cases_.Pick(6)];
      check(field, cases_.Pick(2) ? std::optional(cases_.Node(2)) : std::nullopt);
      check(field, Leaf(Kind::kEquals, "n", {int64_t{3}}));
    }
  }
}

TEST_F(Verbs, AFacetNamesItsLimits) {
  MakeCollection();
  FacetCall call;
  call.collection = "c";
  call.field = "a";
  call.limit = kFacetLimitMax + 1;
  EXPECT_TRUE(Fails(engine_->Facet(call, {}), Code::kInvalidArgument, {"limit", "65536"}));
  call.limit = 1;
  call.field = "a.";
  EXPECT_TRUE(Fails(engine_->Facet(call, {}), Code::kInvalidArgument, {"field"}));
  call.field = "a";
  Json many = Json::array();
  for (size_t i = 0; i <= kFacetValuesMax; ++i) many.push_back(i);
  Write(BatchOf({ItemOf(Id(1), {1, 0, 0, 0}, Json{{"a", many}}.dump())}));
  EXPECT_TRUE(Fails(engine_->Facet(call, {}), Code::kResourceExhausted, {"'a'", "100000"}));
}

TEST_F(Verbs, GroupsHoldTheBestHitsOfTheBestValues) {
  MakeCollection();
  WriteRandom(300);
  // One value that nearly all of the nearest items share does not hide the others.
  std::vector<UpsertItem> near;
  for (uint64_t i = 1'000; i < 1'150; ++i) {
    payloads_[i] = {{"a", "crowd"}};
    near.push_back(ItemOf(Id(i), {0.001f * static_cast<float>(i - 1'000), 0, 0, 0}, payloads_[i].dump()));
  }
  Write(BatchOf(std::move(near)));
  for (int round = 0; round < 10; ++round) {
    SearchCall ranked =
        SearchFor(round == 0 ? std::vector<float>{0, 0, 0, 0} : RandomVector(&random_, kDimension), 450);
    ranked.with_payload = true;
    if (round % 3 == 2) ranked.filter = cases_.Node(1);
    const std::vector<EngineHit> hits = Hits(ranked);
    SearchCall call = ranked;
    call.k = 0;
    call.group_by = GroupBy{"a", 1 + cases_.Pick(5), 1 + cases_.Pick(4)};
    std::vector<std::pair<FieldValue, std::vector<ItemId>>> expected;
    for (const EngineHit& hit : hits) {
      std::set<FieldValue> values = NaiveValues(Json::parse(hit.payload_json), "a");
      for (const FieldValue& value : values) {
        if (std::holds_alternative<double>(value)) continue;
        auto group = std::find_if(expected.begin(), expected.end(), [&](const auto& g) { return g.first == value; });
        if (group == expected.end()) {
          if (std::ssize(expected) == call.group_by->groups) continue;
          group = expected.insert(expected.end(), {value, {}});
        }
        if (std::ssize(group->second) < call.group_by->group_size) group->second.push_back(hit.id);
      }
    }
    const auto answer = engine_->Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->partial);
    EXPECT_TRUE(answer->results[0].hits.empty());
    std::map<FieldValue, std::vector<ItemId>> found;
    for (const HitGroup& group : answer->results[0].groups) {
      for (const EngineHit& hit : group.hits) found[group.value].push_back(hit.id);
    }
    EXPECT_EQ(found, (std::map<FieldValue, std::vector<ItemId>>(expected.begin(), expected.end())));
  }
  SearchCall call = SearchFor({0, 0, 0, 0}, 0);
  call.group_by = GroupBy{"a", 100, 101};
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"group_by.group_size", "100"}));
  call.group_by = GroupBy{"a"};
  call.k = 5;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"'k'", "group_by"}));
}

TEST_F(Verbs, OrderedScrollsWalkTheIndexInBothDirectionsWithoutGapsOrRepeats) {
  MakeCollection();
  std::vector<UpsertItem> items;
  std::map<uint64_t, std::vector<int64_t>> values;
  for (uint64_t i = 0; i < 300; ++i) {
    Json payload = Json::object();
    for (int n = cases_.Pick(4); n > 0; --n) values[i].push_back(cases_.Pick(3) ? cases_.Pick(30) - 10 : 5);
    if (!values[i].empty()) payload["n"] = values[i];
    payload["even"] = i % 2 == 0;
    items.push_back(ItemOf(Id(i), RandomVector(&random_, kDimension), payload.dump()));
  }
  Write(BatchOf(std::move(items)));
  OrderBy order{"n", false, {}};
  EXPECT_TRUE(Fails(engine_->ScrollOrdered("c", order, {}, 10, "", false, {}), Code::kFailedPrecondition,
                    {"'n'", "no payload index", "collection index-payload"}));
  IndexFields({{"n", PayloadType::kInteger}, {"even", PayloadType::kBoolean}});
  for (const bool descending : {false, true}) {
    for (const bool filtered : {false, true}) {
      order = {"n", descending, filtered ? std::optional<FieldValue>(int64_t{4}) : std::nullopt};
      std::vector<std::pair<int64_t, uint64_t>> expected;
      for (const auto& [id, of_item] : values) {
        std::optional<int64_t> first;
        for (const int64_t value : of_item) {
          if (filtered && (descending ? value > 4 : value < 4)) continue;
          if (!first || (descending ? value > *first : value < *first)) first = value;
        }
        if (first && (!filtered || id % 2 == 0)) expected.emplace_back(descending ? -*first : *first, id);
      }
      std::sort(expected.begin(), expected.end());
      std::vector<uint64_t> expected_ids, ids;
      for (const auto& [value, id] : expected) expected_ids.push_back(id);
      const auto filter = filtered ? std::optional(Leaf(Kind::kEquals, "even", {true})) : std::nullopt;
      std::string token;
      do {
        const auto page = engine_->ScrollOrdered("c", order, filter, 7, token, false, {});
        ASSERT_TRUE(page.ok()) << page.status();
        EXPECT_LE(page->items.size(), 7u);
        for (const StoredItem& item : page->items) ids.push_back(std::get<uint64_t>(item.id.value));
        token = page->token;
      } while (!token.empty());
      EXPECT_EQ(ids, expected_ids) << descending << filtered;
    }
  }
  order = {"even", false, {}};
  EXPECT_TRUE(Fails(engine_->ScrollOrdered("c", order, {}, 10, "", false, {}), Code::kFailedPrecondition, {"'even'"}));
  IndexFields({{"words", PayloadType::kText}, {"at", PayloadType::kGeo}});
  for (const char* field : {"words", "at"}) {
    order = {field, false, {}};
    EXPECT_TRUE(Fails(engine_->ScrollOrdered("c", order, {}, 10, "", false, {}), Code::kFailedPrecondition,
                      {StrCat("'", field, "'"), "keeps no order"}));
  }
  order = {"n", false, std::string("x")};
  EXPECT_TRUE(Fails(engine_->ScrollOrdered("c", order, {}, 10, "", false, {}), Code::kInvalidArgument,
                    {"start_from", "integer"}));
  order = {"n", false, {}};
  EXPECT_TRUE(Fails(engine_->ScrollOrdered("c", order, {}, 10, "zz", false, {}), Code::kInvalidArgument, {"token"}));
}

TEST_F(Verbs, ANewVectorKeepsPayloadAndTimeWhereItIsAskedTo) {
  MakeCollection();
  UpsertItem first = ItemOf(Id("a"), {1, 0, 0, 0}, R"({"n":1})");
  first.ttl_ms = 3'600'000;
  Write(BatchOf({first, ItemOf(Id("b"), {1, 0, 0, 0}, R"({"n":2})")}));
  const auto before = engine_->Get("c", {Id("a")}, 0, true, {});
  ASSERT_TRUE(before.ok()) << before.status();
  UpsertBatch again = BatchOf({ItemOf(Id("a"), {0, 1, 0, 0}), ItemOf(Id("b"), {0, 1, 0, 0})});
  again.keep_payload = true;
  Write(again);
  const auto after = engine_->Get("c", {Id("a"), Id("b")}, 0, true, {});
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->items[0].expires, before->items[0].expires);
  EXPECT_EQ(after->items[0].payload_json, R"({"n":1})");
  EXPECT_EQ(after->items[1].expires, std::nullopt);
  EXPECT_EQ(after->items[1].payload_json, R"({"n":2})");
  EXPECT_EQ(after->items[0].vector, (std::vector<float>{0, 1, 0, 0}));
  UpsertBatch wrong = again;
  wrong.items.push_back(ItemOf(Id("none"), {0, 0, 1, 0}));
  EXPECT_TRUE(Fails(engine_->Upsert(wrong, {}), Code::kNotFound, {"items[2]", "none"}));
  EXPECT_EQ(engine_->Get("c", {Id("a")}, 0, true, {})->items[0].sequence, after->items[0].sequence) << "as a whole";
  wrong = again;
  wrong.same_content = true;
  EXPECT_TRUE(Fails(engine_->Upsert(wrong, {}), Code::kInvalidArgument, {"keep_payload", "unset with same_content"}));
  wrong = again;
  wrong.items[1].payload_json = "{}";
  EXPECT_TRUE(Fails(engine_->Upsert(wrong, {}), Code::kInvalidArgument, {"items[1].payload_json", "keep_payload"}));
}

}  // namespace
}  // namespace lightcone::server
