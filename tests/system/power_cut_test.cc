// Acceptance: the power fails at random points of writes, deletes, activations, backfill, snapshots, restores and
// expiry. A recorder logs what a process does to its files; a model of a disk makes of each point a folder that the cut
// may leave (power_disk.h); an engine opens it and an oracle judges it (power_oracle.h). LIGHTCONE_POWER_CUTS in the
// environment sets the number of cuts, LIGHTCONE_POWER_SEED the seed that all of them follow from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/power_child.h"
#include "tests/system/power_disk.h"
#include "tests/system/power_judge.h"
#include "tests/system/power_oracle.h"
#include "tests/system/power_workload.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCuts = 24;
constexpr uint64_t kCutsOfARound = 12;  // later rounds begin with what a cut has left
constexpr uint64_t kCalls = 150;        // of each writer and round

class PowerCutTest : public testing::Test {
 protected:
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
    const int status =
        RunPowerChild({.seed = seed, .round = round, .calls = kCalls, .base = base_}, states, log, /*kill_after=*/0);
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
  for (const char* const event : {"activate", "snap", "unsnap", "restore", "forget", "bring", "drop"}) {
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
