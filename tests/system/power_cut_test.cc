// Acceptance: the power fails at random points of writes, deletes, activations, backfill, snapshots, restores and
// expiry. A recorder logs what a process does to its files; a model of a disk makes of each point a folder that the cut
// may leave (power_disk.h); an engine opens it and an oracle judges it (power_oracle.h). LIGHTCONE_POWER_CUTS in the
// environment sets the number of cuts, LIGHTCONE_POWER_SEED the seed that all of them follow from.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "snapshot/restore.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/power_child.h"
#include "tests/system/power_disk.h"
#include "tests/system/power_oracle.h"
#include "tests/system/power_workload.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

using server::Engine;
using server::EngineHit;
using server::StoredItem;

constexpr uint64_t kCuts = 24;
constexpr uint64_t kCutsOfARound = 12;  // later rounds begin with what a cut has left
constexpr uint64_t kCalls = 150;        // of each writer and round
constexpr uint64_t kLaterId = 900'000;  // of an item that is written after a cut
constexpr char kPlanVariable[] = "LIGHTCONE_POWER_PLAN";
constexpr char kStatesVariable[] = "LIGHTCONE_POWER_STATES";

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Not a test of its own: the body of the processes that the test below starts from this program.
TEST(PowerCutChild, Body) {
  const char* const plan = std::getenv(kPlanVariable);
  const char* const states = std::getenv(kStatesVariable);
  if (plan == nullptr || states == nullptr) return;
  const int status = RunPowerPlan(plan, states);
  std::fflush(nullptr);
  ::_exit(status);
}

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

class PowerCutTest : public testing::Test {
 protected:
  static Stored ReadItems(Engine& engine) {
    Stored stored;
    std::vector<ItemId> ids;
    for (uint64_t writer = 0; writer < kPowerWriters; ++writer) {
      for (uint64_t i = 0; i < kPowerItems; ++i) ids.push_back(ItemId{writer * kPowerIdStep + i});
    }
    const auto got = engine.Get(kPowerCollection, ids, 0, true, {});
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return stored;
    for (const StoredItem& item : got->items) stored[std::get<uint64_t>(item.id.value)] = item;
    return stored;
  }

  // Index, count and pages hold the very items that reads by id show.
  static void ExpectSearchesAgree(Engine& engine, const Stored& stored) {
    std::set<ItemId> ids;
    for (const auto& [id, item] : stored) ids.insert(ItemId{id});
    const auto counted = engine.Count(kPowerCollection, std::nullopt, {});
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(counted->count, stored.size());
    const auto page = engine.Scroll(kPowerCollection, {}, 1'000, "", false, {});
    ASSERT_TRUE(page.ok()) << page.status();
    std::set<ItemId> scrolled;
    for (const StoredItem& item : page->items) scrolled.insert(item.id);
    EXPECT_EQ(scrolled, ids);
    for (const uint32_t generation : {0u, kPowerGeneration, kPowerNewGeneration}) {
      server::SearchCall call = server::SearchFor({0, 0, 0, 0}, 1'000, generation);
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
    ExpectOwnVectorsFound(engine, stored);
  }

  static void ExpectOwnVectorsFound(Engine& engine, const Stored& stored) {
    if (stored.empty()) return;
    server::SearchCall call = server::SearchFor({}, 3);
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

  // The states that the items are in, one of those given for each writer. Writers without one have failed the test.
  static std::vector<size_t> ExpectItems(Engine& engine, const std::vector<std::vector<PowerState>>& states,
                                         uint32_t active) {
    const Stored stored = ReadItems(engine);
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
    ExpectSearchesAgree(engine, stored);
    return seen;
  }

  static void ExpectWritesGoOn(Engine& engine) {
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
  static void ExpectCopy(const std::string& data, const PowerOracle::Copy& copy) {
    const std::unique_ptr<Engine> engine = OpenLater(data);
    ASSERT_NE(engine, nullptr);
    const auto collection = engine->GetCollection(kPowerCollection);
    ASSERT_TRUE(collection.ok()) << collection.status();
    EXPECT_EQ(collection->active_generation, copy.active);
    (void)ExpectItems(*engine, copy.states, copy.active);
  }

  // Every snapshot that was acknowledged is whole, restores, and holds what it must; one that was removed is gone.
  static void ExpectSnapshots(Engine& engine, const std::string& cut, const PowerOracle& oracle,
                              PowerOracle::Seen* seen) {
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
      const std::string data = StrCat(cut, "-of-", name);
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

  static void ExpectRestored(const std::string& cut, const PowerOracle& oracle, PowerOracle::Seen* seen) {
    for (const auto& [name, copy] : oracle.restored()) {
      SCOPED_TRACE(StrCat("what was restored from ", name));
      const std::string data = PowerRestoredOf(cut, name);
      const bool there = fs::exists(data);
      if (copy.removed) continue;  // It goes file by file.
      if (there) seen->restored.insert(name);
      EXPECT_TRUE(there || !copy.whole) << "it is lost";
      if (there) ExpectCopy(data, copy);
    }
  }

  // Judges a folder that a cut has left.
  static PowerOracle::Seen ExpectKept(const std::string& cut, const PowerOracle& oracle) {
    PowerOracle::Seen seen;
    seen.calls.assign(kPowerWriters, 0);
    const std::unique_ptr<Engine> engine = OpenLater(PowerDataOf(cut));
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
      seen.calls = ExpectItems(*engine, states, seen.active);
      ExpectWritesGoOn(*engine);
    }
    ExpectSnapshots(*engine, cut, oracle, &seen);
    ExpectRestored(cut, oracle, &seen);
    return seen;
  }

  // Numbers of records after which the power fails, in order. Half of them stand next to a sync or a change of names.
  std::vector<size_t> ChooseCuts(const std::vector<PowerRecord>& records, uint64_t count) {
    std::vector<size_t> edges;
    for (size_t i = 0; i < records.size(); ++i) {
      const PowerKind kind = records[i].kind;
      if (kind != kPowerNote && kind != kPowerWrite && kind != kPowerExtend) edges.push_back(i);
    }
    std::vector<size_t> cuts;
    for (uint64_t i = 0; i < count; ++i) {
      const bool edge = i % 2 == 0 && !edges.empty();
      cuts.push_back(edge ? edges[random_() % edges.size()] + random_() % 2 : random_() % (records.size() + 1));
    }
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

  PowerPolicy ChoosePolicy() {
    const uint64_t share = random_() % 4;
    return share == 0 ? PowerPolicy::kLost : share == 1 ? PowerPolicy::kKept : PowerPolicy::kRandom;
  }

  // Runs the workload from the folder `base_` on, and judges `count` cuts. One of them is where the next round begins.
  void RunRound(uint64_t round, uint64_t seed, uint64_t count) {
    const std::string log = StrCat(folder_.path(), "/log-", round), states = StrCat(folder_.path(), "/states");
    std::vector<PowerState> begins;
    for (int writer = 0; writer < kPowerWriters; ++writer) begins.push_back(oracle_.States(writer).back());
    WritePowerStates(states, begins);
    PowerDisk disk(base_);
    ::setenv(kStatesVariable, states.c_str(), 1);
    const std::string plan = EncodePowerPlan({.seed = seed, .round = round, .calls = kCalls, .base = base_});
    const int status = RunRecorded("PowerCutChild.Body", kPlanVariable, plan, base_, log);
    ::unsetenv(kStatesVariable);
    ASSERT_EQ(status, 0) << "the workload failed";
    const PowerRecords read = ReadPowerLog(log);
    ASSERT_TRUE(read.whole);
    fs::remove(log);
    CountWork(read.records);
    const std::vector<size_t> cuts = ChooseCuts(read.records, count);
    const size_t next = random_() % cuts.size();
    std::string next_base;
    std::optional<PowerOracle> next_oracle;
    size_t at = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      for (; at < cuts[i]; ++at) ASSERT_NO_FATAL_FAILURE(Apply(&disk, read.records[at], at));
      const PowerPolicy policy = ChoosePolicy();
      const uint64_t cut_seed = random_();
      SCOPED_TRACE(StrCat("seed ", seed, ", round ", round, ", cut after record ", at, " of ", read.records.size(),
                          ", what was not synced: ", PowerPolicyName(policy), " by seed ", cut_seed));
      const std::string cut = StrCat(folder_.path(), "/cut-", round, "-", i);
      ASSERT_EQ(disk.Materialise(cut, policy, cut_seed), "");
      const PowerOracle::Seen seen = ExpectKept(cut, oracle_);
      fs::remove_all(cut);
      ++cuts_by_policy_[policy];
      ASSERT_FALSE(HasFailure());
      if (i != next) continue;
      next_base = StrCat(root_, "/base-", round + 1);
      ASSERT_EQ(disk.Materialise(next_base, policy, cut_seed), "");
      next_oracle = oracle_;
      next_oracle->Settle(seen);
    }
    for (; at < read.records.size(); ++at) ASSERT_NO_FATAL_FAILURE(Apply(&disk, read.records[at], at));
    ExpectWholeRecord(disk, round);
    for (const auto& [what, number] : oracle_.acknowledged()) acknowledged_[what] += number;
    fs::remove_all(base_);
    base_ = next_base;
    oracle_ = *next_oracle;
  }

  // What the engine did with its files by itself.
  void CountWork(const std::vector<PowerRecord>& records) {
    std::set<uint64_t> syncs;
    for (const PowerRecord& record : records) {
      if (record.kind == kPowerSyncBegin) syncs.insert(record.size);
      if (record.kind == kPowerSyncEnd) syncs.erase(record.size);
      const bool made = record.kind == kPowerCreate;
      work_["table made"] += made && record.path.ends_with(".sst");
      work_["table removed"] += record.kind == kPowerRemove && record.path.ends_with(".sst");
      work_["file of a segment made"] += made && record.path.find("/index/") != std::string::npos;
      work_["write beside a sync"] += record.kind == kPowerWrite && !syncs.empty();
    }
  }

  void Apply(PowerDisk* disk, const PowerRecord& record, size_t number) {
    const std::string failed = record.kind == kPowerNote ? oracle_.Read(record.data) : disk->Apply(record);
    ASSERT_EQ(failed, "") << "record " << number;
  }

  // The log tells all that became of the folder: nothing went past the recorder.
  void ExpectWholeRecord(const PowerDisk& disk, uint64_t round) {
    const std::string replayed = StrCat(folder_.path(), "/replayed-", round);
    ASSERT_EQ(disk.Materialise(replayed, PowerPolicy::kKept, 0), "");
    EXPECT_EQ(FirstDifference(replayed, base_), "");
    fs::remove_all(replayed);
  }

  TemporaryFolder folder_;
  const std::string root_ = fs::canonical(folder_.path()).string();  // as the kernel tells the paths of open files
  std::string base_;                                                 // the folder whose changes are recorded
  std::mt19937_64 random_;
  PowerOracle oracle_;
  std::map<PowerPolicy, uint64_t> cuts_by_policy_;
  std::map<std::string, uint64_t> acknowledged_;
  std::map<std::string, uint64_t> work_;
};

TEST_F(PowerCutTest, NoCutLosesWhatWasAcknowledgedOrBringsBackWhatWasDeleted) {
  if (!kCanRecord) {
    std::puts("a sanitizer must be the first library of a process: nothing is tested");
    return;
  }
  const uint64_t cuts = std::max<uint64_t>(1, NumberFrom("LIGHTCONE_POWER_CUTS", kCuts));
  const uint64_t seed = NumberFrom("LIGHTCONE_POWER_SEED", 1);
  std::printf("%llu cuts by seed %llu\n", static_cast<unsigned long long>(cuts), static_cast<unsigned long long>(seed));
  random_.seed(seed);
  base_ = root_ + "/base-0";
  fs::create_directory(base_);
  for (uint64_t done = 0, round = 0; done < cuts; ++round) {
    const uint64_t count = std::min(kCutsOfARound, cuts - done);
    ASSERT_NO_FATAL_FAILURE(RunRound(round, seed, count));
    ASSERT_FALSE(HasFailure());
    done += count;
  }
  // A workload that does not do something cannot fail by it.
  for (const char action : std::string(kPowerActions)) {
    EXPECT_GT(acknowledged_[std::string(1, action)], 0u) << "action " << action;
  }
  for (const char* const event : {"activate", "snap", "unsnap", "restore", "forget"}) {
    EXPECT_GT(acknowledged_[event], 0u) << event;
  }
  for (const auto& [what, number] : work_) EXPECT_GT(number, 0u) << what;
  if (cuts >= kCuts) {
    EXPECT_GT(cuts_by_policy_[PowerPolicy::kLost], 0u);
    EXPECT_GT(cuts_by_policy_[PowerPolicy::kRandom], 0u);
  }
  for (const auto& [policy, number] : cuts_by_policy_) {
    std::printf("%llu cuts: what was not synced is %s\n", static_cast<unsigned long long>(number),
                PowerPolicyName(policy));
  }
}

}  // namespace
}  // namespace lightcone
