// Everything at once, from 24 threads: searches of every kind beside writes, deletions, activations, backfill,
// rebuilding and dropping, with an oracle a writer. LIGHTCONE_STRESS_SECONDS says how long (6): made for hours under
// sanitizers.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/time/clock.h"
#include "server/engine/core/engine_impl.h"
#include "server/engine/live/live_sampler.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/random_filters.h"

namespace lightcone::server {
namespace {

constexpr int kWide = 48;
constexpr uint32_t kGenerations = 3;
constexpr int kWriters = 6, kSearchers = 8, kTemporary = 3;  // and seven others: 24 threads
constexpr uint64_t kItemsAWriter = 600;
constexpr int64_t kIndexMemoryMax = 8 << 20;

absl::Duration Length() {
  const char* seconds = std::getenv("LIGHTCONE_STRESS_SECONDS");
  return absl::Seconds(seconds == nullptr ? 6 : std::max(1, std::atoi(seconds)));
}

// The line "NAME: n kB" of /proc/self/status, in bytes.
int64_t MemoryOf(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) << 10;
  }
  return -1;
}

// Mappings and open files below a folder; `gone` only those whose file has been removed.
std::vector<std::string> FilesHeld(const std::string& folder, bool gone) {
  std::vector<std::string> held;
  const auto note = [&](const std::string& path) {
    if (path.find(folder) == std::string::npos) return;
    if (!gone || path.ends_with(" (deleted)")) held.push_back(path);
  };
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) note(line);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    note(std::filesystem::read_symlink(entry.path(), ignored).string());
  }
  return held;
}

// Durations of searches, of the first and the last sixth of the run: a sample of each, so that hours take no more
// memory than seconds.
class Durations {
 public:
  Durations(absl::Time begin, absl::Duration length) : begin_(begin), part_(length / 6) {}
  void Note(absl::Time began) {
    const absl::Time now = absl::Now();
    const bool first = now < begin_ + part_;
    if (!first && now <= begin_ + 5 * part_) return;
    const double ms = absl::ToDoubleMilliseconds(now - began);
    absl::MutexLock lock(&mu_);
    Sample& sample = first ? first_ : last_;
    const uint64_t place = sample.count < kKept ? sample.count : random_() % (sample.count + 1);
    ++sample.count;
    if (place < kKept) sample.values[place] = ms;
  }
  std::string Text() {
    absl::MutexLock lock(&mu_);
    return StrCat("p50/p99 ms of the first sixth ", At(&first_, 0.5), "/", At(&first_, 0.99), ", of the last ",
                  At(&last_, 0.5), "/", At(&last_, 0.99));
  }

 private:
  static constexpr uint64_t kKept = 100'000;
  struct Sample {
    uint64_t count = 0;
    std::vector<double> values = std::vector<double>(kKept);
  };
  static double At(Sample* sample, double share) {
    const uint64_t kept = std::min(sample->count, kKept);
    if (kept == 0) return 0;
    const auto begin = sample->values.begin(), end = begin + static_cast<int64_t>(kept);
    const auto place = begin + static_cast<int64_t>(share * static_cast<double>(kept - 1));
    std::nth_element(begin, place, end);
    return *place;
  }
  const absl::Time begin_;
  const absl::Duration part_;
  absl::Mutex mu_;
  std::mt19937_64 random_;
  Sample first_, last_;
};

class Stress : public EngineTest {
 protected:
  void SetUp() override {
    EngineOptions options = OptionsFor(folder_.path());
    options.live_recall = {.sample_share = 0.05, .capacity_share_max = 0.1, .queue_max = 64};
    options.index_memory_bytes_max = kIndexMemoryMax;
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
    MakeNamed("c", kGenerations);
  }

  IndexSettings RandomSettings(std::mt19937* random) {
    IndexSettings settings;
    settings.kind = static_cast<SealedKind>((*random)() % 4);
    static constexpr RowCodes kCodes[] = {RowCodes::kFloat32, RowCodes::kInt8, RowCodes::kHalf, RowCodes::kAuto};
    settings.codes = kCodes[(*random)() % 4];
    settings.growing_rows_max = 200 + static_cast<int64_t>((*random)() % 1'000);
    settings.hnsw_m = 8;
    settings.hnsw_ef_construction = 40;
    settings.build_threads = 1 + static_cast<int>((*random)() % 2);
    return settings;
  }

  void MakeNamed(const std::string& name, uint32_t generations) {
    std::mt19937 random(static_cast<uint32_t>(name.size()));
    CreateCollectionCall create;
    create.name = name;
    create.index = RandomSettings(&random);
    create.payload_fields = {{"number", PayloadType::kInteger}};
    Allow(engine_->CreateCollection(create).status());
    for (uint32_t g = 1; g <= generations; ++g) {
      RegisterCall generation;
      generation.collection = name;
      generation.manifest_json = ManifestFor(kWide, 1.0, 1.0 + 0.2 * g);
      generation.parent = g - 1;
      Allow(engine_->RegisterGeneration(generation).status());
    }
    ActivateCall activate;
    activate.collection = name;
    activate.generation = 1;
    Allow(engine_->ActivateGeneration(activate).status());
  }

  // An answer that a caller may get beside all the others.
  void Allow(const absl::Status& status) {
    ++calls_;
    if (status.ok()) return;
    ++refused_;
    EXPECT_TRUE(absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status) ||
                absl::IsAlreadyExists(status) || absl::IsNotFound(status) || absl::IsDeadlineExceeded(status) ||
                absl::IsAborted(status))
        << status;
  }

  bool Running() const { return !stop_.load() && !HasFailure(); }

  // Owns the ids [first, first + kItemsAWriter): after each acknowledged call they are what it made them.
  void WriteAndCheck(uint32_t seed) {
    std::mt19937 random(seed);
    const uint64_t first = seed * kItemsAWriter;
    std::map<uint64_t, std::vector<float>> here;
    while (Running()) {
      UpsertBatch batch = BatchOf({}, 1 + static_cast<uint32_t>(random() % kGenerations));
      batch.durability = random() % 8 == 0 ? Durability::kDurable : Durability::kProcess;
      const uint64_t start = random() % kItemsAWriter, count = 1 + random() % 40;
      for (uint64_t i = start; i < std::min(kItemsAWriter, start + count); ++i) {
        std::vector<float> z = RandomVector(&random, kWide, 0.15f);
        batch.items.push_back(ItemOf(Id(first + i), z, StrCat("{\"number\":", i, ",\"x\":", z[0], "}")));
        here[first + i] = std::move(z);
      }
      const uint32_t generation = batch.generation;
      const uint64_t asked = std::get<uint64_t>(batch.items[random() % batch.items.size()].id.value);
      const auto written = engine_->Upsert(std::move(batch), {});
      ASSERT_TRUE(written.ok()) << written.status();
      SearchCall call = SearchFor(here[asked], 1, kGenerations);
      call.exact = random() % 2 == 0;
      if (call.exact) {
        const auto answer = engine_->Search(call, {});
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(answer->results[0].hits.size(), 1u);
        // Others' backfill may have embedded it anew meanwhile, by a vector of its own (Embed).
        if (answer->results[0].hits[0].generation == generation && generation == kGenerations) {
          ASSERT_EQ(std::get<uint64_t>(answer->results[0].hits[0].id.value), asked);
        }
      }
      ++calls_;
      if (random() % 3 != 0) continue;
      std::vector<ItemId> gone;
      for (uint64_t i = start; i < std::min(kItemsAWriter, start + count / 2); ++i) gone.push_back(Id(first + i));
      if (gone.empty()) continue;
      const auto deleted = engine_->Delete("c", gone, Durability::kProcess, {});
      ASSERT_TRUE(deleted.ok()) << deleted.status();
      const auto got = engine_->Get("c", gone, 0, false, {});
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->items.size(), 0u) << "a deleted item is back";
      for (const ItemId& id : gone) here.erase(std::get<uint64_t>(id.value));
    }
    absl::MutexLock lock(&mu_);
    for (const auto& [id, z] : here) kept_.push_back(id);
  }

  void SearchAll(uint32_t seed, Durations* durations) {
    std::mt19937 random(seed);
    RandomCases cases(seed);
    while (Running()) {
      SearchCall call = SearchFor(RandomVector(&random, kWide, 0.15f), 1 + static_cast<int64_t>(random() % 50),
                                  static_cast<uint32_t>(random() % (kGenerations + 1)));
      call.exact = random() % 4 == 0;
      if (!call.exact && random() % 3 == 0) call.target_recall = 0.9;
      if (random() % 3 == 0) {
        call.filter = Leaf(FilterNode::Kind::kRange, random() % 4 == 0 ? "x" : "number");
        call.filter->less = static_cast<double>(random() % kItemsAWriter);
      }
      call.with_payload = random() % 4 == 0;
      call.profile = random() % 8 == 0;
      for (uint64_t q = random() % 3; q > 0; --q) call.queries.push_back(call.queries[0]);
      CallContext context;
      const bool late = random() % 16 == 0;
      if (late) context.deadline = absl::Now() + absl::Microseconds(random() % 300);
      const absl::Time began = absl::Now();
      const auto answer = engine_->Search(call, context);
      durations->Note(began);
      Allow(answer.status());
      if (!answer.ok()) continue;
      for (const QueryAnswer& one : answer->results) {
        Allow(one.status);
        std::map<ItemId, int> seen;
        for (const EngineHit& hit : one.hits) {
          ASSERT_EQ(seen[hit.id]++, 0) << "twice: " << ToString(hit.id);
        }
      }
    }
  }

  // Collections that come, are filled, searched and dropped.
  void ComeAndGo(int number) {
    std::mt19937 random(static_cast<uint32_t>(number));
    const std::string name = StrCat("temporary", std::string(static_cast<size_t>(number), '-'));
    while (Running()) {
      MakeNamed(name, 2);
      for (uint64_t round = 0; round < 1 + random() % 6 && Running(); ++round) {
        UpsertBatch batch = BatchOf({}, 1 + static_cast<uint32_t>(random() % 2));
        batch.collection = name;
        batch.durability = Durability::kProcess;
        for (uint64_t i = 0; i < 300; ++i) {
          batch.items.push_back(ItemOf(Id(random() % 2'000), RandomVector(&random, kWide, 0.15f), "{\"number\":1}"));
        }
        std::sort(batch.items.begin(), batch.items.end(), [](auto& a, auto& b) { return a.id.value < b.id.value; });
        batch.items.erase(std::unique(batch.items.begin(), batch.items.end(),
                                      [](auto& a, auto& b) { return a.id.value == b.id.value; }),
                          batch.items.end());
        Allow(engine_->Upsert(std::move(batch), {}).status());
        SearchCall call = SearchFor(RandomVector(&random, kWide, 0.15f), 10, 2);
        call.collection = name;
        call.exact = random() % 2 == 0;
        Allow(engine_->Search(call, {}).status());
      }
      Allow(engine_->Rebuild(name, RandomSettings(&random), random() % 2 == 0, "", {}).status());
      const absl::Status dropped = engine_->DropCollection(name, "");
      ASSERT_TRUE(dropped.ok()) << dropped;
    }
  }

  void Switch() {
    std::mt19937 random(91);
    while (Running()) {
      ActivateCall activate;
      activate.collection = "c";
      activate.generation = 1 + static_cast<uint32_t>(random() % kGenerations);
      activate.force = true;
      activate.reason = "a test";
      Allow(engine_->ActivateGeneration(activate).status());
      SwitchCall back;
      back.collection = "c";
      back.force = true;
      back.reason = "a test";
      if (random() % 2 == 0) Allow(engine_->RollbackGeneration(back).status());
      Pause(&random, 200);
    }
  }

  void Rebuild() {
    std::mt19937 random(92);
    while (Running()) {
      CallContext context;
      if (random() % 4 == 0) context.deadline = absl::Now() + absl::Milliseconds(random() % 50);
      Allow(engine_->Rebuild("c", RandomSettings(&random), random() % 2 == 0, "", context).status());
      Pause(&random, 500);
    }
  }

  void IndexPayloads() {
    std::mt19937 random(93);
    while (Running()) {
      IndexPayloadCall add;
      add.collection = "c";
      add.add = {{"x", PayloadType::kFloat}};
      add.wait = random() % 2 == 0;
      Allow(engine_->IndexPayload(add, {}).status());
      Pause(&random, 100);
      IndexPayloadCall drop;
      drop.collection = "c";
      drop.drop = {"x"};
      Allow(engine_->IndexPayload(drop, {}).status());
    }
  }

  // A worker that embeds anew what the active generation leases to it, now and then too late.
  void Embed() {
    std::mt19937 random(94);
    while (Running()) {
      StartBackfillCall start;
      start.collection = "c";
      Allow(engine_->StartBackfill(start).status());
      for (int i = 0; i < 20 && Running(); ++i) {
        LeaseCall lease;
        lease.collection = "c";
        lease.items_max = 100;
        lease.timeout = absl::Seconds(1);
        const auto leased = engine_->LeaseBackfill(lease);
        Allow(leased.status());
        if (!leased.ok() || leased->items.empty()) {
          Pause(&random, 50);
          continue;
        }
        UpsertBatch batch = BatchOf({}, leased->generation, /*same_content=*/true);
        batch.durability = Durability::kProcess;
        for (const LeasedItem& item : leased->items) {
          batch.items.push_back(ItemOf(item.id, RandomVector(&random, kWide, 0.15f)));
          batch.items.back().expected_sequence = item.sequence;
        }
        Allow(engine_->Upsert(std::move(batch), {}).status());
      }
    }
  }

  void Read() {
    std::mt19937 random(95);
    while (Running()) {
      Allow(engine_->ListCollections().status());
      Allow(engine_->GetCollection("c").status());
      Allow(engine_->GetLiveRecall("c").status());
      Allow(engine_->GetBackfill("c").status());
      Allow(engine_->ListAudit("c", 5).status());
      (void)engine_->StoreStatistics();
      std::string token;
      do {
        const auto page = engine_->Scroll("c", std::nullopt, 200, token, random() % 2 == 0, {});
        Allow(page.status());
        token = page.ok() ? page->token : "";
      } while (!token.empty() && Running());
      FilterNode filter = Leaf(FilterNode::Kind::kRange, "number");
      filter.less = 100.0;
      Allow(engine_->Count("c", filter, {}).status());
    }
  }

  void Pause(std::mt19937* random, uint32_t ms) {
    absl::MutexLock lock(&mu_);
    const auto stopping = [this] { return stop_.load(); };
    mu_.AwaitWithTimeout(absl::Condition(&stopping), absl::Milliseconds((*random)() % ms));
  }

  // Beside the others: how much memory there is, once it has settled.
  void WatchMemory(absl::Time settled) {
    while (Running()) {
      const int64_t now = MemoryOf("RssAnon");
      (absl::Now() < settled ? settled_bytes_ : most_bytes_) =
          std::max(absl::Now() < settled ? settled_bytes_ : most_bytes_, now);
      absl::MutexLock lock(&mu_);
      const auto stopping = [this] { return stop_.load(); };
      mu_.AwaitWithTimeout(absl::Condition(&stopping), absl::Milliseconds(200));
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> calls_ = 0, refused_ = 0;
  int64_t settled_bytes_ = 0, most_bytes_ = 0;  // written by WatchMemory alone
  absl::Mutex mu_;
  std::vector<uint64_t> kept_;  // that writers left behind
};

TEST_F(Stress, ALoadOfEveryKindLosesNothingAndHoldsNothingInTheEnd) {
  const absl::Time begin = absl::Now();
  const absl::Duration length = Length();
  Durations durations(begin, length);
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWriters; ++w) threads.emplace_back([this, w] { WriteAndCheck(w); });
  for (uint32_t s = 0; s < kSearchers; ++s) threads.emplace_back([&, s] { SearchAll(s + 50, &durations); });
  for (int t = 1; t <= kTemporary; ++t) threads.emplace_back([this, t] { ComeAndGo(t); });
  threads.emplace_back([this] { Switch(); });
  threads.emplace_back([this] { Rebuild(); });
  threads.emplace_back([this] { IndexPayloads(); });
  threads.emplace_back([this] { Embed(); });
  threads.emplace_back([this] { Embed(); });
  threads.emplace_back([this] { Read(); });
  threads.emplace_back([&] { WatchMemory(begin + length / 3); });
  {
    absl::MutexLock lock(
        &mu_);  // nobody raises stop_ but this thread: a failure ends the others, and the rest of the wait
    const auto failed = [this] { return HasFailure(); };
    mu_.AwaitWithDeadline(absl::Condition(&failed), begin + length);
    stop_.store(true);
  }
  for (auto& thread : threads) thread.join();
  std::printf("%ld calls, %ld refused; %s\n", static_cast<long>(calls_), static_cast<long>(refused_),
              durations.Text().c_str());
  std::printf("anonymous memory at most %ld MiB in the first third, %ld MiB later\n",
              static_cast<long>(settled_bytes_ >> 20), static_cast<long>(most_bytes_ >> 20));
  // Writers' items are all there, once, before and after a restart.
  const auto check = [&] {
    const auto count = engine_->Count("c", std::nullopt, {});
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(count->count, kept_.size());
    SearchCall call = SearchFor(std::vector<float>(kWide, 0.01f), 10'000, kGenerations);
    const std::vector<EngineHit> hits = Hits(call);
    std::set<uint64_t> found;
    for (const EngineHit& hit : hits) found.insert(std::get<uint64_t>(hit.id.value));
    EXPECT_EQ(found.size(), hits.size());
    EXPECT_EQ(found, std::set<uint64_t>(kept_.begin(), kept_.end()));
  };
  check();
  // What is measured in the first third of a long run is all that there will be.
  if (length >= absl::Minutes(1)) {
    EXPECT_LE(most_bytes_, settled_bytes_ + settled_bytes_ / 4) << "memory grows";
  }
  // A search that is being repeated pins what it reads.
  EXPECT_TRUE(static_cast<EngineImpl*>(engine_.get())->live_sampler().WaitIdle(absl::Now() + absl::Minutes(1)));
  ASSERT_TRUE(engine_->Rebuild("c", {}, true, "", {}).ok());
  // Merges, which a rebuild does not wait for, let go of what they replaced a moment after its files are gone.
  const absl::Time latest = absl::Now() + absl::Minutes(1);
  std::vector<std::string> gone;
  do {
    gone = FilesHeld(folder_.path() + "/index", /*gone=*/true);
  } while (!gone.empty() && absl::Now() < latest);
  EXPECT_THAT(gone, ::testing::IsEmpty()) << "files that are no more";
  EXPECT_FALSE(FilesHeld(folder_.path() + "/index", /*gone=*/false).empty()) << "this looks at the wrong folder";
  ASSERT_NO_FATAL_FAILURE(Restart());
  check();
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  EXPECT_THAT(FilesHeld(folder_.path() + "/index", /*gone=*/false), ::testing::IsEmpty());
}

}  // namespace
}  // namespace lightcone::server
