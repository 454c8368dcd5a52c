// The audit file: its lines, its rotation, who may read it, and a disk that is full.
#include "server/audit/audit_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server::audit {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

AuditRecord RecordOf(std::string_view method) {
  return {.time = absl::FromUnixSeconds(0),
          .caller = "ann",
          .method = method,
          .collection = "photos",
          .code = "OK",
          .request_id = "r\n1",
          .peer = "ipv4:10.0.0.7:5"};
}

class AuditFileTest : public testing::Test {
 protected:
  std::unique_ptr<AuditFile> Open(int64_t bytes_max = 1 << 20, int kept = 2) {
    auto file = AuditFile::Open({.path = path_, .bytes_max = bytes_max, .kept = kept, .log = [this](const auto& line) {
                                   logged_.push_back(line);
                                 }});
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }
  // Methods of the records of a file.
  std::vector<std::string> MethodsIn(const std::string& path) {
    std::vector<std::string> methods;
    std::istringstream text(ReadFile(path, 1 << 20).value_or(""));
    for (std::string line; std::getline(text, line);) {
      methods.push_back(json::parse(line, nullptr, false).value("method", "no record"));
    }
    return methods;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "audit.jsonl";
  std::vector<std::string> logged_;
};

TEST_F(AuditFileTest, ARecordIsOneLineThatItsOwnerAloneReads) {
  const auto file = Open();
  file->Write(RecordOf("Generations/Activate"));
  EXPECT_EQ(ReadFile(path_, 1 << 20).value(),
            "{\"time\":\"1970-01-01T00:00:00+00:00\",\"caller\":\"ann\",\"method\":\"Generations/Activate\","
            "\"collection\":\"photos\",\"code\":\"OK\",\"request_id\":\"r\\n1\",\"peer\":\"ipv4:10.0.0.7:5\"}\n");
  struct stat status = {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(file->figures().records_total, 1u);
}

TEST_F(AuditFileTest, ALongListIsCutAndSaysHowManyNamesItLeavesOut) {
  std::vector<std::string> names(3'000, "again");
  for (int i = 0; i < 1'025; ++i) names.push_back(StrCat("c", i));
  AuditRecord record = RecordOf("Snapshots/CreateSnapshot");
  record.source = "s";
  record.collections = names;
  Open()->Write(record);
  const json line = json::parse(ReadFile(path_, 1 << 20).value(), nullptr, false);
  EXPECT_EQ(line["source"], "s");
  ASSERT_EQ(line["collections"].size(), 1'024u);
  EXPECT_EQ(line["collections"][0], "again");
  EXPECT_EQ(line["collections"][1], "c0") << "a name that is repeated takes the place of no other one";
  EXPECT_EQ(line["collections_left_out"], 2);
}

TEST_F(AuditFileTest, AFileThatOthersReadIsRefused) {
  ASSERT_TRUE(WriteFileAtomically(path_, "").ok());
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_THAT(MessageOf(AuditFile::Open({.path = path_}).status()), HasSubstr(path_));
  EXPECT_THAT(MessageOf(AuditFile::Open({.path = folder_ / "none/audit"}).status()), HasSubstr("audit.file"));
}

TEST_F(AuditFileTest, AFullFileIsRenamedAndTheOldestGoes) {
  {
    const auto file = Open(/*bytes_max=*/1);
    for (const char* method : {"a", "b", "c", "d"}) file->Write(RecordOf(method));
  }
  EXPECT_THAT(MethodsIn(path_), ElementsAre("d"));
  EXPECT_THAT(MethodsIn(path_ + ".1"), ElementsAre("c"));
  EXPECT_THAT(MethodsIn(path_ + ".2"), ElementsAre("b"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".3"));
  Open()->Write(RecordOf("e"));
  EXPECT_THAT(MethodsIn(path_), ElementsAre("d", "e")) << "a file that is there goes on";
  Open(/*bytes_max=*/1, /*kept=*/0)->Write(RecordOf("f"));
  EXPECT_THAT(MethodsIn(path_), ElementsAre("f"));
}

TEST_F(AuditFileTest, AFullDiskStopsNoCallIsToldOnceAndSpoilsNoLine) {
  const auto file = Open();
  file->Write(RecordOf("before"));
  const auto size = std::filesystem::file_size(path_);
  {
    const FileSizeLimit full(size + 10);  // a part of a line has room
    for (int i = 0; i < 3; ++i) file->Write(RecordOf("lost"));
  }
  file->Write(RecordOf("after"));
  EXPECT_THAT(MethodsIn(path_), ElementsAre("before", "after"));
  EXPECT_EQ(file->figures().records_total, 5u);
  EXPECT_EQ(file->figures().failures_total, 3u);
  ASSERT_EQ(logged_.size(), 1u);
  EXPECT_THAT(logged_[0], HasSubstr(path_));
}

TEST_F(AuditFileTest, RecordsOfManyThreadsAreWholeLines) {
  const auto file = Open(/*bytes_max=*/2'000, /*kept=*/100);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) file->Write(RecordOf("call"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t records = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    for (const std::string& method : MethodsIn(entry.path())) records += method == "call";
  }
  EXPECT_EQ(records, 200u);
  EXPECT_TRUE(logged_.empty());
}

}  // namespace
}  // namespace lightcone::server::audit
