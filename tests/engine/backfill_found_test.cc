// What searches found goes before the order of a backfill; leases that are renewed.
#include "backfill_world.h"
#include "server/engine/backfill/touched_items.h"

namespace lightcone::server {
namespace {

// What users look at comes first, whatever its place in the order, and once.
TEST_F(Backfills, WhatSearchesFoundIsLeasedFirstAndOnceBetweenStarts) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start();
  std::vector<std::string> order = Names(Lease(100, absl::Milliseconds(1)));
  ASSERT_EQ(order.size(), 30u);
  while (engine_->GetBackfill("c")->items_leased > 0) std::this_thread::yield();  // until the millisecond is over
  SearchCall call = SearchFor({1, 1, 0, 0}, 3);
  ASSERT_TRUE(call.exact) << "somebody evaluates: nobody looks at these";
  ASSERT_EQ(Hits(call).size(), 3u);
  EXPECT_EQ(Names(Lease(1, kLong)), std::vector<std::string>{order[0]});
  call.exact = false;
  std::vector<std::string> expected = HitNames(call);
  const std::vector<std::string> found = expected;
  ASSERT_THAT(found, Not(Contains(order[0])));
  std::copy_if(order.begin() + 1, order.end(), std::back_inserter(expected),
               [&](const std::string& name) { return std::count(found.begin(), found.end(), name) == 0; });
  expected.resize(5);  // and then the worst
  const LeaseAnswer lease = Lease(5);
  EXPECT_EQ(Names(lease), expected);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(lease.items[i].found_lately, i < 3) << i;
  // A worker that cannot embed them gives them back, and is not sent them by the next search again.
  EXPECT_EQ(HitNames(call), found);
  const LeaseAnswer next = Lease(2, kLong, lease.token);
  for (const LeasedItem& item : next.items) EXPECT_FALSE(item.found_lately);
  std::vector<std::string> rest = Names(Lease(100));
  ASSERT_EQ(rest.size(), 27u);  // but order[0] and two
  EXPECT_THAT(std::vector<std::string>(rest.end() - 5, rest.end()), testing::IsSupersetOf(found))
      << "behind all others";
  Start();
  EXPECT_EQ(HitNames(call), found);
  EXPECT_EQ(Names(Lease(3)), found);
}

// Held because a search found it, while the order goes past it; or given back before that.
TEST_F(Backfills, WhatSearchesFoundIsNeitherLostNorLeasedTwice) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  SearchCall call = SearchFor({1, 1, 0, 0}, 4);
  call.exact = false;
  for (const bool passed : {true, false}) {
    Start();
    const std::vector<std::string> found = HitNames(call);
    const LeaseAnswer held = Lease(4);
    EXPECT_EQ(Names(held), found);
    std::vector<std::string> all;
    LeaseAnswer rest;
    if (passed) rest = Lease(100);
    for (const std::string& name : Names(rest)) all.push_back(name);
    EXPECT_EQ(all.size(), passed ? 26u : 0u);
    for (const std::string& name : Names(Lease(100, kLong, held.token))) all.push_back(name);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all.size(), 30u);
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  }
}

// While the whole order is made anew, and after a lease that ran out.
TEST_F(Backfills, WhatSearchesFoundSurvivesAnotherOrderAndTheEndOfItsLease) {
  MakeCollection(2);
  FillRandomly(30, 1);
  Activate(2);
  Start();
  SearchCall call = SearchFor({1, 1, 0, 0}, 4);
  call.exact = false;
  const std::vector<std::string> found = HitNames(call);
  EXPECT_EQ(Names(Lease(4, absl::Milliseconds(1))), found);
  const LeaseAnswer passing = Lease(100);  // goes past their keys, or gets them after the millisecond
  const size_t late = passing.items.size();
  EXPECT_GE(late, 26u);
  while (engine_->GetBackfill("c")->items_leased > late) std::this_thread::yield();
  EXPECT_EQ(Lease(100).items.size(), 30 - late) << "their keys were kept";
  // New content makes all of it be ordered again, once the order is through, while some are held.
  Start();
  EXPECT_EQ(HitNames(call), found);
  const LeaseAnswer held = Lease(4);
  EXPECT_EQ(Names(held), found);
  LeaseAnswer rest = Lease(100);
  EXPECT_EQ(rest.items.size(), 26u);
  Embed(rest);
  Write(BatchOf({ItemOf(Id(100), {0, 0, 0, 1})}, 1));
  EXPECT_THAT(Lease(100, kLong, rest.token).items, IsEmpty());
  EXPECT_EQ(Settled().state, BackfillState::kRunning);
  EXPECT_THAT(Names(Lease(100)), ElementsAre("100@1")) << "the others are held still";
  EXPECT_THAT(Names(Lease(100, kLong, held.token)), UnorderedElementsAreArray(found));
}

TEST_F(Backfills, ARenewalSetsAnotherEndToALease) {
  MakeCollection(2);
  FillRandomly(6, 1);
  Activate(2);
  Start();
  const LeaseAnswer lease = Lease(4, absl::Minutes(10));
  ASSERT_EQ(lease.items.size(), 4u);
  auto renewed = engine_->LeaseBackfill({"c", 0, kLong, "", lease.token});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->token, lease.token);
  EXPECT_THAT(renewed->items, IsEmpty());
  EXPECT_GT(renewed->expires, lease.expires + absl::Minutes(40));
  EXPECT_EQ(Lease(100).items.size(), 2u);
  renewed = engine_->LeaseBackfill({"c", 0, absl::Milliseconds(1), "", lease.token});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  LeaseAnswer again;
  while (again.items.empty()) again = Lease(100);  // until the millisecond is over
  EXPECT_EQ(Names(again), Names(lease));
  const auto ended = engine_->LeaseBackfill({"c", 0, kLong, "", lease.token});
  EXPECT_TRUE(Fails(ended, Code::kFailedPrecondition, {"renew_token", lease.token}));
  EXPECT_TRUE(Fails(engine_->LeaseBackfill({"c", 3, kLong, "", "x"}), Code::kInvalidArgument, {"items_max", "3"}));
  EXPECT_TRUE(
      Fails(engine_->LeaseBackfill({"c", 0, kLong, "y", "x"}), Code::kInvalidArgument, {"finished_token", "y"}));
}

TEST(TouchedItemsTest, AreTakenInTheOrderInWhichTheyWereFoundAndHaveBounds) {
  TouchedItems touched;
  SearchAnswer answer;
  answer.results.resize(2);
  const auto hit = [&](size_t result, uint64_t id, uint32_t generation) {
    EngineHit& added = answer.results[result].hits.emplace_back();
    added.id = Id(id);
    added.generation = generation;
  };
  hit(0, 7, 1), hit(0, 8, 2), hit(0, 9, 1), hit(1, 9, 1), hit(1, 3, 1);
  touched.Note(answer, 2);
  touched.Note(answer, 2);
  EXPECT_THAT(touched.Take(2), ElementsAre(Id(7), Id(9)));
  touched.Note(answer, 2);
  EXPECT_THAT(touched.Take(10), ElementsAre(Id(3), Id(7), Id(9))) << "what waits keeps its place";
  touched.Note(answer, 1);
  EXPECT_THAT(touched.Take(10), IsEmpty()) << "nothing is older";
  answer.results.resize(1);
  for (uint64_t round = 0; round < 300; ++round) {
    answer.results[0].hits.clear();
    for (uint64_t i = 0; i < 200; ++i) hit(0, 1'000 * round + i, 1);
    touched.Note(answer, 2);
  }
  const std::vector<ItemId> all = touched.Take(100'000);
  EXPECT_EQ(all.size(), TouchedItems::kItemsMax);
  EXPECT_EQ(all[TouchedItems::kHitsMax], Id(1'000)) << "of a query only the first hits count";
}

}  // namespace
}  // namespace lightcone::server
