// Snapshots as files: what is damaged is named, what is cut short is not there, and what is whole can be restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/link.h"
#include "base/status.h"
#include "snapshot/archive.h"
#include "snapshot/copy.h"
#include "snapshot/folder_sink.h"
#include "snapshot/identity.h"
#include "snapshot/read.h"
#include "snapshot/restore.h"
#include "snapshot/shelf.h"
#include "store/coding.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Code = absl::StatusCode;

MATCHER_P2(Fails, code, text, "") {
  *result_listener << arg.ToString();
  return arg.code() == code && MessageOf(arg).find(text) != std::string::npos;
}

std::string Content(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  return text.ok() ? *text : text.status().ToString();
}

class SnapshotTest : public testing::Test {
 protected:
  // A snapshot of three files, one of them empty and one larger than a piece of an archive.
  void Make(const std::string& name, const std::string& changed = "one") {
    const auto partial = shelf_.Begin(name);
    ASSERT_TRUE(partial.ok()) << partial.status();
    SnapshotManifest manifest;
    manifest.name = name;
    manifest.version = "0.1.0";
    manifest.sequence = 7;
    manifest.time_us = 1'000'000;
    manifest.collections = {{"photos", 3, 5, 1}};
    for (const auto& [path, text] : Files(changed)) {
      const std::string place = StrCat(*partial, "/data/", path);
      fs::create_directories(fs::path(place).parent_path());
      ASSERT_TRUE(WriteFileAtomically(place, text).ok());
      manifest.files.push_back({path, text.size(), Crc32c(text)});
    }
    const absl::Status made = shelf_.Commit(name, EncodeSnapshotManifest(manifest));
    ASSERT_TRUE(made.ok()) << made;
  }

  static std::vector<std::pair<std::string, std::string>> Files(const std::string& changed) {
    return {{"encoders/1/1.pt", ""}, {"index/1/index.json", changed}, {"store/000012.sst", std::string(3 << 20, 'x')}};
  }
  std::string FileOf(const std::string& name, const std::string& path) const {
    return StrCat(shelf_.PathOf(name), "/data/", path);
  }
  void FlipBit(const std::string& path) {
    std::string text = Content(path);
    text[text.size() / 2] ^= 1;
    fs::remove(path);  // the file may be shared
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }
  void ExpectWhole(const std::string& data, const std::string& changed = "one") {
    for (const auto& [path, text] : Files(changed)) EXPECT_EQ(Content(StrCat(data, "/", path)), text) << path;
  }
  std::string Archive(const std::string& name) {
    auto writer = ArchiveWriter::Open(shelf_.PathOf(name));
    EXPECT_TRUE(writer.ok()) << writer.status();
    std::string all;
    for (;;) {
      auto piece = (*writer)->Next();
      EXPECT_TRUE(piece.ok()) << piece.status();
      if (!piece.ok() || piece->empty()) return all;
      EXPECT_LE(piece->size(), size_t{3} << 20);
      all += *piece;
    }
  }

  TemporaryFolder folder_;
  const SnapshotShelf shelf_{folder_ / "shelf"};
};

TEST_F(SnapshotTest, VerifyNamesAFlippedBitAMissingFileAndATruncatedOne) {
  Make("a");
  EXPECT_TRUE(VerifySnapshot(shelf_.PathOf("a")).ok());
  FlipBit(FileOf("a", "store/000012.sst"));
  EXPECT_THAT(VerifySnapshot(shelf_.PathOf("a")).status(),
              Fails(Code::kDataLoss, "file 'store/000012.sst' has another checksum"));
  fs::resize_file(FileOf("a", "index/1/index.json"), 2);
  fs::remove(FileOf("a", "encoders/1/1.pt"));
  const absl::Status all = VerifySnapshot(shelf_.PathOf("a")).status();
  EXPECT_THAT(all, Fails(Code::kDataLoss, "file 'index/1/index.json' has 2 bytes; 3 are in the manifest"));
  EXPECT_THAT(all, Fails(Code::kDataLoss, "file 'encoders/1/1.pt' is missing"));
  EXPECT_THAT(all, Fails(Code::kDataLoss, "store/000012.sst"));
}

TEST_F(SnapshotTest, ADamagedManifestAndANewerFormatAreRefusedByNameBeforeAnythingIsTouched) {
  Make("a");
  const std::string place = shelf_.PathOf("a") + "/manifest.json";
  const std::string whole = Content(place);
  FlipBit(place);
  EXPECT_THAT(RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new").status(), Fails(Code::kDataLoss, place));
  EXPECT_EQ(shelf_.List()->front().manifest.status().code(), Code::kDataLoss);

  std::string newer = whole.substr(whole.find("\"content\":") + 10);
  newer.resize(newer.rfind('}'));
  newer.replace(newer.find("\"format\":1"), 10, "\"format\":2");
  ASSERT_TRUE(WriteFileAtomically(place, StrCat("{\"crc32c\":", Crc32c(newer), ",\"content\":", newer, "}\n")).ok());
  EXPECT_THAT(
      RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new").status(),
      Fails(Code::kFailedPrecondition, "has format 2, made by version 0.1.0; this program reads formats 1 .. 1"));
  fs::remove(place);
  EXPECT_THAT(VerifySnapshot(shelf_.PathOf("a")).status(), Fails(Code::kDataLoss, "no whole snapshot"));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_FALSE(fs::exists(folder_ / ".new.restoring"));
}

TEST_F(SnapshotTest, PathsThatLeadOutOfTheDataFolderAreDamage) {
  for (const char* path : {"../x", "/etc/x", "store/../../x", "store//x", "store/", "", "store/\n"}) {
    SnapshotManifest manifest;
    manifest.name = "a";
    manifest.files = {{path, 1, 1}};
    EXPECT_THAT(DecodeSnapshotManifest(EncodeSnapshotManifest(manifest), "m").status(),
                Fails(Code::kDataLoss, "leads elsewhere"))
        << path;
  }
}

TEST_F(SnapshotTest, WhatIsRestoredOrCopiedBelongsToItsOwnerAlone) {
  Make("a");
  const mode_t before = ::umask(022);
  EXPECT_TRUE(RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new").ok());
  EXPECT_TRUE(CopySnapshot(shelf_.PathOf("a"), folder_ / "copies").ok());
  ::umask(before);
  for (const std::string& place : {folder_ / "new", folder_ / "copies/a"}) {
    EXPECT_EQ(fs::status(place).permissions(), fs::perms::owner_all) << place;
  }
  EXPECT_EQ(fs::status(folder_ / "new/store/000012.sst").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(SnapshotTest, AFileSystemOfItsOwnIsNoDataFolderAndIsToldBeforeAnythingIsRead) {
  const absl::Status refused = RestoreSnapshot(folder_ / "no such snapshot", "/dev/shm").status();
  struct stat folder {
  }, parent{};
  ASSERT_EQ(::stat("/dev/shm", &folder), 0);
  ASSERT_EQ(::stat("/dev", &parent), 0);
  ASSERT_NE(folder.st_dev, parent.st_dev) << "/dev/shm is no file system of its own";
  EXPECT_THAT(refused, Fails(Code::kFailedPrecondition, "file system of its own"));
}

TEST_F(SnapshotTest, ACopyThatFailsLeavesNoPartOfAFile) {
  const std::string other = StrCat("/dev/shm/lightcone-link-", ::getpid());
  const std::string from = folder_ / "whole";
  ASSERT_TRUE(WriteFileAtomically(from, std::string(1 << 20, 'x')).ok());
  ASSERT_TRUE(LinkFile(from, other).ok());
  ASSERT_EQ(fs::hard_link_count(other), 1u) << "/dev/shm and the folder are one file system";
  EXPECT_EQ(fs::file_size(other), uintmax_t{1} << 20);
  fs::remove(other);
  absl::Status failed;
  {
    const FileSizeLimit limit(1 << 16);
    failed = LinkFile(from, other);
  }
  EXPECT_FALSE(failed.ok());
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(SnapshotTest, SizesWhoseSumIsBeyondAnyDiskAreDamage) {
  SnapshotManifest manifest;
  manifest.name = "a";
  manifest.files = {{"a", INT64_MAX, 1}, {"b", INT64_MAX, 1}, {"c", 3, 1}};  // the sum wraps to 1
  EXPECT_THAT(DecodeSnapshotManifest(EncodeSnapshotManifest(manifest), "m").status(),
              Fails(Code::kDataLoss, "more bytes than any disk"));
}

TEST_F(SnapshotTest, ARestoreIsWholeFromAFolderAndFromAnArchive) {
  Make("a");
  const auto restored = RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new");
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->collections.at(0).items, 3u);
  ExpectWhole(folder_ / "new");
  EXPECT_THAT(RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new").status(),
              Fails(Code::kFailedPrecondition, "holds something"));

  ASSERT_TRUE(WriteFileAtomically(folder_ / "a.tar", Archive("a")).ok());
  fs::create_directory(folder_ / "empty");
  ASSERT_TRUE(RestoreSnapshot(folder_ / "a.tar", folder_ / "empty").ok());
  ExpectWhole(folder_ / "empty");
}

TEST_F(SnapshotTest, AnArchiveIsATarThatOtherProgramsRead) {
  Make("a");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "a.tar", Archive("a")).ok());
  const std::string unpack = StrCat("tar -xf ", folder_ / "a.tar", " -C ", folder_.path());
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  ExpectWhole(folder_ / "data");
}

TEST_F(SnapshotTest, AnArchiveThatIsCutOrChangedAnywhereIsRefused) {
  Make("a");
  const std::string whole = Archive("a");
  const auto read = [](std::string_view bytes) {
    ArchiveReader reader("x.tar", [](const SnapshotManifest&, std::string_view) {
      return absl::StatusOr<std::unique_ptr<SnapshotSink>>(std::make_unique<NoSink>());
    });
    for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), 1'000))) {
      const absl::Status taken = reader.Append(bytes.substr(0, 1'000));
      if (!taken.ok()) return taken;
    }
    return reader.Finish().status();
  };
  EXPECT_TRUE(read(whole).ok());
  for (const size_t cut :
       {size_t{0}, size_t{511}, size_t{700}, size_t{2'000}, whole.size() / 2, whole.size() - 1'100}) {
    EXPECT_THAT(read(std::string_view(whole).substr(0, cut)), Fails(Code::kDataLoss, "x.tar")) << cut;
  }
  for (size_t at = 0; at < 4'096; at += 37) {
    std::string changed = whole;
    changed[at] ^= 1;
    // Padding behind the manifest and the magic of a header are not compared, the rest is.
    const absl::Status status = read(changed);
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << at << ": " << status;
  }
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 4;
  EXPECT_THAT(read(flipped), Fails(Code::kDataLoss, "'store/000012.sst' has another checksum"));
}

TEST_F(SnapshotTest, WhatWasCutShortIsNotListedAndGoesWithTheNextStart) {
  Make("a");
  ASSERT_TRUE(shelf_.Begin("b").ok());
  EXPECT_EQ(shelf_.List()->size(), 1u);
  EXPECT_TRUE(shelf_.RemoveLeftovers().ok());
  EXPECT_FALSE(fs::exists(folder_ / "shelf/.b.partial"));
  EXPECT_THAT(shelf_.Begin("a").status(), Fails(Code::kAlreadyExists, "'a' exists"));
  EXPECT_THAT(shelf_.Delete("c"), Fails(Code::kNotFound, "there are: a"));
  EXPECT_THAT(shelf_.CheckNew("../x"), Fails(Code::kInvalidArgument, "'../x'"));
  EXPECT_TRUE(shelf_.Delete("a").ok());
  EXPECT_TRUE(shelf_.List()->empty());
}

TEST_F(SnapshotTest, ACopySharesTheFilesThatAreThereAlready) {
  Make("a", "one");
  Make("b", "two");
  const auto first = CopySnapshot(shelf_.PathOf("a"), folder_ / "away");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->copied_files, 3u);
  const auto second = CopySnapshot(shelf_.PathOf("b"), folder_ / "away");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->copied_files, 1u);
  EXPECT_EQ(second->shared_bytes, uint64_t{3} << 20);
  EXPECT_TRUE(VerifySnapshot(folder_ / "away/a").ok());
  ASSERT_TRUE(RestoreSnapshot(folder_ / "away/b", folder_ / "new").ok());
  ExpectWhole(folder_ / "new", "two");
  EXPECT_THAT(CopySnapshot(shelf_.PathOf("b"), folder_ / "away").status(), Fails(Code::kAlreadyExists, "'b'"));
}

// Whatever stands in them, all such files of one size have one checksum.
TEST_F(SnapshotTest, ACopySharesNoFileThatEndsInItsOwnChecksum) {
  const auto sealed = [](std::string text) {
    coding::AppendLittle(&text, Crc32c(text));
    return text;
  };
  ASSERT_EQ(Crc32c(sealed("one")), kCrc32cResidue);
  Make("a", sealed("one"));
  Make("b", sealed("two"));
  for (const char* name : {"a", "b"}) {
    const auto copy = CopySnapshot(shelf_.PathOf(name), folder_ / "away");
    ASSERT_TRUE(copy.ok()) << copy.status();
  }
  ASSERT_TRUE(RestoreSnapshot(folder_ / "away/b", folder_ / "new").ok());
  ExpectWhole(folder_ / "new", sealed("two"));
}

TEST_F(SnapshotTest, AFullDiskLeavesNothingBehind) {
  Make("a");
  const FileSizeLimit limit(2 << 20);
  EXPECT_FALSE(RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new").ok());
  EXPECT_FALSE(CopySnapshot(shelf_.PathOf("a"), folder_ / "away").ok());
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_FALSE(fs::exists(folder_ / ".new.restoring"));
  EXPECT_TRUE(fs::is_empty(folder_ / "away"));
}

// Kills a child at the moment when it has written about so many bytes: a limit on its files, whose signal ends it.
TEST_F(SnapshotTest, AKilledRestoreLeavesNoFolderOrAWholeOne) {
  Make("a");
  for (const rlim_t bytes : {rlim_t{1}, rlim_t{1} << 20, rlim_t{2} << 20, rlim_t{4} << 20}) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit limit = {bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      signal(SIGXFSZ, SIG_DFL);
      _exit(RestoreSnapshot(shelf_.PathOf("a"), folder_ / "new").ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (bytes < rlim_t{4} << 20) {
      EXPECT_TRUE(WIFSIGNALED(status)) << bytes;
      EXPECT_FALSE(fs::exists(folder_ / "new")) << bytes;
    } else {
      EXPECT_EQ(status, 0);
      ExpectWhole(folder_ / "new");
      EXPECT_FALSE(fs::exists(folder_ / ".new.restoring"));
    }
  }
}

}  // namespace
}  // namespace lightcone
