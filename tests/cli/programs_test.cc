// `lightcone` runs the programs beside it for the subcommands that they hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

using testing::HasSubstr;

TEST(Programs, ASubcommandOfAnotherProgramAnswersAsIfItWereHere) {
  const TemporaryFolder scratch;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"train", "--list"},
                                             {"train", "--help"},
                                             {"backfill", "fit", "--help"},
                                             {"--json", "train", "--method", "nonsense", "--out", scratch / "model"},
                                             {"experiment", "--list"},
                                             {"completion", "bash"}}) {
    const Outcome here = RunHere(scratch, words), there = RunBinary(scratch, words);
    EXPECT_EQ(there.exit_code, here.exit_code) << words[0];
    EXPECT_EQ(there.out, here.out) << words[0];
    EXPECT_EQ(there.err, here.err) << words[0];
  }
}

TEST(Programs, AMissingProgramIsNamedWithThePlaceWhereItWasLookedFor) {
  const TemporaryFolder scratch;
  const std::string alone = scratch / "lightcone";
  std::filesystem::copy_file(Binary(), alone);
  const Outcome train = RunBinary(scratch, {"train", "--list"}, {}, absl::Seconds(120), alone);
  EXPECT_EQ(train.exit_code, 3);
  EXPECT_THAT(train.err, HasSubstr(scratch / "lightcone-model"));
  EXPECT_EQ(RunBinary(scratch, {"version"}, {}, absl::Seconds(120), alone).exit_code, 0);
}

}  // namespace
}  // namespace lightcone::cli
