// What `lightcone` does without a server: version, help, completion, training, evaluation, wrong configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/npy.h"
#include "models/adapter_file.h"
#include "tests/cli/run_program.h"
#include "tests/trainer/data_files.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;

class Offline : public testing::Test {
 protected:
  Outcome Run(const std::vector<std::string>& words) { return RunHere(scratch_, words); }

  // 48 images of 4 classes, to train and to test; gives their labels.
  static std::vector<int> WriteSet(const testing_data::Folder& data) {
    std::vector<int> labels;
    for (int i = 0; i < 48; ++i) labels.push_back(i % 4);
    for (const char* part : {"train", "t10k"}) {
      data.Write(StrCat(part, "-images-idx3-ubyte"), testing_data::IdxImages(48, 16, 16));
      data.Write(StrCat(part, "-labels-idx1-ubyte"), testing_data::IdxLabels(labels));
    }
    return labels;
  }

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
  for (const char* name :
       {"serve", "train", "eval", "embed", "experiment", "collection", "generation", "upsert", "search", "get",
        "delete", "scroll", "count", "import", "export", "status", "version", "completion"}) {
    EXPECT_THAT(help.out, HasSubstr(StrCat("\n  ", name, " "))) << name;
  }
  EXPECT_THAT(help.out, HasSubstr("Exit codes"));
  EXPECT_THAT(help.out, testing::Not(HasSubstr("embed-worker"))) << "it is for servers";
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
  EXPECT_THAT(Run({"completion", "fish"}).out, testing::Not(HasSubstr("embed-worker")));
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
  EXPECT_THAT(outcome.err, HasSubstr("give an empty folder"));
  EXPECT_EQ(ReadFile(scratch_ / "home/letter.txt").value(), "dear");
}

TEST_F(Offline, TrainListsWhatThereIs) {
  const Outcome list = Run({"train", "--list"});
  EXPECT_EQ(list.exit_code, 0);
  for (const char* word : {"independent", "hbct", "glyphs", "quick", "small-cnn", "hbct.tau"}) {
    EXPECT_THAT(list.out, HasSubstr(word));
  }
  const auto methods = Run({"train", "--list", "--json"}).json()["methods"];
  EXPECT_GE(methods.size(), 2u);
  EXPECT_EQ(methods.back()["name"], "lightcone");
  EXPECT_EQ(methods.back()["defaults"]["hbct.lambda_until"], "0.5");
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

TEST_F(Offline, AModelIsTrainedASecondOneCompatiblyAndBothAreEvaluatedOnEachOther) {
  const testing_data::Folder data;
  const std::vector<int> labels = WriteSet(data);
  const std::string set = "idx:" + data.path(), old_model = scratch_ / "old", new_model = scratch_ / "new";
  const auto train = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"train", "--data", set, "--json", "--set", "encoder.architecture=mlp", "--set", "encoder.width=0.25",
                  "--set", "epochs=2", "--set", "batch=8", "--set", "encoder.dimension=16"});
    return Run(words);
  };
  const Outcome first = train({"--out", old_model, "--classes", "2"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.json()["steps"], 6) << "24 images in batches of 8, twice";
  EXPECT_EQ(first.json()["manifest"]["name"], "old");
  const Outcome again = train({"--out", old_model, "--classes", "2"});
  EXPECT_EQ(again.json()["resumed_at"], 6) << again.err;
  const Outcome second = train({"--out", new_model, "--method", "hbct", "--old", old_model});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.json()["manifest"]["method"], "hbct");

  const Outcome figures = Run({"eval", "--data", set, "--query", new_model, "--gallery", old_model, "--json"});
  ASSERT_EQ(figures.exit_code, 0) << figures.err;
  EXPECT_EQ(figures.json()["queries"], 48);
  EXPECT_GT(figures.json()["map"], 0.0);
  EXPECT_LE(figures.json()["cmc1"], figures.json()["cmc5"]);
  EXPECT_THAT(Run({"eval", "--data", set, "--query", new_model}).out, HasSubstr("CMC@1"));

  const Outcome embedded = Run({"embed", "--data", set, "--model", old_model, "--split", "train", "--out",
                                scratch_ / "z.npy", "--labels-out", scratch_ / "labels.npy"});
  ASSERT_EQ(embedded.exit_code, 0) << embedded.err;
  EXPECT_THAT(embedded.out, HasSubstr("48 embeddings before the clip, of dimension 16, by 'old'"));
  EXPECT_THAT(ReadNpy(scratch_ / "z.npy").value().shape, testing::ElementsAre(48, 16));
  EXPECT_EQ(NpyIntegers(ReadNpy(scratch_ / "labels.npy").value(), "labels").value(),
            std::vector<int64_t>(labels.begin(), labels.end()));
}

TEST_F(Offline, AServerBackfillsInTheOrderOfAFailureHead) {
  const testing_data::Folder data;
  WriteSet(data);
  const std::string set = "idx:" + data.path();
  const std::string old_model = scratch_ / "old", new_model = scratch_ / "new", head = scratch_ / "failure.head";
  for (const std::string& model : {old_model, new_model}) {
    std::vector<std::string> words = {"train", "--data", set, "--out", model, "--json",
                                      "--set", "encoder.architecture=mlp", "--set", "encoder.width=0.25", "--set",
                                      "encoder.dimension=16", "--set", "epochs=1", "--set", "batch=8"};
    if (model == new_model) words.insert(words.end(), {"--method", "hbct", "--old", old_model});
    const Outcome trained = Run(words);
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  const std::vector<std::string> fit = {"backfill", "fit", "--data", set, "--old-model", old_model, "--new-model",
                                        new_model,  "--json"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(Run(with(fit, {"--out", head, "--items", "99"})).err, HasSubstr("'items' is 99; allowed: 0 .. 48"));
  const Outcome fitted = Run(with(fit, {"--out", head}));
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_EQ(fitted.json()["images"], 48);
  EXPECT_EQ(fitted.json()["from"], "old");
  EXPECT_GT(fitted.json()["wrong"], 0);

  const std::vector<std::string> eval = {"eval", "--data", set, "--served", "--query", new_model, "--gallery", old_model,
                                         "--json"};
  const Outcome own = Run({"eval", "--data", set, "--query", new_model, "--json"});
  for (const std::string& order : {head, std::string("neighbourhood")}) {
    const Outcome served = RunBinary(scratch_, with(eval, {"--order", order, "--backfilled", "0,0.5,1"}));
    ASSERT_EQ(served.exit_code, 0) << served.err;
    ASSERT_EQ(served.json()["points"].size(), 3u);
    EXPECT_NEAR(served.json()["points"][2]["map"], own.json()["map"], 1e-6) << "all of it embedded anew";
    EXPECT_GT(served.json()["order_auroc"], 0.0);
    EXPECT_LE(served.json()["order_auroc"], 1.0);
  }
  EXPECT_EQ(RunBinary(scratch_, with(eval, {"--order", scratch_ / "none"})).exit_code, 3);
  EXPECT_THAT(Run({"eval", "--data", set, "--served", "--query", old_model, "--order", head}).err,
              HasSubstr("'--order'"));
  EXPECT_THAT(Run({"eval", "--data", set, "--query", new_model, "--order", head}).err, HasSubstr("only with --served"));
}

TEST_F(Offline, AChainOfModelsIsSearchedThroughOneServer) {
  const testing_data::Folder data;
  WriteSet(data);
  const std::string set = "idx:" + data.path();
  const std::vector<std::string> models = {scratch_ / "a", scratch_ / "b", scratch_ / "c"};
  const std::vector<std::string> methods = {"independent", "hbct", "lightcone"};
  for (size_t i = 0; i < models.size(); ++i) {
    std::vector<std::string> words = {"train", "--data", set, "--out", models[i], "--method", methods[i], "--json",
                                      "--set", "encoder.architecture=mlp", "--set", "encoder.width=0.25", "--set",
                                      "encoder.dimension=16", "--set", "epochs=1", "--set", "batch=8"};
    if (i > 0) words.insert(words.end(), {"--old", models[i - 1]});
    const Outcome trained = Run(words);
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_FALSE(trained.json()["manifest"]["through_adapter"]);
    if (methods[i] == "lightcone") {
      EXPECT_EQ(ReadAdapter(trained.json()["adapter"])->from, "b");
    }
  }
  const std::string chain = models[0] + "," + models[1] + "," + models[2];
  const Outcome served = RunBinary(scratch_, {"eval", "--data", set, "--served", "--chain", chain, "--json"});
  ASSERT_EQ(served.exit_code, 0) << served.err;
  ASSERT_EQ(served.json()["cells"].size(), 6u);
  for (const auto& cell : served.json()["cells"]) {
    const std::string query = models[cell["query"].get<size_t>()], gallery = models[cell["gallery"].get<size_t>()];
    const Outcome offline = Run({"eval", "--data", set, "--query", query, "--gallery", gallery, "--json"});
    EXPECT_NEAR(cell["map"], offline.json()["map"], 1e-6) << query << " on " << gallery;
    EXPECT_NEAR(cell["cmc1"], offline.json()["cmc1"], 1e-6) << query << " on " << gallery;
  }
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", "--data", set});
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_THAT(refusal({"--served", "--chain", models[0] + "," + models[2]}), HasSubstr("trained against 'a'"));
  EXPECT_THAT(refusal({"--served", "--chain", models[0]}), HasSubstr("two or more"));
  EXPECT_THAT(refusal({"--served", "--chain", chain, "--gallery", models[0]}), HasSubstr("not with --chain"));
  EXPECT_THAT(refusal({"--served", "--chain", chain, "--query", models[0]}), HasSubstr("together with --chain"));
  EXPECT_THAT(refusal({"--chain", chain}), HasSubstr("only with --served"));
  EXPECT_THAT(refusal({}), HasSubstr("'--query' is absent"));
}

TEST_F(Offline, AModelOfMethodLightconeComesWithItsAdapter) {
  const testing_data::Folder data;
  WriteSet(data);
  const std::string old_model = scratch_ / "old", new_model = scratch_ / "new";
  const auto train = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--data", "idx:" + data.path(), "--set", "encoder.architecture=mlp", "--set",
                                 "encoder.width=0.25", "--set", "epochs=1", "--set", "batch=8"});
    return Run(words);
  };
  ASSERT_EQ(train({"--out", old_model, "--set", "encoder.dimension=12"}).exit_code, 0);
  const std::vector<std::string> command = {"--out",    new_model,
                                            "--method", "lightcone",
                                            "--old",    old_model,
                                            "--set",    "encoder.dimension=16",
                                            "--set",    "lightcone.compatible=none",
                                            "--json"};
  const Outcome trained = train(command);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string path = trained.json()["adapter"];
  const AdapterFile adapter = ReadAdapter(path).value();
  EXPECT_EQ(adapter.from, "old");
  EXPECT_EQ(adapter.to, "new");
  EXPECT_EQ(adapter.spec.input_dimension, 12);
  EXPECT_EQ(adapter.spec.target.dimension, 16);
  EXPECT_EQ(adapter.fit.pairs + adapter.fit.held_out_pairs, 96) << "each image, plain and changed";
  EXPECT_TRUE(trained.json()["manifest"]["through_adapter"]);

  const std::string set = "idx:" + data.path();
  const Outcome served = RunBinary(scratch_, {"eval", "--data", set, "--served", "--query", new_model, "--gallery",
                                              old_model, "--adapter", path, "--backfilled", "0,0.5,1", "--json"});
  ASSERT_EQ(served.exit_code, 0) << served.err;
  EXPECT_EQ(served.json()["through"], "item adapter");
  ASSERT_EQ(served.json()["points"].size(), 3u);
  const Outcome own = Run({"eval", "--data", set, "--query", new_model, "--json"});
  EXPECT_NEAR(served.json()["points"][2]["map"], own.json()["map"], 1e-6) << "all of it re-embedded";
  EXPECT_THAT(Run({"eval", "--data", set, "--query", new_model, "--adapter", path}).err, HasSubstr("--served"));
  EXPECT_THAT(Run({"eval", "--data", set, "--served", "--query", new_model, "--backfilled", "0.5,0.1"}).err,
              HasSubstr("shares ascend"));
  EXPECT_THAT(Run({"eval", "--data", set, "--served", "--query", new_model, "--adapter", path}).err,
              HasSubstr("two models"));
  EXPECT_THAT(Run({"eval", "--data", set, "--served", "--query", new_model, "--gallery", old_model}).err,
              HasSubstr("'--adapter' is absent"));
  EXPECT_THAT(Run({"eval", "--data", set, "--query", new_model, "--gallery", old_model}).err,
              HasSubstr("through an adapter"));

  // Nothing is trained again, so nothing is fitted: what stands there stays, even if a fit would give something else.
  AdapterFile marked = adapter;
  marked.fit.seed += 1;
  ASSERT_TRUE(WriteAdapter(path, marked).ok());
  for (int call = 0; call < 2; ++call) EXPECT_EQ(train(command).json()["adapter"], path);
  EXPECT_EQ(ReadAdapter(path)->fit.seed, marked.fit.seed);
  std::filesystem::remove(path);
  EXPECT_THAT(train({"--out", new_model, "--method", "lightcone", "--old", old_model, "--set", "encoder.dimension=16",
                     "--set", "lightcone.compatible=none"})
                  .out,
              HasSubstr("old-items.adapter carries the old items"));
  EXPECT_TRUE(ReadAdapter(path).ok()) << "fitted again";
}

TEST_F(Offline, EmbedNeedsAModelASplitAndAFile) {
  const std::string out = scratch_ / "z.npy";
  EXPECT_EQ(Run({"embed", "--model", scratch_ / "none", "--out", out}).exit_code, 3);
  EXPECT_EQ(Run({"embed", "--out", out}).exit_code, 2);
  EXPECT_EQ(Run({"embed", "--model", scratch_ / "none"}).exit_code, 2);
  EXPECT_THAT(Run({"embed", "--model", "m", "--out", out, "--split", "all"}).err, HasSubstr("'--split' is 'all'"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(Offline, EvalNeedsAModel) {
  EXPECT_EQ(Run({"eval", "--query", scratch_ / "none"}).exit_code, 3);
  EXPECT_EQ(Run({"eval"}).exit_code, 2);
  EXPECT_EQ(Run({"eval", "--query", scratch_ / "none", "--split", "all"}).exit_code, 2);
}

}  // namespace
}  // namespace lightcone::cli
