// Deletions of the items that pass a filter, against a naive model.
#include <map>
#include <random>
#include <set>

#include "engine_testing.h"
#include "naive_filter.h"
#include "nlohmann/json.hpp"
#include "random_filters.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using Kind = FilterNode::Kind;
using Json = nlohmann::json;

class FilterDeletions : public EngineTest {
 protected:
  // Random items with ids 0 .. count - 1.
  void WriteRandom(uint64_t count) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < count; ++i) {
      payloads_[i] = cases_.Object(2);
      items.push_back(ItemOf(Id(i), RandomVector(&random_, kDimension), payloads_[i].dump()));
    }
    Write(BatchOf(std::move(items)));
  }

  RandomCases cases_{29};
  std::mt19937 random_{31};
  std::map<uint64_t, Json> payloads_;
};

TEST_F(FilterDeletions, ADeletionByFilterTakesExactlyWhatPasses) {
  MakeCollection();
  WriteRandom(400);
  uint64_t all = 0;
  for (int round = 0; round < 25; ++round) {
    DeleteByFilterCall call;
    call.collection = "c";
    call.filter = Branch(Kind::kAnd, {cases_.Node(2), cases_.Node(2)});
    call.limit = 1 + cases_.Pick(40);
    std::set<uint64_t> passing;
    for (const auto& [id, payload] : payloads_) {
      if (Naive(call.filter, payload)) passing.insert(id);
    }
    uint64_t deleted = 0;
    do {
      const auto answer = engine_->DeleteByFilter(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_LE(answer->deleted, static_cast<uint64_t>(call.limit));
      deleted += answer->deleted;
      call.token = answer->token;
    } while (!call.token.empty());
    EXPECT_EQ(deleted, passing.size());
    for (const uint64_t id : passing) payloads_.erase(id);
    EXPECT_EQ(engine_->Count("c", {}, {})->count, payloads_.size());
    all += deleted;
    if (payloads_.size() < 40) break;
    if (round % 8 == 7) Restart();
  }
  EXPECT_GT(all, 50u);
  const auto left = engine_->Scroll("c", {}, 1'000, "", false, {});
  ASSERT_TRUE(left.ok()) << left.status();
  for (const StoredItem& item : left->items) {
    EXPECT_TRUE(payloads_.contains(std::get<uint64_t>(item.id.value)));
  }
  EXPECT_EQ(Hits(SearchFor({0, 0, 0, 0}, 400)).size(), payloads_.size());
}

TEST_F(FilterDeletions, ADeletionByFilterSaysWhatItCannotDo) {
  MakeCollection();
  DeleteByFilterCall call;
  call.collection = "c";
  call.filter = Leaf(Kind::kExists, "a");
  call.limit = 10'001;
  EXPECT_TRUE(Fails(engine_->DeleteByFilter(call, {}), Code::kInvalidArgument, {"limit", "10001", "10000"}));
  call.limit = 0;
  call.token = "no token";
  EXPECT_TRUE(Fails(engine_->DeleteByFilter(call, {}), Code::kInvalidArgument, {"token"}));
  call.token.clear();
  call.filter = Branch(Kind::kNot);
  EXPECT_TRUE(Fails(engine_->DeleteByFilter(call, {}), Code::kInvalidArgument, {"filter.not"}));
  call.collection = "d";
  EXPECT_TRUE(Fails(engine_->DeleteByFilter(call, {}), Code::kNotFound, {"no collection 'd'"}));
}

TEST_F(FilterDeletions, ADeletionByGenerationCountsTheServedEmbedding) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("old"), {1, 0, 0, 0}), ItemOf(Id("new"), {0, 1, 0, 0})}, 1));
  Activate(2, /*force=*/true);
  Write(BatchOf({ItemOf(Id("new"), {0, 1, 0, 0})}, 2, /*same_content=*/true));
  DeleteByFilterCall call;
  call.collection = "c";
  call.filter = Leaf(Kind::kEquals, "$generation", {int64_t{1}});
  EXPECT_EQ(engine_->DeleteByFilter(call, {})->deleted, 1u);
  EXPECT_EQ(engine_->Get("c", {Id("old"), Id("new")}, 0, false, {})->missing, std::vector<ItemId>{Id("old")});
}

}  // namespace
}  // namespace lightcone::server
