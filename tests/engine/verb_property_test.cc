// 2,000 random collections whose items are written, replaced, changed, expired and deleted by ids and by filters: each
// way to read them answers as a naive model does.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "naive_filter.h"
#include "nlohmann/json.hpp"
#include "random_filters.h"
#include "server/engine/api/options.h"
#include "tests/engine/engine_testing.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;
using Kind = FilterNode::Kind;

constexpr int kCollections = 2'000;
constexpr int64_t kStartMs = 1'700'000'000'000;

// The engine's clocks, which the worlds move.
struct Clocks {
  std::atomic<int64_t> wall_ms{kStartMs}, steady_ms{1'000};
};

class VerbWorld {
 public:
  VerbWorld(Engine* engine, Clocks* clocks, uint32_t seed) : engine_(engine), clocks_(clocks), cases_(seed) {}

  void Live() {
    Create();
    for (int step = 0; step < 6 && !testing::Test::HasFatalFailure(); ++step) {
      Upsert();
      switch (cases_.Pick(5)) {
        case 0:
          Replace();
          break;
        case 1:
          Delete();
          break;
        case 2:
          Expire();
          break;
        default:
          Change();
      }
    }
    if (!testing::Test::HasFatalFailure()) CheckCountsAndScrolls();
    if (!testing::Test::HasFatalFailure()) CheckFacet();
    if (!testing::Test::HasFatalFailure()) CheckOrder();
    if (!testing::Test::HasFatalFailure()) CheckRanked();
  }

 private:
  struct Item {
    Json payload;
    std::vector<float> vector;
    int64_t expires_ms = 0;  // 0: never
    uint64_t written = 0;    // place among all contents
  };

  void Create() {
    CreateCollectionCall call;
    call.name = "c";
    call.metric = Metric::kEuclidean;
    call.payload_fields = {{"n", PayloadType::kInteger}};
    if (cases_.Pick(2)) call.payload_fields.push_back({"a", PayloadType::kKeyword});
    if (cases_.Pick(2)) call.payload_fields.push_back({"b", PayloadType::kFloat});
    if (cases_.Pick(3) == 0) call.index.growing_rows_max = 20;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    IndexPayloadCall built;  // of what the collection has already: waits for it
    built.collection = "c";
    built.add = call.payload_fields;
    built.wait = true;
    const auto indexed = engine_->IndexPayload(built, {});
    ASSERT_TRUE(indexed.ok() || absl::IsAlreadyExists(indexed.status())) << indexed.status();
    RegisterCall generation;
    generation.collection = "c";
    generation.manifest_json = "{\"dimension\": 2}";
    ASSERT_TRUE(engine_->RegisterGeneration(generation).ok());
    ActivateCall activate;
    activate.collection = "c";
    activate.generation = 1;
    ASSERT_TRUE(engine_->ActivateGeneration(activate).ok());
  }

  std::vector<float> Vector() {
    return {static_cast<float>(cases_.Pick(1'000)), static_cast<float>(cases_.Pick(1'000))};
  }
  Json Payload() {
    Json payload = cases_.Object(2);
    if (cases_.Pick(4)) payload["n"] = cases_.Pick(9);
    return payload;
  }
  int64_t Now() const { return clocks_->wall_ms; }
  void Forget() {
    std::erase_if(items_,
                  [this](const auto& item) { return item.second.expires_ms != 0 && item.second.expires_ms <= Now(); });
  }

  void Upsert() {
    UpsertBatch batch = BatchOf({});
    batch.durability = Durability::kProcess;
    std::set<uint64_t> ids;
    for (int i = 1 + cases_.Pick(12); i > 0; --i) ids.insert(static_cast<uint64_t>(cases_.Pick(40)));
    for (const uint64_t id : ids) {
      Item item{Payload(), Vector(), 0, ++written_};
      UpsertItem& to = batch.items.emplace_back(ItemOf(Id(id), item.vector, item.payload.dump()));
      if (cases_.Pick(4) == 0) {
        to.ttl_ms = 1 + cases_.Pick(1'000);
        item.expires_ms = Now() + *to.ttl_ms;
      }
      items_[id] = std::move(item);
    }
    const auto written = engine_->Upsert(std::move(batch), {});
    ASSERT_TRUE(written.ok()) << written.status();
  }

  // New vectors beside the payloads and times that items have.
  void Replace() {
    UpsertBatch batch = BatchOf({});
    batch.durability = Durability::kProcess;
    batch.keep_payload = true;
    for (auto& [id, item] : items_) {
      if (cases_.Pick(3) != 0) continue;
      item.vector = Vector();
      item.written = ++written_;
      batch.items.push_back(ItemOf(Id(id), item.vector));
    }
    if (batch.items.empty()) return;
    const auto written = engine_->Upsert(std::move(batch), {});
    ASSERT_TRUE(written.ok()) << written.status();
  }

  void Delete() {
    DeleteByFilterCall call;
    call.collection = "c";
    call.filter = cases_.Node(2);
    call.limit = 1 + cases_.Pick(20);
    call.durability = Durability::kProcess;
    uint64_t deleted = 0;
    const size_t before = items_.size();
    std::erase_if(items_, [&](const auto& item) { return Naive(call.filter, item.second.payload); });
    do {
      const auto answer = engine_->DeleteByFilter(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      deleted += answer->deleted;
      call.token = answer->token;
    } while (!call.token.empty());
    ASSERT_EQ(deleted, before - items_.size());
  }

  void Expire() {
    const int64_t passes = cases_.Pick(800);
    clocks_->wall_ms += passes;
    clocks_->steady_ms += passes;
    Forget();
  }

  void Change() {
    const Json given = cases_.Object(1);
    ChangePayloadCall call;
    call.collection = "c";
    call.change = static_cast<PayloadChange>(cases_.Pick(4));
    call.durability = Durability::kProcess;
    if (call.change == PayloadChange::kSet || call.change == PayloadChange::kOverwrite) {
      call.payload_json = given.dump();
    }
    if (call.change == PayloadChange::kDeleteKeys) call.keys = {"a", "\"d.e\""};
    if (cases_.Pick(2)) {
      call.filter = cases_.Node(2);
      call.limit = 1 + cases_.Pick(20);
    }
    uint64_t expected = 0, changed = 0;
    for (auto& [id, item] : items_) {
      if (call.filter ? !Naive(*call.filter, item.payload) : cases_.Pick(3) != 0) continue;
      ++expected;
      if (!call.filter) call.ids.push_back(Id(id));
      if (call.change == PayloadChange::kSet) item.payload.update(given);
      if (call.change == PayloadChange::kOverwrite) item.payload = given;
      if (call.change == PayloadChange::kDeleteKeys) item.payload.erase("a"), item.payload.erase("d.e");
      if (call.change == PayloadChange::kClear) item.payload = Json::object();
    }
    if (!call.filter && call.ids.empty()) return;
    do {
      const auto answer = engine_->ChangePayload(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      changed += answer->changed;
      call.token = answer->token;
    } while (!call.token.empty());
    // What a change gives an item can make it pass the filter, but a walk meets each item once.
    ASSERT_EQ(changed, expected);
  }

  std::optional<FilterNode> SomeFilter() { return cases_.Pick(2) ? std::optional(cases_.Node(2)) : std::nullopt; }
  static bool Passes(const std::optional<FilterNode>& filter, const Item& item) {
    return !filter || Naive(*filter, item.payload);
  }

  void CheckCountsAndScrolls() {
    for (int i = 0; i < 2; ++i) {
      const std::optional<FilterNode> filter = SomeFilter();
      std::map<uint64_t, Json> expected, scrolled;
      for (const auto& [id, item] : items_) {
        if (Passes(filter, item)) expected[id] = item.payload;
      }
      const auto counted = engine_->Count("c", filter, {});
      ASSERT_TRUE(counted.ok()) << counted.status();
      ASSERT_EQ(counted->count, expected.size());
      std::string token;
      do {
        const auto page = engine_->Scroll("c", filter, 7, token, false, {});
        ASSERT_TRUE(page.ok()) << page.status();
        for (const StoredItem& item : page->items) {
          scrolled[std::get<uint64_t>(item.id.value)] = Json::parse(item.payload_json);
          const int64_t expires = items_.at(std::get<uint64_t>(item.id.value)).expires_ms;
          ASSERT_EQ(item.expires ? absl::ToUnixMillis(*item.expires) : 0, expires);
        }
        token = page->token;
      } while (!token.empty());
      ASSERT_EQ(scrolled, expected);
    }
  }

  void CheckFacet() {
    const char* fields[] = {"a", "b", "n", "c.a", "\"d.e\""};
    FacetCall call;
    call.collection = "c";
    call.field = fields[cases_.Pick(5)];
    call.filter = SomeFilter();
    call.limit = 1'000;
    const auto answer = engine_->Facet(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    std::map<FieldValue, uint64_t> expected;
    for (const auto& [id, item] : items_) {
      if (!Passes(call.filter, item)) continue;
      for (const FieldValue& value : NaiveValues(item.payload, call.field)) ++expected[value];
    }
    ASSERT_EQ((std::map<FieldValue, uint64_t>(answer->values.begin(), answer->values.end())), expected) << call.field;
  }

  void CheckOrder() {
    const bool descending = cases_.Pick(2) == 0;
    const std::optional<FilterNode> filter = SomeFilter();
    std::vector<std::tuple<int64_t, uint64_t, uint64_t>> ordered;  // value, place of the content, id
    for (const auto& [id, item] : items_) {
      if (!Passes(filter, item)) continue;
      const auto n = item.payload.find("n");
      if (n == item.payload.end()) continue;
      const int64_t value = n->get<int64_t>();
      ordered.emplace_back(descending ? -value : value, item.written, id);
    }
    std::sort(ordered.begin(), ordered.end());
    std::vector<uint64_t> expected, found;
    for (const auto& [value, written, id] : ordered) expected.push_back(id);
    std::string token;
    do {
      const auto page = engine_->ScrollOrdered("c", {"n", descending, {}}, filter, 7, token, false, {});
      ASSERT_TRUE(page.ok()) << page.status();
      for (const StoredItem& item : page->items) found.push_back(std::get<uint64_t>(item.id.value));
      token = page->token;
    } while (!token.empty());
    ASSERT_EQ(found, expected);
  }

  // Searches with an offset, a threshold, and groups.
  void CheckRanked() {
    SearchCall call = SearchFor(Vector(), 1 + cases_.Pick(10));
    call.exact = true;
    call.filter = SomeFilter();
    call.offset = cases_.Pick(4);
    const auto& query = std::get<std::vector<float>>(call.queries[0].content);
    std::vector<std::pair<double, uint64_t>> ranked;
    for (const auto& [id, item] : items_) {
      if (!Passes(call.filter, item)) continue;
      ranked.emplace_back(std::hypot(item.vector[0] - query[0], item.vector[1] - query[1]), id);
    }
    std::sort(ranked.begin(), ranked.end());
    const auto same = [](const std::vector<EngineHit>& hits, const std::vector<std::pair<double, uint64_t>>& expected) {
      ASSERT_EQ(hits.size(), expected.size());
      for (size_t i = 0; i < hits.size(); ++i) ASSERT_NEAR(hits[i].distance, expected[i].first, 1e-3) << i;
    };
    auto answer = engine_->Search(call, {});
    if (!answer.ok()) {
      ASSERT_TRUE(absl::IsFailedPrecondition(answer.status()) && items_.empty()) << answer.status();
      return;
    }
    const size_t begin = std::min(ranked.size(), static_cast<size_t>(call.offset));
    const size_t end = std::min(ranked.size(), begin + static_cast<size_t>(call.k));
    ASSERT_NO_FATAL_FAILURE(same(answer->results[0].hits, {ranked.begin() + static_cast<ptrdiff_t>(begin),
                                                           ranked.begin() + static_cast<ptrdiff_t>(end)}));
    call.offset = 0;
    call.k = 100;
    call.distance_max = 400;
    answer = engine_->Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto above = std::find_if(ranked.begin(), ranked.end(), [](const auto& one) { return one.first > 400; });
    ASSERT_NO_FATAL_FAILURE(same(answer->results[0].hits, {ranked.begin(), above}));
    CheckGroups(call, ranked);
  }

  void CheckGroups(SearchCall call, const std::vector<std::pair<double, uint64_t>>& ranked) {
    call.distance_max = std::nullopt;
    call.k = 0;
    call.group_by = GroupBy{"n", 1 + cases_.Pick(4), 1 + cases_.Pick(3)};
    const auto answer = engine_->Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    std::vector<std::pair<int64_t, std::vector<double>>> expected;
    for (const auto& [distance, id] : ranked) {
      const auto n = items_.at(id).payload.find("n");
      if (n == items_.at(id).payload.end()) continue;
      const int64_t value = n->get<int64_t>();
      auto group = std::find_if(expected.begin(), expected.end(), [&](const auto& one) { return one.first == value; });
      if (group == expected.end() && std::ssize(expected) == call.group_by->groups) continue;
      if (group == expected.end()) group = expected.insert(group, {value, {}});
      if (std::ssize(group->second) < call.group_by->group_size) group->second.push_back(distance);
    }
    const std::vector<HitGroup>& groups = answer->results[0].groups;
    ASSERT_EQ(groups.size(), expected.size());
    for (const HitGroup& group : groups) {
      const auto like = std::find_if(expected.begin(), expected.end(),
                                     [&](const auto& one) { return FieldValue(one.first) == group.value; });
      ASSERT_NE(like, expected.end());
      ASSERT_EQ(group.hits.size(), like->second.size());
      for (size_t i = 0; i < group.hits.size(); ++i) ASSERT_NEAR(group.hits[i].distance, like->second[i], 1e-3);
    }
  }

  Engine* engine_;
  Clocks* clocks_;
  RandomCases cases_;
  std::map<uint64_t, Item> items_;
  uint64_t written_ = 0;
};

TEST(VerbProperty, RandomCollectionsAreWrittenAndReadAsAModelOfThem) {
  TemporaryFolder folder;
  Clocks clocks;
  EngineOptions options = OptionsFor(folder.path());
  options.clock = {[&clocks] { return absl::FromUnixMillis(clocks.wall_ms.load()); },
                   [&clocks] { return absl::Milliseconds(clocks.steady_ms.load()); }};
  const auto engine = OpenEngine(options);
  ASSERT_NE(engine, nullptr);
  for (uint32_t seed = 0; seed < kCollections; ++seed) {
    SCOPED_TRACE(StrCat("collection ", seed));
    VerbWorld world(engine.get(), &clocks, seed);
    world.Live();
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(engine->DropCollection("c", "").ok());
  }
}

}  // namespace
}  // namespace lightcone::server
