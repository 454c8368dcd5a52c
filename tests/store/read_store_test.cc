// A store that is opened for reading: it answers like the store itself, and leaves its folder as it is.
#include "store/read_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/status.h"
#include "store/checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = ReadFile(entry.path().string()).value_or("unreadable");
  }
  return files;
}

class ReadStoreTest : public testing::Test {
 protected:
  // Rows of two tables, one of them with a value that lies in a file of large values.
  void SetUp() override {
    StoreOptions options;
    options.memory_bytes = 16 << 20;
    const auto store = OpenStore(folder_ / "live", options);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteBatch batch;
    batch.Put(Table::kItems, "aaaa1", "one");
    batch.Put(Table::kItems, "aaaa2", "two");
    batch.Put(Table::kItems, "bbbb1", "three");
    batch.Put(Table::kInputs, "aaaa1", large_);
    ASSERT_TRUE((*store)->Write(batch, Durability::kDurable).ok());
    ASSERT_TRUE((*store)->Checkpoint(copy_).ok());
    const auto opened = OpenCheckpoint(copy_, options);
    ASSERT_TRUE(opened.ok()) << opened.status();
  }

  TemporaryFolder folder_;
  const std::string copy_ = folder_ / "copy";
  const std::string large_ = std::string(20'000, 'x');
};

TEST_F(ReadStoreTest, AnswersAsTheStoreDoesAndLeavesEveryFileAsItIs) {
  const auto before = FilesIn(copy_);
  {
    const auto store = OpenStoreForReading(copy_);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->Get(Table::kItems, "aaaa2").value_or(""), "two");
    EXPECT_EQ((*store)->Get(Table::kInputs, "aaaa1").value_or(""), large_);
    EXPECT_TRUE(absl::IsNotFound((*store)->Get(Table::kItems, "cccc1").status()));
    std::string keys;
    const auto rows = (*store)->Scan(Table::kItems, "aaaa", "aaab");
    for (; rows->Valid(); rows->Next()) keys += StrCat(rows->key(), "=", rows->value(), " ");
    EXPECT_TRUE(rows->status().ok()) << rows->status();
    EXPECT_EQ(keys, "aaaa1=one aaaa2=two ");
    WriteBatch batch;
    batch.Put(Table::kItems, "aaaa3", "never");
    EXPECT_TRUE(absl::IsFailedPrecondition((*store)->Write(batch, Durability::kDurable)));
    EXPECT_TRUE(absl::IsFailedPrecondition((*store)->DeleteRange(Table::kItems, "a", "b")));
  }
  EXPECT_EQ(FilesIn(copy_), before);
}

TEST_F(ReadStoreTest, AFolderThatIsNoStoreIsRefusedAndStaysAsItIs) {
  EXPECT_TRUE(absl::IsDataLoss(OpenStoreForReading(folder_ / "none").status()));
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  fs::remove(copy_ + "/LIGHTCONE");
  const auto before = FilesIn(copy_);
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenStoreForReading(copy_).status()));
  EXPECT_EQ(FilesIn(copy_), before);
}

}  // namespace
}  // namespace lightcone
