// The model of a disk that loses its power, and the recorder whose logs it replays.
#include "tests/system/power_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/system/power_child.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSeeds = 60;  // enough that each of three outcomes is seen

std::optional<std::string> ReadBytes(const std::string& path) {
  if (!fs::exists(path)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

class PowerDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(base_);
    disk_.emplace(base_);
  }

  void Apply(const PowerRecord& record) {
    const std::string failed = disk_->Apply(record);
    ASSERT_EQ(failed, "") << record.path;
  }
  void Create(uint64_t inode, const std::string& name) {
    Apply({.kind = kPowerCreate, .inode = inode, .path = base_ + "/" + name});
  }
  void MakeFolder(uint64_t inode, const std::string& name) {
    Apply({.kind = kPowerMakeFolder, .inode = inode, .path = base_ + "/" + name});
  }
  void Write(uint64_t inode, uint64_t offset, const std::string& data) {
    Apply({.kind = kPowerWrite, .inode = inode, .offset = offset, .data = data});
  }
  void Rename(const std::string& from, const std::string& to) {
    Apply({.kind = kPowerRename, .path = base_ + "/" + from, .other = base_ + "/" + to});
  }
  void Link(const std::string& from, const std::string& to) {
    Apply({.kind = kPowerLink, .path = base_ + "/" + from, .other = base_ + "/" + to});
  }
  void Remove(const std::string& name) { Apply({.kind = kPowerRemove, .path = base_ + "/" + name}); }
  void BeginSync(uint64_t number, uint64_t device, uint64_t inode) {
    Apply({.kind = kPowerSyncBegin, .device = device, .inode = inode, .size = number});
  }
  void EndSync(uint64_t number) { Apply({.kind = kPowerSyncEnd, .size = number}); }
  void Sync(uint64_t inode) {
    BeginSync(++syncs_, 0, inode);
    EndSync(syncs_);
  }
  void SyncBase() {
    struct stat info {};
    ASSERT_EQ(::stat(base_.c_str(), &info), 0);
    BeginSync(++syncs_, info.st_dev, info.st_ino);
    EndSync(syncs_);
  }

  // The folder after a cut.
  std::string Cut(PowerPolicy policy, uint64_t seed = 0) {
    std::string to = folder_ / ("cut-" + std::to_string(++cuts_));
    EXPECT_EQ(disk_->Materialise(to, policy, seed), "");
    return to;
  }
  std::optional<std::string> After(PowerPolicy policy, const std::string& name, uint64_t seed = 0) {
    return ReadBytes(Cut(policy, seed) + "/" + name);
  }
  // What a file is after random cuts; "-" where it is gone.
  std::set<std::string> Outcomes(const std::string& name) {
    std::set<std::string> seen;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      seen.insert(After(PowerPolicy::kRandom, name, seed).value_or("-"));
    }
    return seen;
  }

  TemporaryFolder folder_;
  const std::string base_ = folder_ / "base";
  std::optional<PowerDisk> disk_;
  uint64_t syncs_ = 0;
  int cuts_ = 0;
};

using Outcome = std::set<std::string>;

TEST_F(PowerDiskTest, AWriteWithoutSyncCanVanishAndOneWithSyncCannot) {
  Create(1, "f");
  Write(1, 0, "old");
  Sync(1);
  SyncBase();
  Write(1, 0, "new");
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "old");
  EXPECT_EQ(After(PowerPolicy::kKept, "f"), "new");
  EXPECT_EQ(Outcomes("f"), (Outcome{"old", "new"}));
  Sync(1);
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "new");
  EXPECT_EQ(Outcomes("f"), Outcome{"new"});
}

TEST_F(PowerDiskTest, ASyncCoversWhatStoodBeforeItBegan) {
  Create(1, "f");
  SyncBase();
  Write(1, 0, "a");
  BeginSync(7, 0, 1);
  Write(1, 1, "b");
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "");
  EndSync(7);
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "a");
  EXPECT_EQ(After(PowerPolicy::kKept, "f"), "ab");
}

TEST_F(PowerDiskTest, ASyncedFileOfAFolderThatWasNotSyncedCanVanish) {
  MakeFolder(2, "folder");
  Create(1, "folder/f");
  Write(1, 0, "x");
  Sync(1);
  EXPECT_FALSE(fs::exists(Cut(PowerPolicy::kLost) + "/folder"));
  Sync(2);
  EXPECT_FALSE(fs::exists(Cut(PowerPolicy::kLost) + "/folder")) << "its parent was not synced";
  SyncBase();
  EXPECT_EQ(After(PowerPolicy::kLost, "folder/f"), "x");
}

TEST_F(PowerDiskTest, ARenameIsAtomicInOneFolderAndBetweenTwo) {
  MakeFolder(2, "a");
  MakeFolder(3, "b");
  Create(1, "a/old");
  Write(1, 0, "first");
  Sync(1);
  Sync(2);
  Sync(3);
  SyncBase();
  Create(4, "a/new");
  Write(4, 0, "second");
  Sync(4);
  Sync(2);
  Rename("a/new", "a/old");
  EXPECT_EQ(Outcomes("a/old"), (Outcome{"first", "second"}));
  Sync(2);
  EXPECT_EQ(Outcomes("a/old"), Outcome{"second"});
  Rename("a/old", "b/old");
  std::set<int> places;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string cut = Cut(PowerPolicy::kRandom, seed);
    places.insert((fs::exists(cut + "/a/old") ? 1 : 0) + (fs::exists(cut + "/b/old") ? 2 : 0));
  }
  EXPECT_EQ(places, (std::set<int>{1, 2}));
  Sync(2);  // of the folder that it left
  const std::string cut = Cut(PowerPolicy::kLost);
  EXPECT_FALSE(fs::exists(cut + "/a/old"));
  EXPECT_EQ(ReadBytes(cut + "/b/old"), "second");
}

TEST_F(PowerDiskTest, ARenamedFileWhoseBytesWereNotSyncedCanBeEmpty) {
  Create(1, "f.tmp");
  Write(1, 0, "bytes");
  Rename("f.tmp", "f");
  SyncBase();
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "");
}

TEST_F(PowerDiskTest, OfAFolderTheFirstEntriesAreKept) {
  for (uint64_t i = 1; i <= 4; ++i) Create(i, std::to_string(i));
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string cut = Cut(PowerPolicy::kRandom, seed);
    std::string names;
    for (const char* const name : {"1", "2", "3", "4"}) names += fs::exists(cut + "/" + name) ? name : "";
    seen.insert(names);
  }
  EXPECT_EQ(seen, (Outcome{"", "1", "12", "123", "1234"}));
}

TEST_F(PowerDiskTest, HardLinksShareTheirBytes) {
  Create(1, "f");
  Link("f", "g");
  SyncBase();
  Write(1, 0, "both");
  Sync(1);
  const std::string cut = Cut(PowerPolicy::kLost);
  EXPECT_EQ(ReadBytes(cut + "/f"), "both");
  EXPECT_EQ(ReadBytes(cut + "/g"), "both");
  EXPECT_EQ(fs::hard_link_count(cut + "/f"), 2u);
  PowerDisk again(cut);
  struct stat info {};
  ASSERT_EQ(::stat((cut + "/g").c_str(), &info), 0);
  EXPECT_EQ(again.Apply({.kind = kPowerWrite, .device = info.st_dev, .inode = info.st_ino, .data = "BO"}), "");
  EXPECT_EQ(again.Materialise(cut + "-again", PowerPolicy::kKept, 0), "");
  EXPECT_EQ(ReadBytes(cut + "-again/f"), "BOth");
}

TEST_F(PowerDiskTest, AnUnlinkedFileThatIsOpenComesBackWithItsSyncedBytes) {
  Create(1, "f");
  Write(1, 0, "one");
  Sync(1);
  SyncBase();
  Remove("f");
  Write(1, 0, "two");  // by a descriptor that is still open
  Sync(1);
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "two");
  EXPECT_EQ(After(PowerPolicy::kKept, "f"), std::nullopt);
  SyncBase();
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), std::nullopt);
}

TEST_F(PowerDiskTest, AnInodeThatIsUsedAgainIsAnotherFile) {
  Create(1, "f");
  Write(1, 0, "first");
  Sync(1);
  SyncBase();
  Remove("f");
  Create(1, "g");
  Write(1, 0, "second");
  Sync(1);
  EXPECT_EQ(After(PowerPolicy::kLost, "f"), "first") << "its name was still on the disk";
  EXPECT_EQ(After(PowerPolicy::kKept, "f"), std::nullopt);
  EXPECT_EQ(After(PowerPolicy::kKept, "g"), "second");
}

TEST_F(PowerDiskTest, PagesSurviveOneByOneAndTheLastMayBeTorn) {
  Create(1, "f");
  const std::string pages(3 * 4096, 'o');
  Write(1, 0, pages);
  Sync(1);
  SyncBase();
  Write(1, 0, std::string(4 * 4096, 'n'));
  bool hole = false, torn = false, longer = false, shorter = false;
  for (uint64_t seed = 0; seed < 4 * kSeeds; ++seed) {
    const std::string bytes = After(PowerPolicy::kRandom, "f", seed).value();
    ASSERT_TRUE(bytes.size() == 3 * 4096 || bytes.size() == 4 * 4096) << bytes.size();
    (bytes.size() == pages.size() ? shorter : longer) = true;
    for (size_t sector = 0; sector < bytes.size(); sector += 512) {
      ASSERT_EQ(bytes.substr(sector, 512), std::string(512, bytes[sector])) << "a torn sector";
    }
    hole |= bytes[0] == 'o' && bytes[4096] == 'n';
    torn |= bytes[bytes.size() - 4096] != bytes.back();
  }
  EXPECT_TRUE(hole && torn && longer && shorter) << hole << torn << longer << shorter;
}

TEST_F(PowerDiskTest, TheSameSeedMakesTheSameState) {
  Create(1, "f");
  for (uint64_t i = 0; i < 40; ++i) Write(1, i * 1'000, std::string(1'000, static_cast<char>('a' + i % 26)));
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string one = Cut(PowerPolicy::kRandom, seed), other = Cut(PowerPolicy::kRandom, seed);
    EXPECT_EQ(FirstDifference(one, other), "") << seed;
  }
}

std::string Encode(PowerHeader header, const std::string& path, const std::string& data) {
  header.path_bytes = static_cast<uint32_t>(path.size());
  header.data_bytes = static_cast<uint32_t>(data.size());
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  out += path + data;
  header.checksum = PowerChecksum(out.data() + sizeof(uint32_t), out.size() - sizeof(uint32_t));
  std::memcpy(out.data(), &header.checksum, sizeof(uint32_t));
  return out;
}

TEST_F(PowerDiskTest, ATornLastRecordOfTheLogIsLeftOut) {
  PowerHeader header{};
  header.kind = kPowerWrite;
  header.inode = 5;
  const std::string one = Encode(header, "", "first"), two = Encode(header, "", "second");
  for (size_t bytes = 0; bytes <= two.size(); ++bytes) {
    std::ofstream(folder_ / "log", std::ios::binary) << one << two.substr(0, bytes);
    const PowerRecords read = ReadPowerLog(folder_ / "log");
    EXPECT_EQ(read.whole, bytes == 0 || bytes == two.size()) << bytes;
    ASSERT_EQ(read.records.size(), bytes == two.size() ? 2u : 1u) << bytes;
    EXPECT_EQ(read.records[0].data, "first");
    EXPECT_EQ(read.records[0].inode, 5u);
  }
  std::string damaged = two;
  damaged.back() ^= 1;
  std::ofstream(folder_ / "log", std::ios::binary) << one << damaged;
  EXPECT_EQ(ReadPowerLog(folder_ / "log").records.size(), 1u);
}

TEST_F(PowerDiskTest, ACallThatIsNotRecordedIsNamed) {
  EXPECT_EQ(disk_->Apply({.kind = kPowerUnsupported, .path = "mmap f"}), "not recorded: mmap f");
  EXPECT_NE(disk_->Apply({.kind = kPowerWrite, .inode = 99}), "");
  EXPECT_NE(disk_->Apply({.kind = kPowerRemove, .path = base_ + "/none"}), "");
}

constexpr char kChildVariable[] = "LIGHTCONE_POWER_DISK_CHILD";  // folder in which the child changes files

void Check(bool done) {
  if (!done) ::_exit(3);
}

// Every call that the recorder knows, by C and by C++.
void ChangeFiles(const std::string& folder) {
  const int fd = ::open((folder + "/a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  Check(fd >= 0 && ::write(fd, "0123456789", 10) == 10 && ::pwrite(fd, "xyz", 3, 4) == 3);
  char one[] = "one", two[] = "two";
  const std::array<iovec, 2> parts = {iovec{one, 3}, iovec{two, 3}};
  Check(::writev(fd, parts.data(), 2) == 6 && ::pwritev(fd, parts.data(), 2, 20) == 6);
  Check(::ftruncate(fd, 24) == 0 && ::fallocate(fd, 0, 30, 10) == 0 && ::posix_fallocate(fd, 0, 50) == 0);
  Check(::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1'000) == 0);
  Check(::fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 2, 3) == 0 || errno == EOPNOTSUPP);
  Check(::fsync(fd) == 0 && ::fdatasync(fd) == 0 && ::close(fd) == 0);
  const int end = ::open((folder + "/a").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  Check(end >= 0 && ::write(end, "tail", 4) == 4 && ::pwrite(end, "more", 4, 0) == 4 && ::close(end) == 0);
  fs::create_directories(folder + "/d/e");
  const int at = ::open((folder + "/d").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int in = ::openat(at, "f", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  Check(at >= 0 && in >= 0 && ::write(in, "f", 1) == 1 && ::close(in) == 0 && ::mkdirat(at, "g", 0755) == 0);
  Check(::renameat(at, "f", at, "h") == 0 && ::fsync(at) == 0 && ::unlinkat(at, "g", AT_REMOVEDIR) == 0);
  Check(::close(at) == 0);
  fs::copy_file(folder + "/a", folder + "/d/e/copy");
  fs::create_hard_link(folder + "/a", folder + "/linked");
  fs::rename(folder + "/d/h", folder + "/moved");
  fs::resize_file(folder + "/moved", 3);
  fs::create_directories(folder + "/gone/below");
  const int gone = ::creat((folder + "/gone/below/file").c_str(), 0644);
  Check(gone >= 0 && ::write(gone, "gone", 4) == 4);
  fs::remove_all(folder + "/gone");
  Check(::write(gone, "more", 4) == 4 && ::close(gone) == 0);  // of a file without a name
  const int again = ::open((folder + "/moved").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  Check(again >= 0 && ::write(again, "new", 3) == 3 && ::close(again) == 0);
  fs::rename(folder + "/d", folder + "/renamed");
  const int below = ::open((folder + "/renamed/e/copy").c_str(), O_WRONLY | O_CLOEXEC);
  Check(below >= 0 && ::write(below, "below", 5) == 5 && ::close(below) == 0);
  Check(::link((folder + "/a").c_str(), (folder + "/a2").c_str()) == 0);
  fs::remove(folder + "/a");
  Check(::unlink((folder + "/linked").c_str()) == 0);
}

// Not a test of its own: the body of the process that the next one starts.
TEST(PowerRecorderChild, Body) {
  const char* const folder = std::getenv(kChildVariable);
  if (folder == nullptr) return;
  ChangeFiles(folder);
  if (std::getenv("LIGHTCONE_POWER_DISK_STREAM") != nullptr) std::ofstream(std::string(folder) + "/stream") << "x";
  ::_exit(0);
}

TEST_F(PowerDiskTest, TheRecorderTellsEveryChangeOfAProcess) {
  if (!kCanRecord) {
    std::puts("a sanitizer must be the first library of a process: nothing is tested");
    return;
  }
  const std::string base = fs::canonical(base_).string(), log = folder_ / "log";
  disk_.emplace(base);  // before the child runs
  ASSERT_EQ(RunRecorded("PowerRecorderChild.Body", kChildVariable, base, base, log), 0);
  const PowerRecords read = ReadPowerLog(log);
  ASSERT_TRUE(read.whole);
  for (const PowerRecord& record : read.records) ASSERT_EQ(disk_->Apply(record), "") << record.path;
  EXPECT_EQ(FirstDifference(Cut(PowerPolicy::kKept), base), "");
  EXPECT_EQ(After(PowerPolicy::kKept, "moved"), "new");
}

TEST_F(PowerDiskTest, TheRecorderTellsOfAFileThatAStreamWrites) {
  if (!kCanRecord) return;
  const std::string base = fs::canonical(base_).string(), log = folder_ / "log";
  ::setenv("LIGHTCONE_POWER_DISK_STREAM", "1", 1);
  const int status = RunRecorded("PowerRecorderChild.Body", kChildVariable, base, base, log);
  ::unsetenv("LIGHTCONE_POWER_DISK_STREAM");
  ASSERT_EQ(status, 0);
  bool told = false;
  const PowerRecords read = ReadPowerLog(log);
  for (const PowerRecord& record : read.records) {
    told |= record.kind == kPowerUnsupported && record.path == "fopen " + base + "/stream";
  }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace lightcone
