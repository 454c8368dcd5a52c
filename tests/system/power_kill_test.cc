// Acceptance: a process is killed with -9 at random points of writes, deletes, activations, backfill, snapshots,
// restores and expiry. It dies between two changes of its files, chosen by number: what a kill at any other moment
// leaves is what the change before it has left. The oracle of the power cuts judges a copy of the folder, and the next
// process goes on in the folder itself. LIGHTCONE_POWER_KILLS in the environment sets the number of kills,
// LIGHTCONE_POWER_SEED the seed that all of them follow from.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/power_child.h"
#include "tests/system/power_disk.h"
#include "tests/system/power_judge.h"
#include "tests/system/power_oracle.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKills = 10;
constexpr uint64_t kCallsOfAProcess = 150;  // of each writer

class PowerKillTest : public testing::Test {
 protected:
  // Runs a process until it has made `kill_after` changes, 0: to its end, and judges what it leaves. Whether it was
  // killed.
  bool RunProcess(uint64_t seed, uint64_t round, uint64_t kill_after) {
    const std::string log = root_ + "/log", states = root_ + "/states", copy = root_ + "/copy";
    std::vector<PowerState> begins;
    for (int writer = 0; writer < kPowerWriters; ++writer) begins.push_back(oracle_.States(writer).back());
    WritePowerStates(states, begins);
    const int status = RunPowerChild({.seed = seed, .round = round, .calls = kCallsOfAProcess, .base = base_}, states,
                                     log, kill_after);
    EXPECT_TRUE(status == 0 || status == -SIGKILL) << "the workload failed: " << status;
    const PowerRecords read = ReadPowerLog(log);
    EXPECT_TRUE(read.whole);
    fs::remove(log);
    records_max_ = std::max<uint64_t>(records_max_, read.records.size());
    for (const PowerRecord& record : read.records) {
      if (record.kind != kPowerNote) continue;
      EXPECT_EQ(oracle_.Read(record.data), "");
    }
    oracle_.KeepAcknowledged();
    // The judge sets the clock ahead: what expires would be gone from the folder itself.
    fs::copy(base_, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    oracle_.Settle(ExpectKept(copy, oracle_));
    fs::remove_all(copy);
    return status == -SIGKILL;
  }

  TemporaryFolder folder_;
  const std::string root_ = fs::canonical(folder_.path()).string();  // as the kernel tells the paths of open files
  const std::string base_ = root_ + "/base";
  uint64_t records_max_ = 0;
  PowerOracle oracle_;
};

TEST_F(PowerKillTest, NoKillLosesWhatWasAcknowledgedOrBringsBackWhatWasDeleted) {
  if (!kCanRecord) {
    std::puts("a sanitizer must be the first library of a process: nothing is tested");
    return;
  }
  const uint64_t kills = std::max<uint64_t>(1, NumberFrom("LIGHTCONE_POWER_KILLS", kKills));
  const uint64_t seed = NumberFrom("LIGHTCONE_POWER_SEED", 1);
  std::printf("%llu kills by seed %llu\n", static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  fs::create_directory(base_);
  uint64_t killed = 0;
  for (uint64_t round = 0; killed < kills; ++round) {
    // The first process tells how many changes there are.
    const uint64_t kill_after = round == 0 ? 0 : 1 + random() % records_max_;
    SCOPED_TRACE(StrCat("seed ", seed, ", process ", round, ", killed after record ", kill_after));
    killed += RunProcess(seed, round, kill_after);
    ASSERT_FALSE(HasFailure());
    ASSERT_LE(round, 3 * kills) << "processes end before they are killed";
  }
  for (const char action : std::string(kPowerActions)) {
    EXPECT_GT(oracle_.acknowledged().at(std::string(1, action)), 0u) << "action " << action;
  }
  uint64_t calls = 0;
  for (const auto& [what, number] : oracle_.acknowledged()) calls += number;
  std::printf("%llu calls were acknowledged\n", static_cast<unsigned long long>(calls));
}

}  // namespace
}  // namespace lightcone
