#include "server/engine/collection/id_cache.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lightcone::server {
namespace {

TEST(IdCache, GivesBackWhatItWasGivenAndNothingElse) {
  IdCache cache;
  cache.Add(1, ItemId{uint64_t{77}});
  cache.Add(2, ItemId{std::string("seventy-seven")});
  EXPECT_EQ(cache.Find(1), ItemId{uint64_t{77}});
  EXPECT_EQ(cache.Find(2), ItemId{std::string("seventy-seven")});
  EXPECT_EQ(cache.Find(3), std::nullopt);
}

TEST(IdCache, LeavesLongTextsToTheStore) {
  IdCache cache;
  cache.Add(1, ItemId{std::string(IdCache::kTextBytesMax, 'a')});
  cache.Add(2, ItemId{std::string(IdCache::kTextBytesMax + 1, 'a')});
  EXPECT_NE(cache.Find(1), std::nullopt);
  EXPECT_EQ(cache.Find(2), std::nullopt);
}

TEST(IdCache, StaysBoundedWhileManyThreadsFillIt) {
  IdCache cache;
  constexpr uint64_t kIds = 3 * IdCache::kIdsMax;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (uint64_t id = t; id < kIds; id += 4) cache.Add(id, ItemId{id * 10});
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t kept = 0;
  for (uint64_t id = 0; id < kIds; ++id) {
    const std::optional<ItemId> found = cache.Find(id);
    if (!found) continue;
    ++kept;
    EXPECT_EQ(*found, ItemId{id * 10});
  }
  EXPECT_LE(kept, IdCache::kIdsMax);
  EXPECT_GE(kept, IdCache::kIdsMax / 2);
}

TEST(IdCache, LetsANewWorkingSetReplaceTheOldOne) {
  IdCache cache;
  for (uint64_t id = 0; id < 2 * IdCache::kIdsMax; ++id) cache.Add(id, ItemId{id});
  constexpr uint64_t kFirst = 10 * IdCache::kIdsMax;
  for (uint64_t id = kFirst; id < kFirst + IdCache::kIdsMax / 2; ++id) cache.Add(id, ItemId{id});
  for (uint64_t id = kFirst; id < kFirst + IdCache::kIdsMax / 2; ++id) {
    ASSERT_EQ(cache.Find(id), ItemId{id}) << "the newest half is there";
  }
}

}  // namespace
}  // namespace lightcone::server
