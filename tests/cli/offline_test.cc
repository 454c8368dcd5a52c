// What `lightcone` does without a server: version, help, completion, training, evaluation, wrong configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;

class Offline : public testing::Test {
 protected:
  Outcome Run(const std::vector<std::string>& words) { return RunHere(scratch_, words); }
  TemporaryFolder scratch_;
};

TEST_F(Offline, TheProgramItselfIsTheSameCommandLine) {
  const Outcome own = RunBinary(scratch_, {"version"});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(own.out, Run({"version"}).out);
}

TEST_F(Offline, VersionIsTold) {
  EXPECT_THAT(Run({"version"}).out, testing::StartsWith("lightcone "));
  EXPECT_EQ(Run({"version", "--json"}).json()["wire"], "lightcone.v1");
}

TEST_F(Offline, HelpNamesEverySubcommandAndTheExitCodes) {
  const Outcome help = Run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* name : {"serve", "train", "eval", "collection", "generation", "upsert", "search", "get", "delete",
                           "scroll", "count", "import", "export", "status", "version", "completion"}) {
    EXPECT_THAT(help.out, HasSubstr(StrCat("\n  ", name, " "))) << name;
  }
  EXPECT_THAT(help.out, HasSubstr("Exit codes"));
  EXPECT_EQ(Run({"import", "--help"}).exit_code, 0);
  EXPECT_EQ(Run({}).exit_code, 2) << "a subcommand is needed";
}

TEST_F(Offline, NoServerIsToldWithWhatToDo) {
  const Outcome outcome = Run({"status", "--server", "127.0.0.1:1", "--timeout", "1"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("lightcone serve"));
  EXPECT_EQ(Run({"status", "--server", "nonsense"}).exit_code, 2);
}

TEST_F(Offline, CompletionScriptsAreTakenByTheirShells) {
  const Outcome bash = Run({"completion", "bash"});
  ASSERT_EQ(bash.exit_code, 0);
  ASSERT_TRUE(WriteFileAtomically(scratch_ / "complete.bash",
                                  bash.out + "COMP_WORDS=(lightcone collection cre); COMP_CWORD=2; _lightcone\n"
                                             "echo \"${COMPREPLY[@]}\"\n"
                                             "COMP_WORDS=(lightcone import --payl); COMP_CWORD=2; _lightcone\n"
                                             "echo \"${COMPREPLY[@]}\"\n"
                                             "COMP_WORDS=(lightcone sea); COMP_CWORD=1; _lightcone\n"
                                             "echo \"${COMPREPLY[@]}\"\n")
                  .ok());
  const std::string command = "bash " + scratch_ / "complete.bash" + " > " + (scratch_ / "words");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadFile(scratch_ / "words").value(), "create\n--payload-fields\nsearch\n");
  EXPECT_THAT(Run({"completion", "zsh"}).out, HasSubstr("#compdef lightcone"));
  EXPECT_THAT(Run({"completion", "fish"}).out, HasSubstr("complete -c lightcone"));
  EXPECT_EQ(Run({"completion", "csh"}).exit_code, 2);
}

TEST_F(Offline, ServePrintsItsConfigurationAndRefusesWhatIsWrong) {
  const Outcome printed = Run({"serve", "--print-config", "--data", scratch_ / "d"});
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("listen"));
  ASSERT_TRUE(WriteFileAtomically(scratch_ / "c.toml", "lissten = \"127.0.0.1:0\"\n").ok());
  const Outcome unknown = Run({"serve", "--config", scratch_ / "c.toml"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("lissten"));
  EXPECT_THAT(unknown.err, HasSubstr("listen"));
  EXPECT_EQ(Run({"serve", "--config", scratch_ / "none.toml"}).exit_code, 3);
}

TEST_F(Offline, ServeRefusesAFolderThatIsNotOurs) {
  std::filesystem::create_directory(scratch_ / "home");
  ASSERT_TRUE(WriteFileAtomically(scratch_ / "home/letter.txt", "dear").ok());
  const Outcome outcome = RunBinary(
      scratch_, {"serve", "--data", scratch_ / "home", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"});
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(scratch_ / "home"));
  EXPECT_THAT(outcome.err, HasSubstr("letter.txt"));
  EXPECT_EQ(ReadFile(scratch_ / "home/letter.txt").value(), "dear");
}

TEST_F(Offline, TrainListsWhatThereIs) {
  const Outcome list = Run({"train", "--list"});
  EXPECT_EQ(list.exit_code, 0);
  for (const char* word : {"independent", "hbct", "glyphs", "quick", "small-cnn", "hbct.tau"}) {
    EXPECT_THAT(list.out, HasSubstr(word));
  }
  EXPECT_GE(Run({"train", "--list", "--json"}).json()["methods"].size(), 2u);
}

TEST_F(Offline, TrainRefusesWhatIsWrong) {
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "train");
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  const std::string out = scratch_ / "m";
  EXPECT_THAT(error({"--data", "glyphs"}), HasSubstr("--out"));
  EXPECT_THAT(error({"--out", out, "--data", "pictures"}), HasSubstr("pictures"));
  EXPECT_THAT(error({"--out", out, "--method", "magic"}), HasSubstr("independent, hbct"));
  EXPECT_THAT(error({"--out", out, "--method", "hbct"}), HasSubstr("--old"));
  EXPECT_THAT(error({"--out", out, "--set", "epochs"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(error({"--out", out, "--set", "epochz=1"}), HasSubstr("epochz"));
  EXPECT_THAT(error({"--out", out, "--set", "epochs=0"}), HasSubstr("epochs"));
  EXPECT_THAT(error({"--out", out, "--classes", "1"}), HasSubstr("--classes"));
  EXPECT_THAT(error({"--out", out, "--fraction", "0"}), HasSubstr("--fraction"));
  EXPECT_THAT(error({"--out", out, "--recipe", "slow"}), HasSubstr("slow"));
}

TEST_F(Offline, EvalNeedsAModel) {
  EXPECT_EQ(Run({"eval", "--query", scratch_ / "none"}).exit_code, 3);
  EXPECT_EQ(Run({"eval"}).exit_code, 2);
  EXPECT_EQ(Run({"eval", "--query", scratch_ / "none", "--split", "all"}).exit_code, 2);
}

}  // namespace
}  // namespace lightcone::cli
