// Kill and verify: a child process writes batches and reports each acknowledgement through a pipe; it is killed with
// SIGKILL again and again, and after each kill the store must hold every acknowledged batch, and no batch in part.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/status.h"
#include "store/keys.h"
#include "store/store.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

constexpr int kWriters = 4;
constexpr uint64_t kKept = 32;  // A batch removes the rows of the batch so many before it.
constexpr int kKills = 12;

struct Acknowledgement {
  uint32_t writer = 0;
  uint32_t unused = 0;
  uint64_t batch = 0;
};

StoreOptions SmallOptions() {
  StoreOptions options;
  options.memory_bytes = 16 << 20;  // Small, so that flushes and compactions fall into the kills, too.
  return options;
}

std::string HeadKey(int writer) { return StrCat("head ", writer); }
std::string RowKey(int writer, uint64_t batch) { return StrCat(writer, "/", batch); }
std::string RowValue(int writer, uint64_t batch) {
  std::string value = StrCat(writer, ":", batch, ":");
  value.resize(1000 + (batch * 37) % 9000, static_cast<char>('a' + batch % 26));
  return value;
}

uint64_t HeadOf(const Store& store, int writer) {
  const auto head = store.Get(Table::kMeta, HeadKey(writer));
  return head.ok() ? std::strtoull(head->c_str(), nullptr, 10) : 0;
}

// Writes batches one behind the other until the process dies.
void WriteForever(Store* store, int writer, int pipe) {
  for (uint64_t batch = HeadOf(*store, writer) + 1;; ++batch) {
    WriteBatch write;
    write.Expect(Table::kMeta, HeadKey(writer),
                 batch == 1 ? std::nullopt : std::optional<std::string>(StrCat(batch - 1)));
    write.Put(Table::kMeta, HeadKey(writer), StrCat(batch));
    write.Put(Table::kItems, RowKey(writer, batch), RowValue(writer, batch));
    write.Put(Table::kInputs, RowKey(writer, batch), RowValue(writer, batch));
    if (batch > kKept) {
      write.Delete(Table::kItems, RowKey(writer, batch - kKept));
      write.Delete(Table::kInputs, RowKey(writer, batch - kKept));
    }
    if (!store->Write(write, batch % 2 == 0 ? Durability::kDurable : Durability::kProcess).ok()) _exit(3);
    const Acknowledgement done{static_cast<uint32_t>(writer), 0, batch};
    if (::write(pipe, &done, sizeof(done)) != sizeof(done)) _exit(4);
  }
}

int RunWriters(const char* folder, int pipe) {
  auto store = OpenStore(folder, SmallOptions());
  if (!store.ok()) return 2;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) writers.emplace_back(WriteForever, store->get(), w, pipe);
  for (std::thread& writer : writers) writer.join();
  return 0;
}

// Starts this program as a writer (a fork alone would inherit RocksDB's threads half), lets it acknowledge `count`
// batches, kills it, and reads what it had still acknowledged.
void WriteAndKill(const std::string& folder, int count, std::array<uint64_t, kWriters>* acknowledged) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string pipe = StrCat(ends[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ends[0]);
    ::execl("/proc/self/exe", "store_crash_test", "--writer", folder.c_str(), pipe.c_str(), nullptr);
    _exit(127);
  }
  ::close(ends[1]);
  Acknowledgement done;
  int seen = 0;
  while (::read(ends[0], &done, sizeof(done)) == sizeof(done)) {
    (*acknowledged)[done.writer] = std::max((*acknowledged)[done.writer], done.batch);
    if (++seen == count) ::kill(child, SIGKILL);
  }
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
  EXPECT_GE(seen, count);
}

void Verify(const Store& store, const std::array<uint64_t, kWriters>& acknowledged) {
  uint64_t rows_expected = 0;
  for (int w = 0; w < kWriters; ++w) {
    const uint64_t head = HeadOf(store, w);
    EXPECT_GE(head, acknowledged[w]) << "writer " << w << ": an acknowledged batch is lost";
    for (uint64_t batch = head >= kKept ? head - kKept + 1 : 1; batch <= head; ++batch) {
      for (const Table table : {Table::kItems, Table::kInputs}) {
        const auto row = store.Get(table, RowKey(w, batch));
        ASSERT_TRUE(row.ok()) << row.status().ToString();
        EXPECT_EQ(*row, RowValue(w, batch));
        ++rows_expected;
      }
    }
  }
  uint64_t rows = 0;
  for (const Table table : {Table::kItems, Table::kInputs}) {
    auto scan = store.Scan(table, "", "");
    for (; scan->Valid(); scan->Next()) ++rows;
    ASSERT_TRUE(scan->status().ok()) << scan->status().ToString();
  }
  EXPECT_EQ(rows, rows_expected) << "rows of a half-written batch, or deleted rows that are back";
}

TEST(StoreCrash, EveryAcknowledgedBatchSurvivesKillsAndNoneIsHalfThere) {
  TemporaryFolder folder;
  std::mt19937 random(11);
  std::array<uint64_t, kWriters> acknowledged{};
  for (int kill = 0; kill < kKills; ++kill) {
    ASSERT_NO_FATAL_FAILURE(WriteAndKill(folder / "store", 1 + static_cast<int>(random() % 1200), &acknowledged));
    auto store = OpenStore(folder / "store", SmallOptions());
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_NO_FATAL_FAILURE(Verify(**store, acknowledged));
  }
}

}  // namespace
}  // namespace lightcone

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--writer") return lightcone::RunWriters(argv[2], std::atoi(argv[3]));
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
