// `lightcone experiment`: flags, outputs, exit codes. What it computes is tested in tests/trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_program.h"
#include "tests/trainer/experiment_testing.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;

class ExperimentCommand : public testing::Test {
 protected:
  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), "experiment");
    return RunHere(scratch_, words);
  }
  TemporaryFolder scratch_;
  TinyExperiment tiny_;
};

TEST_F(ExperimentCommand, SaysWhatItWouldTrainTrainsItAndUsesItAgain) {
  const std::vector<std::string> words = {
      tiny_.options.recipe, "--data", tiny_.options.data, "--out", scratch_ / "out", "--seeds", "5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Run(more);
  };
  const Outcome dry = with({"--dry-run", "--images-per-second", "500", "--json"});
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(dry.json()["models"].size(), 4u);
  EXPECT_EQ(dry.json()["models"][0]["cached"], false);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
  const Outcome first = with({"--json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.json()["trained"], 4);
  EXPECT_EQ(first.json()["table"]["seeds"], nlohmann::json::array({5}));
  const Outcome again = with({"--resume"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("| HBCT |"));
  EXPECT_THAT(again.out, HasSubstr("0 models trained, 4 were there"));
  EXPECT_THAT(with({"--dry-run"}).out, HasSubstr("0 of 4 models to train"));
}

TEST_F(ExperimentCommand, ListsTheRecipesThatItContains) {
  const Outcome list = Run({"--list"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("omniglot-cpu"));
  EXPECT_GE(Run({"--list", "--json"}).json().size(), 30u);
}

TEST_F(ExperimentCommand, RefusesWhatIsWrong) {
  EXPECT_EQ(Run({}).exit_code, 2);
  const Outcome unknown = Run({"omniglott"});
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("omniglot-cpu"));
  EXPECT_EQ(Run({tiny_.options.recipe, "--seeds", "a"}).exit_code, 2);
  const Outcome no_data = Run({tiny_.options.recipe, "--out", scratch_ / "out"});
  EXPECT_EQ(no_data.exit_code, 2);
  EXPECT_THAT(no_data.err, HasSubstr("--data"));
  tiny_.Change("method = \"hbct\"", "methods = \"hbct\"");
  const Outcome key = Run({tiny_.options.recipe, "--data", tiny_.options.data, "--out", scratch_ / "out"});
  EXPECT_EQ(key.exit_code, 2);
  EXPECT_THAT(key.err, HasSubstr("tiny.toml:"));
  EXPECT_THAT(key.err, HasSubstr("methods"));
  EXPECT_EQ(Run({tiny_.options.recipe, "--resume", "--out", scratch_ / "out"}).exit_code, 2)
      << "the recipe is wrong first";
}

}  // namespace
}  // namespace lightcone::cli
