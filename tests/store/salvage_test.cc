// What is saved of a damaged store, and that the damaged one stays as it is.
#include "store/salvage.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "base/files.h"
#include "base/status.h"
#include "rocksdb/db.h"
#include "store/column_families.h"
#include "store/resilient_scan.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRows = 300;

class Salvage : public testing::Test {
 protected:
  // Three tables of rows with keys of 4 bytes, and a log.
  void SetUp() override {
    for (int part = 0; part < 3; ++part) {
      Open(folder_ / "store");  // what the log of the time before held is in tables now
      WriteBatch batch;
      for (int i = part * kRows / 3; i < (part + 1) * kRows / 3; ++i) batch.Put(Table::kJobs, KeyOf(i), ValueOf(i));
      ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
    }
    Open(folder_ / "store");
    WriteBatch batch;
    batch.Put(Table::kProbes, "late", "in the log");
    ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  }
  static std::string KeyOf(int i) {
    std::string key(4, '\0');
    key[2] = static_cast<char>(i / 256);
    key[3] = static_cast<char>(i % 256);
    return key;
  }
  static std::string ValueOf(int i) { return std::string(1'000, static_cast<char>('a' + i % 26)) + StrCat(i); }
  void Open(const std::string& folder) {
    store_.reset();
    StoreOptions options;
    options.memory_bytes = 16 << 20;
    options.reserve_bytes = 0;
    auto store = OpenStore(folder, options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(*store);
  }
  // The files with this extension from the largest on.
  std::vector<fs::path> Files(const std::string& extension) const {
    std::multimap<uintmax_t, fs::path, std::greater<>> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "store")) {
      if (entry.path().extension() == extension) found.emplace(entry.file_size(), entry.path());
    }
    std::vector<fs::path> paths;
    for (const auto& [size, path] : found) paths.push_back(path);
    return paths;
  }
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::directory_iterator(folder_ / "store")) {
      contents[entry.path().filename()] = ReadFile(entry.path()).value();
    }
    return contents;
  }
  SalvageReport Save() {
    store_.reset();
    const auto before = Contents();
    const auto report = SalvageStore(folder_ / "store", folder_ / "saved");
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(Contents(), before) << "the damaged store is only read";
    Open(folder_ / "saved");
    return report.ok() ? *report : SalvageReport();
  }
  int Saved() const {
    int saved = 0;
    for (int i = 0; i < kRows; ++i) {
      const auto value = store_->Get(Table::kJobs, KeyOf(i));
      if (value.ok()) {
        EXPECT_EQ(*value, ValueOf(i));
      }
      saved += value.ok();
    }
    return saved;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(Salvage, ALogWhoseRowsAreAllInTablesIsNoDamage) {
  ASSERT_TRUE(store_->Checkpoint(folder_ / "copy").ok());  // writes all rows to tables
  const SalvageReport report = Save();
  EXPECT_THAT(report.damage, IsEmpty());
}

TEST_F(Salvage, AWholeStoreIsSavedWhole) {
  const SalvageReport report = Save();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(Saved(), kRows);
  EXPECT_EQ(store_->Get(Table::kProbes, "late").value(), "in the log");
}

TEST_F(Salvage, AStoreInUseIsRefused) {
  const absl::Status refused = SalvageStore(folder_ / "store", folder_ / "saved").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(refused), HasSubstr("is in use"));
  EXPECT_FALSE(fs::exists(folder_ / "saved"));
}

TEST_F(Salvage, AMissingTableCostsItsOwnRowsAndIsNamed) {
  store_.reset();
  const fs::path lost = Files(".sst").front();
  fs::remove(lost);
  const SalvageReport report = Save();
  ASSERT_FALSE(report.damage.empty());
  EXPECT_THAT(report.damage.front(), HasSubstr(lost.filename().string()));
  EXPECT_THAT(report.damage.front(), HasSubstr("bytes of rows of table 'jobs'"));
  EXPECT_EQ(Saved(), kRows - 100);
  EXPECT_TRUE(store_->Get(Table::kProbes, "late").ok());
}

TEST_F(Salvage, AFlippedBitInATableCostsAFewRowsAtMost) {
  store_.reset();
  const fs::path path = Files(".sst").front();
  std::string bytes = ReadFile(path).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  const SalvageReport report = Save();
  EXPECT_FALSE(report.whole());
  EXPECT_FALSE(report.ranges.empty() && report.values.empty());
  EXPECT_GE(Saved(), kRows - 40);
  EXPECT_LT(Saved(), kRows);
}

TEST_F(Salvage, ADamagedBlockAtTheEndOfKeysWithOnePrefixIsPassedOverOnce) {
  constexpr int kAll = 512;
  WriteBatch batch;
  for (int i = 0; i < kAll; ++i) {  // 16 rows a block, so that one ends with key 255
    batch.Put(Table::kEmbeddings, KeyOf(i), StrCat("row-", i, "-", std::string(980, 'x')));
  }
  ASSERT_TRUE(store_->Write(batch, Durability::kDurable).ok());
  ASSERT_TRUE(store_->Checkpoint(folder_ / "copy").ok());  // writes all rows to tables
  store_.reset();
  for (const fs::path& path : Files(".sst")) {
    std::string bytes = ReadFile(path).value();
    const size_t at = bytes.find("row-240-");
    if (at == std::string::npos) continue;
    bytes.replace(at - 20, 20, std::string(20, '\xff'));  // lengths, key and envelope of the row
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  }
  rocksdb::DBOptions options = DatabaseOptions({}, nullptr);
  options.paranoid_checks = false;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::OpenForReadOnly(options, folder_ / "store", ColumnFamilies({}), &families, &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  std::vector<std::string> keys;
  {
    ResilientScan rows(db.get(), families[static_cast<size_t>(Table::kEmbeddings)]);
    for (; rows.Valid() && keys.size() <= kAll; rows.Next()) keys.emplace_back(rows.key());
    EXPECT_EQ(rows.gaps().size(), 1u);
  }
  for (rocksdb::ColumnFamilyHandle* family : families) (void)db->DestroyColumnFamilyHandle(family);
  EXPECT_TRUE(std::ranges::is_sorted(keys, std::less_equal<>())) << "no row comes twice";
  EXPECT_LT(keys.size(), static_cast<size_t>(kAll));
  EXPECT_GE(keys.size(), static_cast<size_t>(kAll - 32));
}

TEST_F(Salvage, ADamagedLogIsReadUpToTheDamage) {
  store_.reset();
  const fs::path path = Files(".log").front();
  std::string bytes = ReadFile(path).value();
  const size_t at = bytes.find("in the log");
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  const SalvageReport report = Save();
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_THAT(report.damage.front(), HasSubstr("were acknowledged as durable and are lost"));
  EXPECT_EQ(Saved(), kRows);
  EXPECT_FALSE(store_->Get(Table::kProbes, "late").ok());
}

TEST_F(Salvage, AManifestThatIsLostIsMadeAnew) {
  store_.reset();
  fs::remove(folder_ / "store/CURRENT");
  const auto refused = OpenStore(folder_ / "store");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("there is no file 'CURRENT'"));
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("lightcone repair"));
  const SalvageReport report = Save();
  ASSERT_FALSE(report.damage.empty());
  EXPECT_THAT(report.damage.front(), HasSubstr("the manifest of"));
  EXPECT_EQ(Saved(), kRows);
}

TEST_F(Salvage, AStartThatAcceptsDamageServesWhatIsThereAndNamesTheRest) {
  store_.reset();
  fs::remove(Files(".sst").front());
  StoreOptions options;
  options.reserve_bytes = 0;
  const absl::Status refused = OpenStore(folder_ / "store", options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
  EXPECT_THAT(MessageOf(refused), HasSubstr("--store-damage accept"));
  options.accept_damage = true;
  auto opened = OpenStore(folder_ / "store", options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->Get(Table::kProbes, "late").ok());
  int there = 0, lost = 0;
  for (int i = 0; i < kRows; ++i) {
    const absl::Status row = (*opened)->Get(Table::kJobs, KeyOf(i)).status();
    there += row.ok();
    lost += absl::IsDataLoss(row);
  }
  EXPECT_GE(lost, 100) << "a read that meets the file says so";
  EXPECT_EQ(there + lost, kRows);
}

}  // namespace
}  // namespace lightcone
