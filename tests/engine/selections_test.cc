// What applications choose of an answer: an offset, bounds on distance and score, and fields of the payloads.
#include <algorithm>
#include <cmath>
#include <random>

#include "engine_testing.h"
#include "random_filters.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class Selections : public EngineTest {
 protected:
  // Random items with ids 0 .. count - 1.
  void WriteRandom(uint64_t count) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < count; ++i) {
      items.push_back(ItemOf(Id(i), RandomVector(&random_, kDimension), cases_.Object(2).dump()));
    }
    Write(BatchOf(std::move(items)));
  }

  RandomCases cases_{29};
  std::mt19937 random_{31};
};

std::vector<std::pair<double, ItemId>> PlacesOf(const std::vector<EngineHit>& hits) {
  std::vector<std::pair<double, ItemId>> places;
  for (const EngineHit& hit : hits) places.emplace_back(hit.distance, hit.id);
  return places;
}

TEST_F(Selections, AnOffsetAndBoundsCutTheRankingOfAllHits) {
  MakeCollection();
  WriteRandom(300);
  for (int round = 0; round < 30; ++round) {
    SearchCall call = SearchFor(RandomVector(&random_, kDimension), 300);
    call.exact = round % 2 == 0;
    if (round % 3 == 0) call.filter = cases_.Node(2);
    const auto all = PlacesOf(Hits(call));
    call.k = 1 + round;
    call.offset = 3 * (round % 7);
    std::vector<std::pair<double, ItemId>> expected = all;
    if (round % 4 == 1 && !all.empty()) call.distance_max = all[all.size() / 3].first;
    if (round % 4 == 2 && !all.empty()) call.score_threshold = -all[all.size() / 2].first;
    std::erase_if(expected, [&](const auto& place) {
      return (call.distance_max && place.first > *call.distance_max) ||
             (call.score_threshold && -place.first < *call.score_threshold);
    });
    expected.erase(expected.begin(),
                   expected.begin() + std::min<int64_t>(call.offset, static_cast<int64_t>(expected.size())));
    expected.resize(std::min(expected.size(), static_cast<size_t>(call.k)));
    EXPECT_EQ(PlacesOf(Hits(call)), expected) << "round " << round;
  }
}

TEST_F(Selections, ASearchRefusesOffsetsAndBoundsThatItCannotServe) {
  MakeCollection();
  SearchCall call = SearchFor({0, 0, 0, 0}, 10);
  call.offset = engine_->options().limits.k_max;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"offset", "9990 with k = 10"}));
  call.offset = 0;
  call.score_threshold = std::nan("");
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"score_threshold", "nan"}));
  call.score_threshold.reset();
  call.distance_max = INFINITY;
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"distance_max", "inf"}));
  call.distance_max.reset();
  call.payload.include = {"a"};
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"payload", "with_payload"}));
  call.with_payload = true;
  call.payload.include = {"a", "b..c"};
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kInvalidArgument, {"payload.include[1]", "b..c"}));
}

TEST_F(Selections, ChosenFieldsKeepTheirPlaces) {
  MakeCollection();
  const std::string payload = R"({"z":1,"a":[{"b":1,"c":2},{"c":3},4],"d.e":{"x":null,"y":[]}})";
  Write(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0}, payload)}));
  const auto shown = [&](std::vector<std::string> include, std::vector<std::string> exclude) {
    const ItemParts parts(false, {include, exclude});
    const std::string got = engine_->Get("c", {Id("i")}, 0, parts, {})->items.at(0).payload_json;
    EXPECT_EQ(engine_->Scroll("c", {}, 0, "", parts, {})->items.at(0).payload_json, got);
    SearchCall call = SearchFor({1, 0, 0, 0});
    call.with_payload = true;
    call.payload = {include, exclude};
    EXPECT_EQ(Hits(call).at(0).payload_json, got);
    return got;
  };
  EXPECT_EQ(shown({}, {}), payload);
  EXPECT_EQ(shown({"a.b", "z"}, {}), R"({"z":1,"a":[{"b":1}]})");
  EXPECT_EQ(shown({R"("d.e".x)"}, {}), R"({"d.e":{"x":null}})");
  EXPECT_EQ(shown({"none"}, {}), "{}");
  EXPECT_EQ(shown({}, {"a.c", R"("d.e")"}), R"({"z":1,"a":[{"b":1},{},4]})");
  EXPECT_EQ(shown({"a"}, {"a.c"}), R"({"a":[{"b":1},{},4]})");
}

// Nlohmann's own reader takes time with the square of the keys, of which any writer may store many.
TEST_F(Selections, PayloadsOfManyKeysAreChosenFromAndChangedInLinearTime) {
  MakeCollection();
  std::string payload = "{\"x\":1", change = "{\"x\":2";
  for (int i = 0; i < 80'000; ++i) payload += StrCat(",\"", i, "\":0"), change += StrCat(",\"c", i, "\":0");
  Write(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0}, payload + "}")}));
  const ItemParts parts(false, {{"x"}, {}});
  EXPECT_EQ(engine_->Get("c", {Id("i")}, 0, parts, {})->items.at(0).payload_json, R"({"x":1})");
  ChangePayloadCall call;
  call.collection = "c";
  call.ids = {Id("i")};
  call.payload_json = change.substr(0, change.rfind(',', 200'000)) + "}";  // Both together stay below the limit.
  ASSERT_TRUE(engine_->ChangePayload(call, {}).ok());
  EXPECT_EQ(engine_->Get("c", {Id("i")}, 0, parts, {})->items.at(0).payload_json, R"({"x":2})");
}

TEST_F(Selections, AChangeInEachElementOfALongArrayIsRefusedBeforeItFillsTheMemory) {
  MakeCollection();
  std::string payload = R"({"a":[{})";
  for (int i = 0; i < 2'000; ++i) payload += ",{}";
  Write(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0}, payload + "]}")}));
  ChangePayloadCall call;
  call.collection = "c";
  call.ids = {Id("i")};
  call.key = "a";
  call.payload_json = StrCat("{\"x\":\"", std::string(1'000'000, 'x'), "\"}");  // 2 GB together
  EXPECT_TRUE(Fails(engine_->ChangePayload(call, {}), Code::kInvalidArgument,
                    {"item 'i'", "payload_json", "after the change"}));
}

TEST_F(Selections, AChangeBelowEmptyKeysInALongArrayIsRefusedBeforeItFillsTheMemory) {
  MakeCollection();
  std::string payload = R"({"a":[{})", key = "a";
  for (int i = 0; i < 300'000; ++i) payload += ",{}";
  Write(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0}, payload + "]}")}));
  for (int i = 0; i < 50; ++i) key += ".\"\"";  // 15,000,000 objects together
  ChangePayloadCall call;
  call.collection = "c";
  call.ids = {Id("i")};
  call.key = key;
  call.payload_json = "{}";
  EXPECT_TRUE(Fails(engine_->ChangePayload(call, {}), Code::kInvalidArgument, {"item 'i'", "after the change"}));
}

TEST_F(Selections, ChangesThatMakeManyPayloadsLongAreRefusedTogether) {
  MakeCollection();
  std::string payload = R"({"a":[{})";
  for (int i = 0; i < 900; ++i) payload += ",{}";
  ChangePayloadCall call;
  call.collection = "c";
  for (uint64_t i = 0; i < 400; ++i) {
    Write(BatchOf({ItemOf(Id(i), {1, 0, 0, 0}, payload + "]}")}));
    call.ids.push_back(Id(i));
  }
  call.key = "a";
  call.payload_json = StrCat("{\"x\":\"", std::string(1'000, 'x'), "\"}");  // 0.9 MB for each item
  EXPECT_TRUE(Fails(engine_->ChangePayload(call, {}), Code::kResourceExhausted, {"longer", "fewer items"}));
  EXPECT_EQ(engine_->Get("c", {Id(uint64_t{0})}, 0, {}, {})->items.at(0).payload_json, payload + "]}");
  call.ids.resize(10);
  EXPECT_TRUE(engine_->ChangePayload(call, {}).ok());
}

TEST_F(Selections, KeysAreNotDeletedWhereNumbersWouldMakeThePayloadTooLong) {
  MakeCollection();
  std::string payload = R"({"x":0,"a":[1e14)";
  while (payload.size() < 1'000'000) payload += ",1e14";
  Write(BatchOf({ItemOf(Id("i"), {1, 0, 0, 0}, payload + "]}")}));
  ChangePayloadCall call;
  call.collection = "c";
  call.ids = {Id("i")};
  call.change = PayloadChange::kDeleteKeys;
  call.keys = {"x"};
  EXPECT_TRUE(Fails(engine_->ChangePayload(call, {}), Code::kInvalidArgument, {"item 'i'", "after the change"}));
}

}  // namespace
}  // namespace lightcone::server
