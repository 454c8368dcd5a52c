// `lightcone snapshot` against a real server in a process of its own: a snapshot of one collection, and its way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/served_test.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class SnapshotCommand : public ServedTest {
 protected:
  Outcome RunJson(std::vector<std::string> words) {
    words.push_back("--json");
    return Run(words);
  }
};

TEST_F(SnapshotCommand, OneCollectionIsSnapshotAndComesBackUnderAnotherName) {
  for (const char* const name : {"films", "songs"}) {
    ASSERT_EQ(Run({"collection", "create", name, "--geometry", "euclidean"}).exit_code, 0);
    ASSERT_EQ(Run({"generation", "register", name, "--dimension", "3", "--activate"}).exit_code, 0);
    ASSERT_EQ(Run({"upsert", name, "cat", "--vector", "1,0,0"}).exit_code, 0);
  }
  const Outcome made = RunJson({"snapshot", "create", "--collection", "films", "monday"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.json()["name"], "monday");
  ASSERT_THAT(made.json()["collections"], SizeIs(1));
  EXPECT_EQ(made.json()["collections"][0]["collection"], "films");
  const Outcome both = RunJson({"snapshot", "create", "tuesday", "--collection", "films", "--collection", "songs"});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  EXPECT_THAT(both.json()["collections"], SizeIs(2));
  EXPECT_EQ(Run({"snapshot", "create", "never", "--collection", "plays"}).exit_code, 3);

  const Outcome taken = Run({"snapshot", "restore", "monday", "films"});
  EXPECT_NE(taken.exit_code, 0);
  EXPECT_THAT(taken.err, HasSubstr("films"));
  const Outcome restored = RunJson({"snapshot", "restore", "monday", "films", "--as", "films-2"});
  ASSERT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_EQ(restored.json()["collection"], "films-2");
  EXPECT_EQ(restored.json()["items"], 1);
  EXPECT_EQ(restored.json()["active_generation"], 1);
  EXPECT_EQ(RunJson({"count", "films-2"}).json()["count"], 1);
  EXPECT_EQ(Run({"snapshot", "restore", "monday", "films", "--as", "films-3"}).out,
            "restored collection films of snapshot monday as films-3: 1 items\n");
  ASSERT_EQ(Run({"collection", "drop", "films", "--yes"}).exit_code, 0);
  EXPECT_EQ(Run({"snapshot", "restore", "monday", "films"}).out,
            "restored collection films of snapshot monday: 1 items\n");
  EXPECT_EQ(Run({"snapshot", "restore", "monday", "songs", "--as", "songs-2"}).exit_code, 3)
      << "the snapshot does not hold it";
}

}  // namespace
}  // namespace lightcone::cli
