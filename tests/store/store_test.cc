// The Store contract over RocksDB on disk.
#include "store/store.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "absl/synchronization/barrier.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "store/keys.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Store> MustOpen(const std::string& folder) {
  StoreOptions options;
  options.memory_bytes = 16 << 20;
  auto store = OpenStore(folder, options);
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return store.ok() ? std::move(*store) : nullptr;
}

absl::Status PutOne(Store* store, Table table, const std::string& key, const std::string& value,
                    Durability durability = Durability::kProcess) {
  WriteBatch batch;
  batch.Put(table, key, value);
  return store->Write(batch, durability);
}

std::vector<std::string> KeysOf(const Store& store, Table table, std::string_view begin, std::string_view end) {
  std::vector<std::string> out;
  auto rows = store.Scan(table, begin, end);
  for (; rows->Valid(); rows->Next()) out.emplace_back(rows->key());
  EXPECT_TRUE(rows->status().ok()) << rows->status().ToString();
  return out;
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    store_ = MustOpen(folder_ / "store");
    ASSERT_NE(store_, nullptr);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, KeepsEveryTableApartAndAcrossAReopen) {
  WriteBatch batch;
  for (int t = 1; t < kTableCount; ++t) batch.Put(static_cast<Table>(t), "same key", StrCat("value ", t));
  batch.Put(Table::kInputs, "large", std::string(1 << 20, 'x'));
  batch.Put(Table::kOrder, "empty", "");
  ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  for (int round = 0; round < 2; ++round) {
    for (int t = 1; t < kTableCount; ++t) {
      EXPECT_EQ(*store_->Get(static_cast<Table>(t), "same key"), StrCat("value ", t));
    }
    EXPECT_EQ(*store_->Get(Table::kInputs, "large"), std::string(1 << 20, 'x'));
    EXPECT_EQ(*store_->Get(Table::kOrder, "empty"), "");
    Reopen();
  }
}

TEST_F(StoreTest, GetNamesTheMissingKeyAndMultiGetItsPlace) {
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "b", "2").ok());
  const auto missing = store_->Get(Table::kItems, "a");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(missing.status()), HasSubstr("table 'items' key 'a'"));
  const std::vector<std::string> keys = {"b", "a", "b"};
  const auto found = store_->MultiGet(Table::kItems, keys);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(*found[0], "2");
  EXPECT_EQ(found[1].status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*found[2], "2");
  EXPECT_TRUE(store_->MultiGet(Table::kItems, {}).empty());
}

TEST_F(StoreTest, ScansRunInByteOrderOverASnapshot) {
  for (const char* key : {"c", "a", "b", "d"}) ASSERT_TRUE(PutOne(store_.get(), Table::kJobs, key, key).ok());
  auto rows = store_->Scan(Table::kJobs, "b", "d");
  ASSERT_TRUE(PutOne(store_.get(), Table::kJobs, "bb", "late").ok());
  WriteBatch gone;
  gone.Delete(Table::kJobs, "c");
  ASSERT_TRUE(store_->Write(gone, Durability::kProcess).ok());
  std::vector<std::string> seen;
  for (; rows->Valid(); rows->Next()) {
    EXPECT_EQ(rows->key(), rows->value());
    seen.emplace_back(rows->key());
  }
  EXPECT_TRUE(rows->status().ok());
  EXPECT_THAT(seen, ElementsAre("b", "c"));
  EXPECT_THAT(KeysOf(*store_, Table::kJobs, "", ""), ElementsAre("a", "b", "bb", "d"));
}

// Every scan goes through prefix filters or around them, by its bounds; neither way may lose a key.
TEST_F(StoreTest, ScansOfRandomRangesAgreeWithAnOrderedMap) {
  std::mt19937 random(3);
  std::map<std::string, std::string> truth;
  const auto key = [&random] { return keys::Embedding(random() % 4, random() % 3, random() % 50); };
  for (int round = 0; round < 4; ++round) {
    WriteBatch batch;
    for (int i = 0; i < 200; ++i) {
      const std::string k = key();
      if (random() % 4 == 0) {
        batch.Delete(Table::kEmbeddings, k);
        truth.erase(k);
      } else {
        batch.Put(Table::kEmbeddings, k, k);
        truth[k] = k;
      }
    }
    ASSERT_TRUE(store_->Write(batch, Durability::kProcess).ok());
    if (round == 1) {
      const std::string begin = key(), end = begin + "\xff";
      ASSERT_TRUE(store_->DeleteRange(Table::kEmbeddings, begin, end).ok());
      truth.erase(truth.lower_bound(begin), truth.lower_bound(end));
    }
    Reopen();  // Moves memtables to files, with their filters.
    for (int i = 0; i < 300; ++i) {
      std::string begin = key().substr(0, random() % 17), end = key().substr(0, random() % 17);
      if (i % 3 == 0) {
        const keys::Range range = keys::CollectionRange(random() % 5);
        begin = range.begin;
        end = range.end;
      }
      if (!end.empty() && begin > end) std::swap(begin, end);
      std::vector<std::string> expected;
      for (auto it = truth.lower_bound(begin); it != truth.end() && (end.empty() || it->first < end); ++it) {
        expected.push_back(it->first);
      }
      ASSERT_EQ(KeysOf(*store_, Table::kEmbeddings, begin, end), expected);
    }
  }
}

TEST_F(StoreTest, AFailedExpectationLeavesNothingOfTheBatch) {
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "head", "1").ok());
  const auto write = [this](std::optional<std::string> expected, const std::string& key) {
    WriteBatch batch;
    batch.Expect(Table::kItems, key, std::move(expected));
    batch.Put(Table::kItems, "head", "2");
    batch.Put(Table::kJobs, "new", "x");
    return store_->Write(batch, Durability::kDurable);
  };
  const absl::Status other = write("7", "head");
  EXPECT_EQ(other.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(MessageOf(other), HasSubstr("table 'items' key 'head' has another value"));
  EXPECT_THAT(MessageOf(write(std::nullopt, "head")), HasSubstr("exists; the batch expects that it does not"));
  EXPECT_THAT(MessageOf(write("", "none")), HasSubstr("does not exist; the batch expects a value"));
  EXPECT_EQ(*store_->Get(Table::kItems, "head"), "1");
  EXPECT_FALSE(store_->Get(Table::kJobs, "new").ok());
  EXPECT_TRUE(write("1", "head").ok());
  EXPECT_EQ(*store_->Get(Table::kItems, "head"), "2");
  WriteBatch question;
  question.Expect(Table::kItems, "head", "2");
  EXPECT_TRUE(store_->Write(question, Durability::kDurable).ok());
  EXPECT_TRUE(store_->Write(WriteBatch(), Durability::kDurable).ok());
}

TEST_F(StoreTest, ExactlyOneOfManyRacersWinsEveryRound) {
  constexpr int kThreads = 8, kRounds = 50;
  std::vector<std::atomic<int>> winners(kRounds);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        WriteBatch batch;
        batch.Expect(Table::kMeta, StrCat("round ", round), std::nullopt);
        batch.Put(Table::kMeta, StrCat("round ", round), StrCat(t));
        const absl::Status written = store_->Write(batch, Durability::kDurable);
        if (written.ok()) ++winners[round];
        EXPECT_TRUE(written.ok() || absl::IsAborted(written)) << written.ToString();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int round = 0; round < kRounds; ++round) EXPECT_EQ(winners[round], 1) << round;
}

// A counter that every writer raises through compare-and-set, beside writers that put without conditions: no increment
// gets lost.
TEST_F(StoreTest, ConditionalWritesLoseNoUpdate) {
  constexpr int kThreads = 4, kIncrements = 100;
  ASSERT_TRUE(PutOne(store_.get(), Table::kMeta, "counter", "0").ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int done = 0; done < kIncrements;) {
        const std::string now = *store_->Get(Table::kMeta, "counter");
        WriteBatch batch;
        batch.Expect(Table::kMeta, "counter", now);
        batch.Put(Table::kMeta, "counter", StrCat(std::stoi(now) + 1));
        if (store_->Write(batch, Durability::kProcess).ok()) ++done;
        EXPECT_TRUE(PutOne(store_.get(), Table::kJobs, StrCat(t), now).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*store_->Get(Table::kMeta, "counter"), StrCat(kThreads * kIncrements));
}

TEST_F(StoreTest, ConcurrentDurableWritersShareSyncs) {
  constexpr int kThreads = 16, kWrites = 50;
  const StoreStats before = store_->Stats();
  absl::Barrier* start = new absl::Barrier(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      if (start->Block()) delete start;
      for (int i = 0; i < kWrites; ++i) {
        EXPECT_TRUE(PutOne(store_.get(), Table::kItems, StrCat(t, "/", i), "v", Durability::kDurable).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const StoreStats after = store_->Stats();
  EXPECT_EQ(after.writes_total - before.writes_total, uint64_t{kThreads * kWrites});
  EXPECT_LT(after.syncs_total - before.syncs_total, after.writes_total - before.writes_total);
  EXPECT_GT(after.syncs_total, before.syncs_total);
  RecordProperty("syncs", static_cast<int>(after.syncs_total - before.syncs_total));
}

TEST_F(StoreTest, ProcessWritesDoNotSync) {
  const uint64_t before = store_->Stats().syncs_total;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(PutOne(store_.get(), Table::kItems, StrCat(i), "v").ok());
  EXPECT_EQ(store_->Stats().syncs_total, before);
}

// Items have whole-key filters and readers that look into the memtable first: neither may see past a range tombstone.
TEST_F(StoreTest, PointReadsSeeARemovedRangeWhereverItsRowsLie) {
  const auto read = [&](const std::string& key) {
    const auto one = store_->Get(Table::kItems, key);
    const auto many = store_->MultiGet(Table::kItems, std::vector<std::string>{key, "other"});
    EXPECT_EQ(one.status().code(), many[0].status().code()) << key;
    EXPECT_TRUE(many[1].ok()) << "outside of the range";
    return one.ok() ? *one : std::string(absl::StatusCodeToString(one.status().code()));
  };
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "other", "kept").ok());
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "b/in a file", "1").ok());
  Reopen();  // what was written lies in the log or in a file now
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "b/in memory", "2").ok());
  ASSERT_TRUE(store_->DeleteRange(Table::kItems, "b/", "b0").ok());
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "b/written again", "3").ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(read("b/in a file"), "NOT_FOUND") << round;
    EXPECT_EQ(read("b/in memory"), "NOT_FOUND") << round;
    EXPECT_EQ(read("b/written again"), "3") << round;
    EXPECT_THAT(KeysOf(*store_, Table::kItems, "b/", "b0"), ElementsAre("b/written again")) << round;
    Reopen();
  }
}

TEST_F(StoreTest, TheSpaceOfARemovedRangeComesBackThoughNothingElseIsWritten) {
  const std::vector<Table> tables = {Table::kItems, Table::kEmbeddings, Table::kOrder, Table::kInputs};
  constexpr int kRows = 200;
  constexpr uint64_t kRowBytes = 8'000;
  std::mt19937 random(5);
  const auto write = [&](std::string_view prefix, int rows) {
    for (const Table table : tables) {
      WriteBatch batch;
      for (int i = 0; i < rows; ++i) {
        std::string value(kRowBytes, '\0');
        for (char& byte : value) byte = static_cast<char>(random());
        batch.Put(table, StrCat(prefix, i), value);
      }
      ASSERT_TRUE(store_->Write(batch, Durability::kProcess).ok());
    }
    Reopen();  // The rows lie in files now.
  };
  write("kept/", 10);
  write("gone/", kRows);
  const auto bytes = [this] {
    uint64_t sum = 0;
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder_ / "store", error), end; !error && it != end;
         it.increment(error)) {
      const std::filesystem::path extension = it->path().extension();
      std::error_code gone;
      const uint64_t size = extension == ".sst" || extension == ".blob" ? it->file_size(gone) : 0;
      if (!gone) sum += size;
    }
    return sum;
  };
  ASSERT_GT(bytes(), tables.size() * kRows * kRowBytes);
  for (const Table table : tables) ASSERT_TRUE(store_->DeleteRange(table, "gone/", "gone0").ok());
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (bytes() > kRows * kRowBytes && absl::Now() < limit) std::this_thread::yield();
  EXPECT_LT(bytes(), kRows * kRowBytes) << "each table had more";
  for (const Table table : tables) EXPECT_EQ(KeysOf(*store_, table, "", "").size(), 10u) << TableName(table);
}

TEST_F(StoreTest, DeleteRangeRemovesExactlyItsRange) {
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_TRUE(PutOne(store_.get(), Table::kJobs, key, key).ok());
  ASSERT_TRUE(store_->DeleteRange(Table::kJobs, "b", "c").ok());
  EXPECT_THAT(KeysOf(*store_, Table::kJobs, "", ""), ElementsAre("a", "c", "d"));
  ASSERT_TRUE(store_->DeleteRange(Table::kJobs, "e", "").ok());
  ASSERT_TRUE(store_->DeleteRange(Table::kJobs, "a", "a").ok());
  EXPECT_THAT(KeysOf(*store_, Table::kJobs, "", ""), ElementsAre("a", "c", "d"));
  ASSERT_TRUE(store_->DeleteRange(Table::kJobs, "c", "").ok());
  EXPECT_THAT(KeysOf(*store_, Table::kJobs, "", ""), ElementsAre("a"));
  const absl::Status turned = store_->DeleteRange(Table::kJobs, "z", "a");
  EXPECT_EQ(turned.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(turned), HasSubstr("field 'begin' is 'z'"));
  Reopen();
  EXPECT_THAT(KeysOf(*store_, Table::kJobs, "", ""), ElementsAre("a"));
}

TEST_F(StoreTest, ACheckpointOpensAndEqualsTheStoreAtItsTime) {
  for (int i = 0; i < 500; ++i) {
    WriteBatch batch;
    batch.Put(Table::kItems, StrCat("k", i), std::string(100, 'v'));
    batch.Put(Table::kInputs, StrCat("k", i), std::string(5000, 'i'));
    ASSERT_TRUE(store_->Write(batch, Durability::kProcess).ok());
  }
  const std::string copy = folder_ / "copy";
  const absl::Status made = store_->Checkpoint(copy);
  ASSERT_TRUE(made.ok()) << made.ToString();
  ASSERT_TRUE(PutOne(store_.get(), Table::kItems, "later", "x").ok());
  const absl::Status again = store_->Checkpoint(copy);
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(again), HasSubstr(copy));

  auto opened = MustOpen(copy);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->Get(Table::kItems, "later").status().code(), absl::StatusCode::kNotFound);
  for (const Table table : {Table::kMeta, Table::kInputs}) {
    EXPECT_EQ(KeysOf(*opened, table, "", ""), KeysOf(*store_, table, "", ""));
  }
  EXPECT_EQ(KeysOf(*opened, Table::kItems, "", "").size(), 500u);
  EXPECT_EQ(*opened->Get(Table::kInputs, "k499"), std::string(5000, 'i'));
}

TEST_F(StoreTest, StatsCountBytesAndKeys) {
  ASSERT_TRUE(PutOne(store_.get(), Table::kInputs, "k", std::string(1 << 20, 'x'), Durability::kDurable).ok());
  const StoreStats stats = store_->Stats();
  EXPECT_GE(stats.disk_bytes, uint64_t{1} << 20);
  EXPECT_GT(stats.memtable_bytes, 0u);
  EXPECT_EQ(stats.stalled, 0u);
  EXPECT_GE(stats.estimated_keys, 1u);
}

TEST(StoreOptions, OutOfRangeNamesFieldAndRange) {
  StoreOptions options;
  EXPECT_TRUE(options.Validate().ok());
  options.memory_bytes = 1;
  EXPECT_THAT(MessageOf(options.Validate()), HasSubstr("field 'store.memory_bytes' is 1; allowed: 16777216 .. "));
  options = {};
  options.background_threads = 0;
  TemporaryFolder folder;
  const auto store = OpenStore(folder / "s", options);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(store.status()), HasSubstr("field 'store.background_threads' is 0; allowed: 1 .. 64"));
}

}  // namespace
}  // namespace lightcone
