// Acceptance: each of the first calls on files of a fixed workload fails, in a process and a folder of its own, once
// with EIO and once, with every changing call behind it, with ENOSPC until there is space. No acknowledged write is
// lost, nothing deleted comes back, no batch is there by half; reads go on, and so do writes within seconds of space.
// In the environment LIGHTCONE_CALL_POINTS sets the number of calls that fail, spread over the first 2,000, and
// LIGHTCONE_CALL_FIRST the first of those points.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

#include "base/status.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/disk_calls_workload.h"
#include "tests/system/disk_faults.h"
#include "tests/system/power_judge.h"
#include "tests/system/power_oracle.h"
#include "tests/system/preloaded.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCallPoints = 12;
constexpr uint64_t kAllCallPoints = 2'000;
constexpr unsigned kProcessSecondsMax = 60;  // A process that hangs ends by SIGALRM.
constexpr char kBaseVariable[] = "LIGHTCONE_CALL_BASE";
constexpr char kEndVariable[] = "LIGHTCONE_CALL_ENDS_STRUCK";

std::string NotesOf(const std::string& base) { return base + "-notes"; }
std::string OutputOf(const std::string& base) { return base + "-output"; }

// What a process of the workload says is kept for a failure.
void RedirectOutput(const std::string& base) {
  const std::string output = OutputOf(base);
  ASSERT_NE(std::freopen(output.c_str(), "a", stdout), nullptr);
  ASSERT_NE(std::freopen(output.c_str(), "a", stderr), nullptr);
  std::setvbuf(stderr, nullptr, _IONBF, 0);  // A process that aborts keeps its last words.
}

// Not tests of their own: the bodies of the processes whose calls fail, and of those that judge what these have left.
TEST(DiskCallsChild, Workload) {
  const char* const base = std::getenv(kBaseVariable);
  if (base == nullptr) return;
  RedirectOutput(base);
  DiskFaults* const faults = MapFaults(std::getenv(kFaultsFile));
  ASSERT_NE(faults, nullptr);
  RunDiskPlan({.base = base, .notes = NotesOf(base), .ends_struck = NumberFrom(kEndVariable, 0) != 0}, faults);
}
TEST(DiskCallsChild, Judge) {
  const char* const base = std::getenv(kBaseVariable);
  if (base == nullptr) return;
  RedirectOutput(base);
  PowerOracle oracle;
  std::ifstream notes(NotesOf(base));
  for (std::string note; std::getline(notes, note);) EXPECT_EQ(oracle.Read(note), "");
  oracle.KeepAcknowledged();
  (void)ExpectKept(base, oracle);
}

class DiskCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    faults_ = MapFaults(faults_path_.c_str());
    ASSERT_NE(faults_, nullptr);
    faults_->unsynced = 1;  // No power fails here.
  }
  void TearDown() override {
    if (faults_ != nullptr) ::munmap(faults_, sizeof(DiskFaults));
  }

  // Runs the workload in a fresh folder and judges what it leaves. `error` 0: no call fails.
  void RunPoint(uint64_t call, int error, bool ends_struck) {
    fs::create_directory(base_);
    const bool full = error == ENOSPC;
    ArmFaults(faults_, kAllCalls, full ? kCallsOfFullDisk : kAllCalls, call,
              full ? std::numeric_limits<uint64_t>::max() : error != 0, error, /*torn=*/call % 2 == 1);
    const std::string ends = ends_struck ? "1" : "0";
    EXPECT_EQ(Run("Workload", ends), 0) << "the process that calls failed in";
    struck_ += faults_->failed.load() > 0;
    calls_ = faults_->next;
    faults_->count = 0;
    EXPECT_EQ(Run("Judge", ends), 0) << "the process that judged what was left";
    if (HasFailure()) std::cout << "The process said:\n" << std::ifstream(OutputOf(base_)).rdbuf();
    fs::remove_all(base_);
    fs::remove(NotesOf(base_));
    fs::remove(OutputOf(base_));
  }

  // The exit status of a child.
  int Run(const std::string& body, const std::string& ends_struck) {
    return RunPreloaded(
        "DiskCallsChild." + body, "lightcone_disk_faults",
        {{kFaultsFolder, base_}, {kFaultsFile, faults_path_}, {kBaseVariable, base_}, {kEndVariable, ends_struck}},
        kProcessSecondsMax);
  }

  TemporaryFolder folder_;
  const std::string root_ = fs::canonical(folder_.path()).string();  // as the kernel tells the paths of open files
  const std::string base_ = root_ + "/base", faults_path_ = root_ + "/faults";
  DiskFaults* faults_ = nullptr;
  uint64_t calls_ = 0;   // calls of the last workload
  uint64_t struck_ = 0;  // workloads that a fault has struck
};

TEST_F(DiskCallsTest, NoFailedCallLosesWhatWasAcknowledged) {
  if (!kCanPreload) {
    std::puts("a sanitizer must be the first library of a process: nothing is tested");
    return;
  }
  RunPoint(0, 0, /*ends_struck=*/false);
  ASSERT_FALSE(HasFailure()) << "without a fault";
  for (int call = 0; call < kDiskCalls; ++call) {
    const auto seen = static_cast<unsigned long long>(faults_->seen[call]);
    std::printf("%s %llu, ", kDiskCallNames[call], seen);
    // RocksDB allocates and truncates only on some file systems.
    const bool always = call != kCallAllocate && call != kCallTruncate;
    EXPECT_TRUE(seen > 0 || !always) << kDiskCallNames[call];
  }
  std::printf("%llu calls in all\n", static_cast<unsigned long long>(calls_));
  EXPECT_GE(calls_, kAllCallPoints) << "the workload is too small";
  // An iterator that meets EIO where it opens a table can end the process in RocksDB 7.8.3 once ranges were deleted,
  // which happens behind these calls.
  const uint64_t points = std::clamp<uint64_t>(NumberFrom("LIGHTCONE_CALL_POINTS", kCallPoints), 1, kAllCallPoints);
  const uint64_t first = NumberFrom("LIGHTCONE_CALL_FIRST", 0);
  for (uint64_t point = first; point < points; ++point) {
    const uint64_t call = point * kAllCallPoints / points;
    for (const int error : {EIO, ENOSPC}) {
      SCOPED_TRACE(StrCat("point ", point, ", call ", call, error == EIO ? ", EIO" : ", ENOSPC"));
      RunPoint(call, error, /*ends_struck=*/error == EIO && point % 2 == 1);
      ASSERT_FALSE(HasFailure());
    }
  }
  // The order of the threads is not fixed: the last calls may not come.
  EXPECT_GE(struck_, (points - first) * 2 * 9 / 10) << "few of the calls have come";
  std::printf("%llu processes, calls of %llu struck\n", static_cast<unsigned long long>((points - first) * 2),
              static_cast<unsigned long long>(struck_));
}

}  // namespace
}  // namespace lightcone
