#include "tests/system/power_judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "snapshot/restore.h"
#include "tests/engine/engine_testing.h"
#include "tests/system/power_workload.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

using server::Engine;
using server::EngineHit;
using server::StoredItem;

constexpr uint64_t kLaterId = 900'000;  // of an item that is written after a cut

// An engine whose clock stands behind the end of every time to live.
std::unique_ptr<Engine> OpenLater(const std::string& data) {
  server::EngineOptions options = PowerOptions(data);
  const ForwardClock::Source machine = ForwardClock::Machine();
  options.clock = {[machine] { return machine.wall() + absl::Hours(1); }, machine.steady};
  return server::OpenEngine(options);
}

using Stored = std::map<uint64_t, StoredItem>;

// What is wrong with an item; empty: nothing.
std::string CompareItem(uint64_t id, const PowerItem& item, const StoredItem& stored, uint32_t active) {
  const int writer = static_cast<int>(id / kPowerIdStep);
  const auto payload = nlohmann::json::parse(stored.payload_json, nullptr, /*allow_exceptions=*/false);
  if (!payload.is_object()) return "its payload is no object";
  if (payload.value("version", uint64_t{0}) != item.payload) return StrCat("its payload is ", stored.payload_json);
  if (payload.value("key", "") != PowerKey(writer, item.payload % kPowerGroups)) return "its payload is of another one";
  if (payload.value("patch", uint64_t{0}) != item.patch) {
    return StrCat("its payload lacks change ", item.patch, " or has another one");
  }
  std::vector<uint32_t> generations = {kPowerGeneration};
  if (item.embedded) generations.push_back(kPowerNewGeneration);
  if (stored.generations != generations) return StrCat("it is embedded by ", stored.generations.size(), " generations");
  const uint32_t generation = item.embedded && active == kPowerNewGeneration ? kPowerNewGeneration : kPowerGeneration;
  if (stored.vector != PowerVector(item.version * kPowerIdStep + id, generation)) return "its vector is another one";
  return "";
}

// The first thing that a state says and the store does not; empty: they agree.
std::string Compare(const PowerState& state, const Stored& stored, int writer, uint32_t active) {
  const uint64_t first = static_cast<uint64_t>(writer) * kPowerIdStep;
  for (uint64_t id = first; id < first + kPowerItems; ++id) {
    const auto expected = state.find(id);
    const bool there = expected != state.end() && !expected->second.expires;
    const auto found = stored.find(id);
    if (there && found == stored.end())
      return StrCat("item ", id, " of version ", expected->second.version, " is lost");
    if (!there && found != stored.end()) {
      return StrCat("item ", id, " is there, ", expected == state.end() ? "and was deleted" : "and has expired", ": ",
                    found->second.payload_json.substr(0, 60));
    }
    if (!there) continue;
    const std::string wrong = CompareItem(id, expected->second, found->second, active);
    if (!wrong.empty()) return StrCat("item ", id, " of version ", expected->second.version, ": ", wrong);
  }
  return "";
}

Stored ReadItems(Engine& engine, const std::string& name) {
  Stored stored;
  std::vector<ItemId> ids;
  for (uint64_t writer = 0; writer < kPowerWriters; ++writer) {
    for (uint64_t i = 0; i < kPowerItems; ++i) ids.push_back(ItemId{writer * kPowerIdStep + i});
  }
  const auto got = engine.Get(name, ids, 0, true, {});
  EXPECT_TRUE(got.ok()) << got.status();
  if (!got.ok()) return stored;
  for (const StoredItem& item : got->items) stored[std::get<uint64_t>(item.id.value)] = item;
  return stored;
}

void ExpectOwnVectorsFound(Engine& engine, const std::string& name, const Stored& stored) {
  if (stored.empty()) return;
  server::SearchCall call = server::SearchFor({}, 3);
  call.collection = name;
  call.queries.clear();
  for (const auto& [id, item] : stored) {
    server::Query query;
    query.content = item.vector;
    call.queries.push_back(std::move(query));
  }
  const auto answer = engine.Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  size_t at = 0;
  for (const auto& [id, item] : stored) {
    const server::QueryAnswer& one = answer->results[at++];
    ASSERT_TRUE(one.status.ok()) << one.status;
    const bool found =
        std::any_of(one.hits.begin(), one.hits.end(), [&item](const EngineHit& hit) { return hit.id == item.id; });
    EXPECT_TRUE(found) << "item " << id << " is not found by its own vector";
  }
}

// Index, count and pages hold the very items that reads by id show.
void ExpectSearchesAgree(Engine& engine, const std::string& name, const Stored& stored) {
  std::set<ItemId> ids;
  for (const auto& [id, item] : stored) ids.insert(ItemId{id});
  const auto counted = engine.Count(name, std::nullopt, {});
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->count, stored.size());
  const auto page = engine.Scroll(name, {}, 1'000, "", false, {});
  ASSERT_TRUE(page.ok()) << page.status();
  std::set<ItemId> scrolled;
  for (const StoredItem& item : page->items) scrolled.insert(item.id);
  EXPECT_EQ(scrolled, ids);
  for (const uint32_t generation : {0u, kPowerGeneration, kPowerNewGeneration}) {
    server::SearchCall call = server::SearchFor({0, 0, 0, 0}, 1'000, generation);
    call.collection = name;
    call.with_vector = true;
    const auto answer = engine.Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_TRUE(answer->results[0].status.ok()) << answer->results[0].status;
    const std::vector<EngineHit>& hits = answer->results[0].hits;
    std::set<ItemId> found;
    for (const EngineHit& hit : hits) found.insert(hit.id);
    EXPECT_EQ(found, ids) << "by generation " << generation;
    EXPECT_EQ(hits.size(), ids.size()) << "an item is found twice by generation " << generation;
    if (generation != 0) continue;
    for (const EngineHit& hit : hits) {
      const auto item = stored.find(std::get<uint64_t>(hit.id.value));
      if (item == stored.end()) continue;
      EXPECT_EQ(hit.vector, item->second.vector) << ToString(hit.id);
    }
  }
  ExpectOwnVectorsFound(engine, name, stored);
}

}  // namespace

std::vector<size_t> ExpectItems(Engine& engine, const std::string& name,
                                const std::vector<std::vector<PowerState>>& states, uint32_t active) {
  const Stored stored = ReadItems(engine, name);
  std::vector<size_t> seen;
  for (size_t writer = 0; writer < states.size(); ++writer) {
    const std::vector<PowerState>& all = states[writer];
    std::optional<size_t> same;
    std::string wrong;
    // The newest first: what a failure says is of the oldest, which everything acknowledged is in.
    for (size_t i = all.size(); i-- > 0 && !same;) {
      wrong = Compare(all[i], stored, static_cast<int>(writer), active);
      if (wrong.empty()) same = i;
    }
    EXPECT_TRUE(same.has_value()) << "writer " << writer << " is in none of " << all.size() << " states: " << wrong;
    seen.push_back(same.value_or(0));
  }
  ExpectSearchesAgree(engine, name, stored);
  return seen;
}

namespace {

void ExpectWritesGoOn(Engine& engine) {
  auto batch = server::BatchOf({server::ItemOf(ItemId{kLaterId}, {0.5f, 0.5f, 0.5f, 0.5f})}, kPowerGeneration);
  const auto written = engine.Upsert(std::move(batch), {});
  ASSERT_TRUE(written.ok()) << written.status();
  const auto got = engine.Get(kPowerCollection, {ItemId{kLaterId}}, 0, false, {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->items.size(), 1u);
  const auto gone = engine.Delete(kPowerCollection, {ItemId{kLaterId}}, Durability::kDurable, {});
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->items, 1u);
}

// A folder that was restored holds one of the states of its copy.
void ExpectCopy(const std::string& data, const PowerOracle::Copy& copy) {
  const std::unique_ptr<Engine> engine = OpenLater(data);
  ASSERT_NE(engine, nullptr);
  const auto collection = engine->GetCollection(kPowerCollection);
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ(collection->active_generation, copy.active);
  (void)ExpectItems(*engine, kPowerCollection, copy.states, copy.active);
}

// Every snapshot that was acknowledged is whole, restores, and holds what it must; one that was removed is gone.
void ExpectSnapshots(Engine& engine, const std::string& base, const PowerOracle& oracle, PowerOracle::Seen* seen) {
  ASSERT_EQ(engine.snapshots().Start({}), absl::OkStatus());
  const auto list = engine.snapshots().List();
  ASSERT_TRUE(list.ok()) << list.status();
  for (const server::SnapshotStatus& one : *list) {
    const std::string& name = one.manifest.name;
    SCOPED_TRACE(StrCat("snapshot ", name));
    seen->snapshots.insert(name);
    EXPECT_EQ(one.damage, absl::OkStatus());
    const auto verified = engine.snapshots().Verify(name, {});
    EXPECT_TRUE(verified.ok()) << verified.status();
    const auto known = oracle.snapshots().find(name);
    if (known == oracle.snapshots().end()) {
      ADD_FAILURE() << "it was removed";
      continue;
    }
    const std::string data = StrCat(base, "-of-", name);
    const auto restored = RestoreSnapshot(one.folder, data);
    EXPECT_TRUE(restored.ok()) << restored.status();
    if (restored.ok()) ExpectCopy(data, known->second);
    fs::remove_all(data);
  }
  for (const auto& [name, copy] : oracle.snapshots()) {
    if (!copy.whole || copy.removed) continue;
    EXPECT_TRUE(seen->snapshots.contains(name)) << "snapshot " << name << " is lost";
  }
}

void ExpectRestored(const std::string& base, const PowerOracle& oracle, PowerOracle::Seen* seen) {
  for (const auto& [name, copy] : oracle.restored()) {
    SCOPED_TRACE(StrCat("what was restored from ", name));
    const std::string data = PowerRestoredOf(base, name);
    const bool there = fs::exists(data);
    if (copy.removed) continue;  // It goes file by file.
    if (there) seen->restored.insert(name);
    EXPECT_TRUE(there || !copy.whole) << "it is lost";
    if (there) ExpectCopy(data, copy);
  }
}

// A collection that a snapshot brings back is there as a whole or not at all.
bool ExpectBrought(Engine& engine, const PowerOracle& oracle) {
  SCOPED_TRACE("the collection beside the original");
  const std::optional<PowerOracle::Copy>& copy = oracle.brought();
  const auto collection = engine.GetCollection(kPowerBeside);
  if (!collection.ok()) {
    EXPECT_TRUE(absl::IsNotFound(collection.status())) << collection.status();
    EXPECT_TRUE(!copy || !copy->whole || copy->removed) << "it is lost";
    return false;
  }
  EXPECT_TRUE(copy.has_value()) << "it was dropped, or nothing has made it";
  if (!copy) return true;
  EXPECT_EQ(collection->active_generation, copy->active);
  (void)ExpectItems(engine, kPowerBeside, copy->states, copy->active);
  return true;
}

}  // namespace

PowerOracle::Seen ExpectKept(const std::string& base, const PowerOracle& oracle) {
  PowerOracle::Seen seen;
  seen.calls.assign(kPowerWriters, 0);
  const std::unique_ptr<Engine> engine = OpenLater(PowerDataOf(base));
  if (engine == nullptr) return seen;
  const auto collection = engine->GetCollection(kPowerCollection);
  if (collection.ok()) {
    const auto generations = engine->ListGenerations(kPowerCollection);
    EXPECT_TRUE(generations.ok()) << generations.status();
    if (generations.ok()) seen.setups = 1 + static_cast<int>(generations->size());
    seen.active = collection->active_generation;
  }
  EXPECT_GE(seen.setups, oracle.setups()) << "collection or generation is lost: " << collection.status();
  EXPECT_TRUE(oracle.Actives().contains(seen.active)) << "generation " << seen.active << " is active";
  if (seen.active != 0) {
    std::vector<std::vector<PowerState>> states;
    for (int writer = 0; writer < kPowerWriters; ++writer) states.push_back(oracle.States(writer));
    seen.calls = ExpectItems(*engine, kPowerCollection, states, seen.active);
    ExpectWritesGoOn(*engine);
  }
  ExpectSnapshots(*engine, base, oracle, &seen);
  seen.brought = ExpectBrought(*engine, oracle);
  ExpectRestored(base, oracle, &seen);
  return seen;
}

}  // namespace lightcone
