// Files that rot, end or go, before a start and under the running index: noticed, said, and mended from the store.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/cores.h"
#include "base/files.h"
#include "base/read_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/life/file_checks.h"
#include "index/life/index_loader.h"
#include "index/rows/manifest.h"
#include "index/rows/memory.h"
#include "tests/index/index_life_testing.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void FlipByte(const std::string& path, uint64_t position) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(position));
  file.put(byte);
}

TEST(ReadError, IsDamageOnlyWhereTheDiskSaysThatItLostTheFile) {
  EXPECT_EQ(ReadError(EIO, "map", "x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadError(EUCLEAN, "open", "x").code(), absl::StatusCode::kDataLoss);
  for (const int used_up : {EMFILE, ENFILE, ENOMEM}) {
    EXPECT_EQ(ReadError(used_up, "open", "x").code(), absl::StatusCode::kResourceExhausted) << used_up;
  }
  EXPECT_EQ(ReadError(ELOOP, "open", "x").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReadError(ENOENT, "open", "x").code(), absl::StatusCode::kNotFound);
}

class IndexDamage : public IndexLife {
 protected:
  // Every file of the index, relative to its folder.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder_.path()).string());
    }
    return files;
  }

  // Makes a file of every segment empty. Returns how many segments there are.
  int64_t Empty(std::string_view file) const {
    const std::vector<SegmentInfo> segments = index_->Stats().segments;
    for (const SegmentInfo& segment : segments) {
      fs::resize_file(StrCat(folder_.path(), "/segments/", segment.id, "/", std::string(file)), 0);
    }
    return static_cast<int64_t>(segments.size());
  }

  std::string PathOf(std::string_view file) const {
    return StrCat(folder_.path(), "/segments/", index_->Stats().segments.at(0).id, "/", std::string(file));
  }

  static absl::StatusOr<SearchResult> Ask(const IndexView& view, bool exact) {
    const BoundQuery query = Bind(kSpace, std::vector<float>(8, 0.1f));
    SearchRequest request;
    request.query = &query;
    request.generation = request.view_generation = 1;
    request.k = 20;
    request.ef = 20;
    request.exact = exact;
    return view.Search(request);
  }
};

TEST(Mapping, OfAFileThatEndsReadsAsZerosAndSaysSo) {
  TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string bytes(10 * 4096 + 17, 'x');
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  std::atomic<bool> damaged{false}, other_damaged{false};
  const auto mapping = Mapping::OfFile(path, &damaged);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  const auto other = Mapping::OfFile(path, &other_damaged);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(mapping->view(), bytes);
  EXPECT_FALSE(damaged);
  fs::resize_file(path, 2 * 4096);
  EXPECT_EQ(mapping->view().substr(0, 2 * 4096), bytes.substr(0, 2 * 4096));
  EXPECT_FALSE(damaged) << "what is left is as it was";
  EXPECT_EQ(mapping->view()[5 * 4096], 0);
  EXPECT_TRUE(damaged);
  EXPECT_EQ(mapping->view().back(), 0);
  EXPECT_FALSE(other_damaged) << "nobody has read there";
  EXPECT_EQ(other->view()[3 * 4096], 0);
  EXPECT_TRUE(other_damaged);
}

TEST(MappingDeathTest, ABusErrorElsewhereEndsTheProcess) {
  TemporaryFolder folder;
  const std::string path = folder / "file";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(4096, 'x')).ok());
  std::atomic<bool> damaged{false};
  const auto watched = Mapping::OfFile(path, &damaged);
  ASSERT_TRUE(watched.ok()) << watched.status();
  EXPECT_DEATH(::raise(SIGBUS), "");
  EXPECT_DEATH(
      {
        const int fd = ::open(path.c_str(), O_RDONLY);
        void* const unwatched = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
        fs::resize_file(path, 0);
        std::printf("%d", *static_cast<volatile char*>(unwatched));
      },
      "");
  EXPECT_FALSE(damaged);
}

TEST_F(IndexDamage, AnyFlippedBitIsNoticedAndTheSegmentRebuilt) {
  Open();
  Add(1, 50, 1);
  Add(1, 30, 2);
  for (uint64_t id = 40; id < 45; ++id) ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  const std::vector<std::string> files = Files();
  ASSERT_EQ(files.size(), 1u + 2 * 8);
  const std::string whole = folder_.path();
  for (const std::string& file : files) {
    const uint64_t bytes = fs::file_size(whole + "/" + file);
    for (int sample = 0; sample < 4; ++sample) {
      TemporaryFolder copy;
      fs::copy(whole, copy.path(), fs::copy_options::recursive);
      const uint64_t position = sample == 0 ? 0 : sample == 1 ? bytes - 1 : random_() % bytes;
      FlipByte(copy.path() + "/" + file, position);
      const std::string what = StrCat(file, " byte ", position);
      for (const bool again : {false, true}) {
        if (again && sample != 0) continue;
        auto index = CollectionIndex::Open(copy.path(), settings_, generations_, &oracle_);
        ASSERT_TRUE(index.ok()) << what << ": " << index.status();
        ASSERT_TRUE(oracle_.Replay(**index).ok());
        for (const bool exact : {false, true}) {  // Answered or not, it stays in its files.
          const auto result = Ask(*(*index)->View(), exact);
          EXPECT_TRUE(result.ok() || absl::IsUnavailable(result.status())) << what << ": " << result.status();
        }
        ASSERT_TRUE((*index)->Flush().ok()) << what;
        EXPECT_EQ((*index)->Stats().segments_unchecked, 0) << what;
        EXPECT_EQ((*index)->Stats().segments_damaged, 0) << what;
        // White space after a JSON document carries nothing.
        if (again) {
          EXPECT_EQ((*index)->Stats().rebuilds_total, 0) << what;
        } else if (!(file.ends_with(".json") && position == bytes - 1)) {
          EXPECT_GE((*index)->Stats().rebuilds_total, 1) << what;
        }
        ExpectIndexEquals(oracle_, **index, generations_, Vector(), what);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(IndexDamage, TruncatedAndMissingFilesAreRebuiltEvenAfterASecondCrash) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  Add(60, 20, 1);
  index_.reset();
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder_.path()).string());
  }
  for (const std::string& file : files) {
    for (const bool missing : {false, true}) {
      TemporaryFolder copy;
      fs::copy(folder_.path(), copy.path(), fs::copy_options::recursive);
      const std::string path = copy.path() + "/" + file;
      if (missing) {
        fs::remove(path);
      } else {
        fs::resize_file(path, fs::file_size(path) / 2);
      }
      for (int start = 0; start < 3; ++start) {
        auto index = CollectionIndex::Open(copy.path(), settings_, generations_, &oracle_);
        ASSERT_TRUE(index.ok()) << file << ": " << index.status();
        ASSERT_TRUE(oracle_.Replay(**index).ok());
        ExpectIndexEquals(oracle_, **index, generations_, Vector(), file);
        if (start == 1) {
          ASSERT_TRUE((*index)->Flush().ok());
        }
        if (start == 2) {
          EXPECT_EQ((*index)->Stats().rebuilds_total, 0) << file;
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(IndexDamage, FilesCutUnderTheRunningIndexAreSaidAndMended) {
  int said = 0;
  for (const std::string_view file :
       {kVectorsFile, kFactorsFile, kIdsFile, kUncertaintyFile, kGraphFile, kInt8CodesFile}) {
    Open();
    if (oracle_.sequence() == 0) Add(1, 120, 1);
    ASSERT_TRUE(index_->Flush().ok());
    // Rows that the last round's flush added may be in a segment of their own.
    ASSERT_THAT(Kinds(), AllOf(Not(IsEmpty()), Each("hnsw")));
    const std::shared_ptr<const IndexView> view = index_->View();  // of the files, whatever comes in their place
    const int64_t cut = Empty(file);
    for (const bool exact : {false, true, true}) {
      const auto result = Ask(*view, exact);
      if (result.ok()) {
        ASSERT_EQ(result->hits.size(), 20u) << file;
      } else {
        EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable) << file;
        EXPECT_THAT(MessageOf(result.status()), HasSubstr("is damaged"));
        ++said;
      }
    }
    // Writes go on: they rest on the ids alone, and come from the store again with all the rest.
    ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(oracle_.items().begin()->first)}).ok());
    Add(1000 + oracle_.sequence(), 3, 1);
    ASSERT_TRUE(index_->Flush().ok()) << file;
    EXPECT_EQ(index_->Stats().rebuilds_total, cut) << file;
    EXPECT_EQ(Ask(*view, true).status().code(), absl::StatusCode::kUnavailable) << "an old view knows no better";
    ExpectEqual(StrCat(file, " mended"));
    if (HasFailure()) return;
  }
  EXPECT_GE(said, 2 * 3) << "vectors, factors and ids at least are read by every search";
}

TEST_F(IndexDamage, AFileThatIsShortenedByLessThanAPageOrGoneIsFoundWithoutBeingRead) {
  for (const bool gone : {false, true}) {
    Open();
    if (oracle_.sequence() == 0) Add(1, 60, 1);
    ASSERT_TRUE(index_->Flush().ok());
    const std::string path = PathOf(kUncertaintyFile);
    if (gone) {
      fs::remove(path);
    } else {
      fs::resize_file(path, fs::file_size(path) - 4);
    }
    ASSERT_TRUE(index_->Flush().ok());
    EXPECT_EQ(index_->Stats().rebuilds_total, 1);
    ExpectEqual("mended");
  }
}

// The store is read while writes go on: what they did since counts.
TEST_F(IndexDamage, WritesBesideTheMendingAreNeitherLostNorUndone) {
  Open();
  Add(1, 200, 1);
  Add(1, 20, 2);
  ASSERT_TRUE(index_->Flush().ok());
  absl::Notification reading, written;
  int rows = 0;
  oracle_.before_row = [&] {
    if (++rows != 100) return;
    reading.Notify();
    written.WaitForNotification();
  };
  const std::shared_ptr<const IndexView> view = index_->View();
  Empty(kVectorsFile);
  EXPECT_EQ(Ask(*view, true).status().code(), absl::StatusCode::kUnavailable);
  reading.WaitForNotification();
  EXPECT_EQ(Ask(*index_->View(), true).status().code(), absl::StatusCode::kUnavailable) << "rows are missing";
  EXPECT_GE(index_->Stats().segments_damaged, 1);
  const auto write = [&](Oracle::Batch batch) { ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok()); };
  for (uint64_t id = 30; id <= 180; id += 10) write({Oracle::Delete(id)});            // read already, or not yet
  for (uint64_t id = 31; id <= 181; id += 10) write({Oracle::Add(id, 1, Vector())});  // another vector
  for (uint64_t id = 32; id <= 182; id += 10) write({Oracle::Add(id, 2, Vector())});  // superseded
  for (uint64_t id = 33; id <= 183; id += 10) write({Oracle::Delete(id), Oracle::Add(id + 1000, 1, Vector())});
  for (uint64_t id = 34; id <= 184; id += 10) {
    write({Oracle::Add(id, 1, Vector())});
    write({Oracle::Delete(id)});
  }
  written.Notify();
  ASSERT_TRUE(index_->Flush().ok());
  oracle_.before_row = {};
  EXPECT_EQ(index_->Stats().segments_damaged, 0);
  ExpectEqual("mended");
  Open();
  EXPECT_EQ(index_->Stats().rebuilds_total, 0);
  ExpectEqual("opened again");
}

TEST_F(IndexDamage, AStopWhileItIsMendedLeavesItToTheNextStart) {
  Open();
  Add(1, 200, 1);
  ASSERT_TRUE(index_->Flush().ok());
  absl::Notification reading, stopped;
  int rows = 0;
  oracle_.before_row = [&] {
    if (++rows == 100) reading.Notify();
  };
  fs::resize_file(PathOf(kVectorsFile), 0);
  EXPECT_EQ(Ask(*index_->View(), true).status().code(), absl::StatusCode::kUnavailable);
  reading.WaitForNotification();
  index_.reset();
  oracle_.before_row = {};
  Open();
  EXPECT_EQ(Search(*index_->View(), 1, 1).size(), 200u);
  ExpectEqual("mended by a start");
}

// A start with too few descriptors, too little memory, no permission: a link that leads to itself stands for them all.
TEST_F(IndexDamage, AnErrorThatSaysNothingAboutTheFilesEndsTheStartAndLeavesThem) {
  Open();
  Add(1, 60, 1);
  ASSERT_TRUE(index_->Flush().ok());
  for (const std::string_view file : {kManifestFile, kVectorsFile, kStatesFile}) {
    const std::string path = PathOf(file);
    const uint64_t id = index_->Stats().segments.at(0).id;
    index_.reset();
    fs::rename(path, path + ".real");
    fs::create_symlink(path, path);
    const auto index = CollectionIndex::Open(folder_.path(), settings_, generations_, &oracle_);
    EXPECT_EQ(index.status().code(), absl::StatusCode::kInternal) << index.status();
    EXPECT_THAT(MessageOf(index.status()), HasSubstr(StrCat("open segment ", id)));
    ASSERT_TRUE(fs::exists(path + ".real")) << "good files are gone";
    fs::rename(path + ".real", path);
    Open();
    EXPECT_EQ(index_->Stats().rebuilds_total, 0) << file;
  }
  ExpectEqual("opened");
}

TEST_F(IndexDamage, OfOneGenerationThatCannotBeMendedLeavesTheOthersTheirBuilds) {
  Open();
  Add(1, 50, 1);
  Add(101, 50, 2);
  ASSERT_TRUE(index_->Flush().ok());
  oracle_.unreadable = 1;
  for (const SegmentInfo& segment : index_->Stats().segments) {
    if (segment.generation != 1) continue;
    fs::resize_file(StrCat(folder_.path(), "/segments/", segment.id, "/", std::string(kVectorsFile)), 0);
  }
  Add(201, 60, 2);
  const absl::Status flushed = index_->Flush();
  EXPECT_EQ(flushed.code(), absl::StatusCode::kUnavailable) << flushed;
  EXPECT_THAT(MessageOf(flushed), HasSubstr("rebuild generation 1"));
  EXPECT_EQ(index_->Stats().segments_damaged, 1);
  for (const SegmentInfo& segment : index_->Stats().segments) EXPECT_EQ(segment.kind, "hnsw") << segment.generation;
  oracle_.unreadable = 0;
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().segments_damaged, 0);
  ExpectEqual("mended");
}

// Repairs hold as many threads as there are for them; one more repair waits, and only the repair.
TEST_F(IndexDamage, OfAnyNumberOfIndexesLeavesBuildsTheirThreads) {
  struct Other {
    Oracle oracle;
    absl::Notification reading;
    std::unique_ptr<CollectionIndex> index;
  };
  absl::Notification go_on;
  std::vector<std::unique_ptr<Other>> others;
  auto release = absl::MakeCleanup([&go_on] { go_on.Notify(); });  // before the indexes wait for their steps
  const int threads = std::max(4, AvailableCores());
  for (int i = 0; i <= threads; ++i) {
    Other& other = *others.emplace_back(std::make_unique<Other>());
    const std::string folder = StrCat(folder_.path(), "/other", i);
    auto index = CollectionIndex::Open(folder, settings_, generations_, &other.oracle);
    ASSERT_TRUE(index.ok()) << index.status();
    other.index = std::move(*index);
    for (uint64_t id = 1; id <= 50; ++id) {
      ASSERT_TRUE(other.oracle.Write(other.index.get(), {Oracle::Add(id, 1, Vector())}).ok());
    }
    ASSERT_TRUE(other.index->Flush(absl::Now() + absl::Minutes(1)).ok());
    other.oracle.before_row = [&other, &go_on] {
      if (!other.reading.HasBeenNotified()) other.reading.Notify();
      go_on.WaitForNotification();
    };
    fs::remove(StrCat(folder, "/segments/", other.index->Stats().segments.at(0).id, "/", std::string(kVectorsFile)));
    ASSERT_TRUE(other.index->Reconfigure(settings_, /*rebuild_now=*/false).ok());
    if (i < threads) {
      ASSERT_TRUE(other.reading.WaitForNotificationWithTimeout(absl::Minutes(1)));
    }
  }
  Open();
  Add(1, 60, 1);
  EXPECT_TRUE(index_->Flush(absl::Now() + absl::Minutes(1)).ok());
  Other& last = *others.back();
  for (uint64_t id = 101; id <= 160; ++id) {
    ASSERT_TRUE(last.oracle.Write(last.index.get(), {Oracle::Add(id, 2, Vector())}).ok());
  }
  EXPECT_TRUE(Comes([&] {
    const std::vector<SegmentInfo> segments = last.index->Stats().segments;
    return std::any_of(segments.begin(), segments.end(),
                       [](const SegmentInfo& segment) { return segment.generation == 2 && segment.kind == "hnsw"; });
  }));
  EXPECT_FALSE(last.reading.HasBeenNotified()) << "the threads for repairs are bounded";
  std::move(release).Invoke();
  for (const auto& other : others) {
    EXPECT_TRUE(other->index->Flush(absl::Now() + absl::Minutes(1)).ok());
    EXPECT_EQ(other->index->Stats().segments_damaged, 0);
    ExpectIndexEquals(other->oracle, *other->index, generations_, Vector(), "mended");
  }
}

TEST_F(IndexDamage, IsFoundByChecksThatReadAFileInPieces) {
  settings_.kind = SealedKind::kFlat;
  settings_.growing_rows_max = 4'000;  // more vectors than one read takes
  Open();
  Add(1, 4'000, 1);
  ASSERT_TRUE(index_->Flush().ok());
  const std::string vectors = PathOf(kVectorsFile);
  index_.reset();
  for (const bool damaged : {false, true}) {
    if (damaged) FlipByte(vectors, 100);
    IndexState state(folder_.path(), settings_, &oracle_, limits_);
    ASSERT_TRUE(IndexLoader(state).Load(generations_).ok());
    FileChecks checks(state);
    int pieces = 0;
    while (checks.CheckForFlush(/*longest=*/absl::ZeroDuration()) == absl::ZeroDuration()) {
      ASSERT_LT(++pieces, 100) << "it begins again and again";
    }
    EXPECT_GE(pieces, damaged ? 2 : 5);
    absl::MutexLock lock(&state.mu);
    EXPECT_TRUE(state.unchecked.empty());
    EXPECT_EQ(checks.AnyDamaged(), damaged);
  }
}

TEST_F(IndexDamage, IsNotLookedForTwiceBesideAFlush) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  const std::string vectors = PathOf(kVectorsFile);
  index_.reset();
  FlipByte(vectors, 100);
  IndexState state(folder_.path(), settings_, &oracle_, limits_);
  ASSERT_TRUE(IndexLoader(state).Load(generations_).ok());
  FileChecks checks(state);
  {
    absl::MutexLock lock(&state.mu);
    state.unchecked.at(0)->set_checked();  // by the other reader, meanwhile
  }
  EXPECT_EQ(checks.CheckNext(), absl::ZeroDuration());
  absl::MutexLock lock(&state.mu);
  EXPECT_FALSE(checks.AnyDamaged()) << "the file was read to its end";
}

TEST_F(IndexDamage, WithoutAStoreIsAnError) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  FlipByte(PathOf(kVectorsFile), 100);
  index_.reset();
  const auto index = CollectionIndex::Open(folder_.path(), settings_, generations_, nullptr);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ((*index)->Flush().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Ask(*(*index)->View(), true).status().code(), absl::StatusCode::kUnavailable);
  index_.reset();
}

TEST_F(IndexDamage, ManifestsOfEarlierVersionsHaveNoBiasMax) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  const std::string path = PathOf(kManifestFile);
  auto manifest = DecodeManifest(*ReadFile(path));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(manifest->bias_max.has_value());
  const float bias_max = *manifest->bias_max;
  EXPECT_GT(bias_max, 1);
  manifest->bias_max.reset();
  ASSERT_TRUE(WriteFileAtomically(path, EncodeManifest(*manifest)).ok());
  Open();
  EXPECT_EQ(index_->Stats().rebuilds_total, 0);
  ExpectEqual("without");
  manifest->bias_max = bias_max / 2;  // a writer that was wrong
  ASSERT_TRUE(WriteFileAtomically(path, EncodeManifest(*manifest)).ok());
  Open();
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().rebuilds_total, 1);
  ExpectEqual("mended");
}

}  // namespace
}  // namespace lightcone
