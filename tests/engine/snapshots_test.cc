// Snapshots against an oracle: taken while writes go on, each holds exactly what one sequence of writes left, and a
// server that opens it serves it without building its index again. What survives a kill.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "adapter_world.h"
#include "base/files.h"
#include "snapshot/archive.h"
#include "snapshot/restore.h"
#include "snapshot/shelf.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;
using Code = absl::StatusCode;

constexpr uint64_t kIds = 97;
constexpr char kChildVariable[] = "LIGHTCONE_SNAPSHOTS_TEST_CHILD";  // folder of the child's engine

bool Deletes(uint64_t n) { return n % 11 == 0; }
std::vector<float> VectorOf(uint64_t n) {
  return {static_cast<float>(n % kIds) * 0.01f, static_cast<float>(n) * 0.0001f, 0.5f, 0};
}
// Items after write `n`, by id: the write that left them.
std::map<uint64_t, uint64_t> StateAfter(uint64_t n) {
  std::map<uint64_t, uint64_t> state;
  for (uint64_t i = n < 2 * kIds ? 1 : n - 2 * kIds; i <= n; ++i) {
    if (Deletes(i)) {
      state.erase(i % kIds);
    } else {
      state[i % kIds] = i;
    }
  }
  return state;
}

absl::StatusOr<WriteResult> WriteOne(Engine& engine, uint64_t n) {
  if (Deletes(n)) return engine.Delete("c", {Id(n % kIds)}, Durability::kProcess, {});
  return engine.Upsert(BatchOf({ItemOf(Id(n % kIds), VectorOf(n), StrCat("{\"n\":", n, "}"))}, 1), {});
}

// A thread that writes 1, 2, 3 ... and says how far it is.
class Writer {
 public:
  explicit Writer(Engine& engine) : engine_(engine), thread_([this] { Run(); }) {}
  ~Writer() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // The last write that a state of this sequence holds. A deletion of nothing takes no sequence of its own. REQUIRES:
  // stopped.
  uint64_t LastWriteOf(uint64_t sequence) const {
    const auto above = std::upper_bound(sequences_.begin(), sequences_.end(), sequence);
    return static_cast<uint64_t>(above - sequences_.begin());
  }
  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t begun() const { return begun_; }
  absl::Duration slowest() const { return absl::Nanoseconds(slowest_.load()); }
  // False: the writer did not get there in time.
  bool AwaitAcknowledged(uint64_t n) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, n] { return acknowledged_ >= n; };
    return mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(60));
  }

 private:
  void Run() {
    for (uint64_t n = 1; !stop_; ++n) {
      begun_ = n;
      const absl::Time start = absl::Now();
      const auto written = WriteOne(engine_, n);
      ASSERT_TRUE(written.ok()) << written.status();
      sequences_.push_back(std::max(written->sequence, sequences_.empty() ? 0 : sequences_.back()));
      slowest_ = std::max(slowest_.load(), absl::ToInt64Nanoseconds(absl::Now() - start));
      absl::MutexLock lock(&mu_);
      acknowledged_ = n;
    }
  }

  Engine& engine_;
  absl::Mutex mu_;
  std::atomic<uint64_t> begun_{0}, acknowledged_{0};
  std::atomic<int64_t> slowest_{0};
  std::atomic<bool> stop_{false};
  std::vector<uint64_t> sequences_;  // sequences of the writes 1, 2, 3 ...; of the thread until it has ended
  std::thread thread_;
};

class SnapshotsTest : public AdapterTest {
 protected:
  // Small segments, so that seals, merges and checkpoints of the index go on beside the snapshots.
  void MakeSmallSegments() {
    CreateCollectionCall call;
    call.name = "c";
    call.index.growing_rows_max = 50;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    Register(0);
    Activate(1);
  }
  SnapshotStatus Create(const std::string& name) {
    const auto made = engine_->snapshots().Create({name}, {});
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : SnapshotStatus{};
  }
  // The snapshot in a server of its own.
  std::unique_ptr<Engine> Restored(const SnapshotStatus& snapshot) {
    const std::string data = StrCat(folder_.path(), "-restored/", snapshot.manifest.name);
    const auto restored = RestoreSnapshot(snapshot.folder, data);
    EXPECT_TRUE(restored.ok()) << restored.status();
    return restored.ok() ? OpenEngine(data) : nullptr;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_.path() + "-restored", ignored);
  }

  static void ExpectState(Engine& engine, const std::map<uint64_t, uint64_t>& state) {
    std::map<uint64_t, uint64_t> scrolled, found;
    const auto page = engine.Scroll("c", std::nullopt, 1'000, "", false, {});
    ASSERT_TRUE(page.ok()) << page.status();
    const auto number = [](const std::string& payload) { return std::stoull(payload.substr(payload.find(':') + 1)); };
    for (const StoredItem& item : page->items) scrolled[std::get<uint64_t>(item.id.value)] = number(item.payload_json);
    EXPECT_EQ(scrolled, state);
    SearchCall call = SearchFor({0, 0, 0.5f, 0}, 1'000);
    call.with_payload = true;
    const auto answer = engine.Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const EngineHit& hit : answer->results[0].hits)
      found[std::get<uint64_t>(hit.id.value)] = number(hit.payload_json);
    EXPECT_EQ(found, state) << "the index agrees with the store";
  }
};

TEST_F(SnapshotsTest, EachSnapshotHoldsExactlyTheWritesOfOneSequence) {
  MakeSmallSegments();
  struct Made {
    SnapshotStatus snapshot;
    uint64_t before, after;  // the last write that was acknowledged before the call, and begun before its answer
  };
  std::vector<Made> made;
  Writer writer(*engine_);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(writer.AwaitAcknowledged(static_cast<uint64_t>(150 * (i + 1))));
    const uint64_t before = writer.acknowledged();
    SnapshotStatus snapshot = Create(StrCat("s", i));
    made.push_back({std::move(snapshot), before, writer.begun()});
  }
  writer.Stop();
  RecordProperty("slowest_write_ms", static_cast<int>(absl::ToInt64Milliseconds(writer.slowest())));
  for (const auto& [snapshot, before, after] : made) {
    ASSERT_EQ(snapshot.manifest.collections.size(), 1u);
    const uint64_t last = writer.LastWriteOf(snapshot.manifest.collections[0].sequence);
    EXPECT_GE(last, before) << "a write was acknowledged before the call and is not there";
    EXPECT_LE(last, after) << "a write began after the answer and is there";
    const auto state = StateAfter(last);
    EXPECT_EQ(snapshot.manifest.collections[0].items, state.size());
    EXPECT_TRUE(engine_->snapshots().Verify(snapshot.manifest.name, {}).ok());
    const auto restored = Restored(snapshot);
    ASSERT_NE(restored, nullptr);
    ExpectState(*restored, state);
    EXPECT_EQ(restored->GetCollection("c")->rebuilds_total, 0) << "segments come with the snapshot";
    EXPECT_TRUE(WriteOne(*restored, 1).ok()) << "and it takes writes";
  }
}

TEST_F(SnapshotsTest, ARestoredServerHasGenerationsAdaptersAliasesPayloadIndexesAndProbes) {
  MakeWorld();
  Put(item_);
  ASSERT_TRUE(engine_->SetAlias("other", "c", "").ok());
  IndexPayloadCall index;
  index.collection = "c";
  index.add = {{"n", PayloadType::kInteger}};
  index.wait = true;
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  PutProbesCall probes{"", "c", "daily", "", {}};
  probes.probes.resize(1);
  probes.probes[0].vectors = {{1, old_rows_[3]}};
  probes.probes[0].relevant = {Id(3)};
  const auto put = engine_->PutProbes(probes);
  ASSERT_TRUE(put.ok()) << put.status();

  const SnapshotStatus snapshot = Create("all");
  const auto adapters = engine_->ListAdapters("c");
  engine_ = Restored(snapshot);
  ASSERT_NE(engine_, nullptr);
  EXPECT_EQ(engine_->ListGenerations("c")->size(), 2u);
  ASSERT_EQ(engine_->ListAdapters("c")->size(), 1u);
  EXPECT_EQ(engine_->ListAdapters("c")->front().version, adapters->front().version);
  EXPECT_EQ(engine_->ListProbes("c")->front().put, put->put);
  EXPECT_EQ(engine_->GetCollection("other")->name, "c");
  EXPECT_EQ(engine_->GetCollection("c")->payload_indexes.size(), 1u);
  EXPECT_EQ(engine_->GetCollection("c")->items, kOldRows + kNewRows);
  ExpectMode(AdapterMode::kDefault, AdapterMode::kItem, "restored");
}

TEST_F(SnapshotsTest, NamesRequestsAndDeletionsAreHeldToTheirRules) {
  MakeCollection();
  Snapshots& snapshots = engine_->snapshots();
  const auto first = snapshots.Create({"", "request-1"}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(snapshots.Create({"", "request-1"}, {})->manifest.name, first->manifest.name) << "made once";
  for (const CreateSnapshotCall& other : {CreateSnapshotCall{"other", "request-1"}, {"", "request-1", {"c"}}}) {
    EXPECT_TRUE(Fails(snapshots.Create(other, {}), Code::kAlreadyExists, {"request_id", "request-1"}));
  }
  EXPECT_TRUE(Fails(snapshots.Create({first->manifest.name}, {}), Code::kAlreadyExists, {first->manifest.name}));
  EXPECT_TRUE(Fails(snapshots.Create({"../x"}, {}), Code::kInvalidArgument, {"name", "../x"}));
  EXPECT_TRUE(Fails(snapshots.Verify("none", {}), Code::kNotFound, {"none", first->manifest.name}));
  EXPECT_EQ(snapshots.Figures().count, 1u);
  EXPECT_FALSE(snapshots.Figures().newest_verified.has_value());
  ASSERT_TRUE(snapshots.Verify(first->manifest.name, {}).ok());
  EXPECT_TRUE(snapshots.Figures().newest_verified.has_value());
  EXPECT_TRUE(snapshots.Delete(first->manifest.name).ok());
  EXPECT_EQ(snapshots.Figures().count, 0u);
  CallContext over;
  over.deadline = absl::InfinitePast();
  EXPECT_TRUE(Fails(snapshots.Create({"late"}, over), Code::kCancelled, {}));
  EXPECT_TRUE(snapshots.List()->empty());
}

TEST_F(SnapshotsTest, TheOrderOfCollectionsAndAnOlderManifestMakeNoOtherRequest) {
  MakeCollection();
  CreateCollectionCall second;
  second.name = "d";
  ASSERT_TRUE(engine_->CreateCollection(second).ok());
  Snapshots& snapshots = engine_->snapshots();
  ASSERT_TRUE(snapshots.Create({"pair", "request-1", {"d", "c"}}, {}).ok());
  EXPECT_EQ(snapshots.Create({"pair", "request-1", {"c", "d"}}, {})->manifest.name, "pair");
  EXPECT_TRUE(Fails(snapshots.Create({"pair", "request-1", {"c"}}, {}), Code::kAlreadyExists, {"request-1"}));
  const std::string folder = folder_.path() + "/snapshots/pair";
  auto manifest = ReadSnapshotManifest(folder);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->asked.reset();  // as an older server wrote it
  ASSERT_TRUE(WriteFileAtomically(folder + "/manifest.json", EncodeSnapshotManifest(*manifest)).ok());
  EXPECT_EQ(snapshots.Create({"pair", "request-1", {"c"}}, {})->manifest.name, "pair");
}

TEST_F(SnapshotsTest, TheScheduleMakesVerifiesAndKeepsSoMany) {
  MakeCollection();
  ASSERT_TRUE(engine_->snapshots().Create({"mine"}, {}).ok());
  BackupOptions options;
  options.every = absl::Milliseconds(1);
  options.keep = 1;
  ASSERT_TRUE(engine_->snapshots().Start(options).ok());
  std::set<std::string> seen;
  for (const absl::Time give_up = absl::Now() + absl::Seconds(60); seen.size() < 3 && absl::Now() < give_up;) {
    const auto all = engine_->snapshots().List();
    ASSERT_TRUE(all.ok()) << all.status();
    for (const SnapshotStatus& one : *all) {
      EXPECT_TRUE(one.damage.ok()) << one.damage;
      if (one.manifest.scheduled) seen.insert(one.manifest.name);
    }
  }
  EXPECT_GE(seen.size(), 3u);
  engine_.reset();  // ends the schedule
  engine_ = OpenEngine(folder_.path());
  size_t scheduled = 0;
  const auto left = engine_->snapshots().List();
  for (const SnapshotStatus& one : *left) scheduled += one.manifest.scheduled;
  EXPECT_LE(scheduled, 3u) << "one is kept, another may be the newest verified one, a third not yet looked at";
  EXPECT_EQ(left->back().manifest.name, "mine") << "what a caller made stays";
}

TEST_F(SnapshotsTest, ASnapshotOfAClockThatWasWrongNeitherStopsTheScheduleNorOutlivesOthers) {
  MakeCollection();
  const SnapshotShelf shelf(folder_.path() + "/snapshots");
  SnapshotManifest future;
  future.name = "auto-21260101-000000";
  future.scheduled = true;
  future.time_us = absl::ToUnixMicros(absl::Now() + absl::Hours(24 * 36'500));
  ASSERT_TRUE(shelf.Begin(future.name).ok());
  ASSERT_TRUE(shelf.Commit(future.name, EncodeSnapshotManifest(future)).ok());
  ASSERT_TRUE(shelf.SetVerified(future.name, future.time_us).ok());
  BackupOptions options;
  options.every = absl::Milliseconds(1);
  options.keep = 1;
  ASSERT_TRUE(engine_->snapshots().Start(options).ok());
  bool future_left = false, other_came = false;
  for (const absl::Time give_up = absl::Now() + absl::Seconds(60); absl::Now() < give_up;) {
    const auto all = shelf.List();
    ASSERT_TRUE(all.ok()) << all.status();
    future_left = std::ranges::none_of(*all, [&](const auto& one) { return one.name == future.name; });
    other_came = std::ranges::any_of(*all, [&](const auto& one) { return one.name != future.name; });
    if (future_left && other_came) break;
    std::this_thread::yield();
  }
  EXPECT_TRUE(other_came) << "the schedule goes on";
  EXPECT_TRUE(future_left) << "it is the older one of the two";
  engine_.reset();  // ends the schedule
}

TEST_F(SnapshotsTest, CallersThatVerifyOneSnapshotAtOnceAllHearThatItIsGood) {
  MakeCollection();
  Create("a");
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([this] {
      for (int i = 0; i < 10; ++i) {
        const auto verified = engine_->snapshots().Verify("a", {});
        EXPECT_TRUE(verified.ok()) << verified.status();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(SnapshotsTest, AnArchiveForWhichTheDiskHasNoRoomIsRefusedWithItsManifest) {
  MakeCollection();
  const SnapshotShelf shelf(folder_.path() + "/elsewhere");
  SnapshotManifest huge;
  huge.name = "huge";
  huge.files = {{"store/000001.sst", uint64_t{1} << 60, 1}};
  const auto partial = shelf.Begin(huge.name);
  ASSERT_TRUE(partial.ok()) << partial.status();
  fs::create_directories(*partial + "/data/store");
  ASSERT_TRUE(WriteFileAtomically(*partial + "/data/store/000001.sst", std::string(2 << 20, 'x')).ok());
  ASSERT_TRUE(shelf.Commit(huge.name, EncodeSnapshotManifest(huge)).ok());
  const auto archive = ArchiveWriter::Open(shelf.PathOf(huge.name));
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto begin = (*archive)->Next();
  ASSERT_TRUE(begin.ok()) << begin.status();
  auto upload = engine_->snapshots().Upload("");
  ASSERT_TRUE(upload.ok()) << upload.status();
  const absl::Status refused = (*upload)->Append(*begin);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused;
  EXPECT_NE(refused.message().find("needs 1152921504606846976 bytes"), std::string::npos) << refused;
  upload->reset();
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/snapshots")) << "nothing is left";
}

// The child writes, makes snapshots and deletes the older ones until it is killed.
TEST(SnapshotsChild, Body) {
  const char* folder = std::getenv(kChildVariable);
  if (folder == nullptr) return;
  const auto engine = OpenEngine(std::string(folder));
  for (uint64_t n = 1;; ++n) {
    if (!WriteOne(*engine, n).ok()) _exit(3);
    if (n % 5 != 0) continue;
    if (!engine->snapshots().Create({StrCat("s", n)}, {}).ok()) _exit(4);
    if (n > 5 && !engine->snapshots().Delete(StrCat("s", n - 5)).ok()) _exit(5);
    if (n == 5 && write(STDOUT_FILENO, "!", 1) != 1) _exit(6);
  }
}

TEST_F(SnapshotsTest, AKilledServerLeavesWholeSnapshotsAlone) {
  MakeCollection();
  for (int round = 0; round < 3; ++round) {
    const bool have = engine_ != nullptr;
    if (have) engine_.reset();
    fs::remove_all(folder_.path() + "/snapshots");
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      setenv(kChildVariable, folder_.path().c_str(), 1);
      execl("/proc/self/exe", "engine_snapshots_test", "--gtest_filter=SnapshotsChild.Body", "--gtest_brief=1",
            static_cast<char*>(nullptr));
      _exit(9);
    }
    close(ends[1]);
    char byte = 0;
    do {  // until the first snapshot is whole
      ASSERT_EQ(read(ends[0], &byte, 1), 1);
    } while (byte != '!');
    absl::SleepFor(absl::Milliseconds(37 * (round + 1)));  // another moment of its work in each round
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    close(ends[0]);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
    ASSERT_TRUE(engine_->snapshots().Start({}).ok());
    const auto left = engine_->snapshots().List();
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_GE(left->size(), 1u);
    for (const SnapshotStatus& one : *left) {
      EXPECT_TRUE(one.damage.ok()) << one.damage;
      const auto verified = engine_->snapshots().Verify(one.manifest.name, {});
      EXPECT_TRUE(verified.ok()) << verified.status();
    }
    size_t names = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path() + "/snapshots")) names += entry.is_directory();
    EXPECT_EQ(names, left->size()) << "what was cut short is gone";
  }
}

}  // namespace
}  // namespace lightcone::server
