// What `lightcone` does without a server: version, help, completion, training, evaluation, wrong configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/npy.h"
#include "cli/child_server.h"
#include "cli/served/demo_gallery.h"
#include "cli/served/served_backfill.h"
#include "geometry/adapter.h"
#include "models/adapter_file.h"
#include "models/encoders/encoder.h"
#include "models/failure_head_file.h"
#include "stats/metrics.h"
#include "tests/cli/run_program.h"
#include "tests/trainer/data_files.h"
#include "trainer/data/dataset.h"
#include "trainer/evaluate.h"
#include "trainer/uncertainty/failure_head.h"

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

  // How well the server's own order tells what the new model's queries retrieve wrongly through an adapter: the order
  // from a server of its own, the failures from embeddings that were carried here.
  std::optional<double> AurocThrough(const AdapterFile& file, const std::string& set, const std::string& old_model,
                                     const std::string& new_model) {
    const Dataset dataset = OpenDataset(set, 1).value();
    const auto old_encoder = Encoder::LoadFolder(old_model).value(),
               new_encoder = Encoder::LoadFolder(new_model).value();
    std::vector<float> old_z = EmbedSplit(*old_encoder, dataset.test).value();
    std::vector<float> new_z = EmbedSplit(*new_encoder, dataset.test).value();
    const Manifest &older = old_encoder->manifest(), &newer = new_encoder->manifest();
    const bool item = file.spec.direction == AdapterDirection::kItem;

    const auto server = ChildServer::Start(Binary(), scratch_ / StrCat("server-", item ? "item" : "query")).value();
    const auto client = client::Client::Connect({.address = server->address()}).value();
    EXPECT_TRUE(CreateGallery(*client, "g", older.metric, older.curvature).ok());
    EXPECT_EQ(RegisterModel(*client, "g", old_model, {}).value(), 1u);
    EXPECT_TRUE(ActivateModel(*client, "g", 1).ok());
    EXPECT_TRUE(UpsertVectors(*client, "g", 1, old_z, older.dimension, dataset).ok());
    EXPECT_EQ(RegisterModel(*client, "g", new_model, {.expects_adapter = true}).value(), 2u);
    EXPECT_TRUE(PutAdapter(*client, "g", item ? 1 : 2, item ? 2 : 1, file).ok());
    EXPECT_TRUE(ActivateModel(*client, "g", 2).ok());
    const std::vector<v1::LeasedItem> leased = LeaseEverything(*client, "g", "").value();

    const Adapter adapter = Adapter::Make(file.spec).value();
    std::vector<float> carried(dataset.test.labels.size() * static_cast<size_t>(adapter.output_dimension()));
    adapter.Apply(item ? old_z : new_z, carried);
    (item ? old_z : new_z) = carried;
    const Manifest& target = item ? newer : older;
    const Failures failures = FailuresOf({target.metric, target.curvature, target.dimension},
                                         {new_z, dataset.test.labels, item ? newer.clip_radius : older.clip_radius},
                                         {old_z, dataset.test.labels, item ? newer.clip_radius : older.clip_radius})
                                  .value();
    std::vector<double> scores;
    std::vector<uint8_t> wrong;
    for (const v1::LeasedItem& one : leased) {
      if (failures.findable[one.id().number()] == 0) continue;
      scores.push_back(one.uncertainty());
      wrong.push_back(failures.wrong[one.id().number()]);
    }
    return Auroc(scores, wrong);
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

TEST_F(Offline, ANewKeyHasTheLimitsThatItsFlagsGive) {
  const std::vector<std::string> create = {"key", "create", "app", "--scope", "read", "--json"};
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), create.begin(), create.end());
    return Run(flags);
  };
  const auto line = run({"--calls-per-second", "200", "--calls-in-flight-max", "20", "--rows-per-second", "1000",
                         "--bytes-per-second", "1024"})
                        .json()["line"];
  EXPECT_EQ(line["calls_per_second"], 200);
  EXPECT_EQ(line["calls_in_flight_max"], 20);
  EXPECT_EQ(line["rows_per_second"], 1'000);
  EXPECT_EQ(line["bytes_per_second"], 1'024);
  EXPECT_FALSE(run({}).json()["line"].contains("calls_per_second"));
  const Outcome refused = run({"--calls-per-second", "0"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("field '--calls-per-second' is 0; allowed: 1 .. 1000000 calls a second"));
  EXPECT_THAT(run({"--bytes-per-second", "1023"}).err, HasSubstr("allowed: 1024 .. 4000000000 bytes a second"));
}

TEST_F(Offline, HelpNamesEverySubcommandAndTheExitCodes) {
  const Outcome help = Run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* name :
       {"serve", "train", "eval", "embed", "experiment", "collection", "generation", "upsert", "search", "get",
        "delete", "scroll", "count", "import", "export", "repair", "status", "version", "completion"}) {
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
  EXPECT_EQ(methods.back()["metric"], "lorentz, cosine");
  for (const auto& method : methods) {
    std::string switches;  // of a line of their own
    for (const auto& name : method["switches"]) switches += StrCat(" ", name.get<std::string>());
    EXPECT_THAT(list.out, HasSubstr(switches));
    EXPECT_THAT(list.out, HasSubstr(method["metric"].get<std::string>()));
    EXPECT_THAT(list.out, HasSubstr(method["base_loss"].get<std::string>()));
    if (method["name"] != "mixbct") continue;
    EXPECT_EQ(method["base_loss"], "arcface");
    EXPECT_EQ(method["metric"], "cosine");
  }
}

TEST_F(Offline, HelpNamesEveryKindOfDataSet) {
  for (const char* command : {"train", "eval", "demo"}) {
    const std::string help = Run({command, "--help"}).out;
    for (const auto& [name, what] : DatasetKinds()) EXPECT_THAT(help, HasSubstr(name)) << command;
  }
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
  EXPECT_THAT(error({"--out", out, "--set", "hbct.tau=3"}), HasSubstr("options that method 'independent' reads"));
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
  const Outcome cosine = train({"--out", scratch_ / "cosine", "--classes", "2", "--set", "metric=cosine"});
  ASSERT_EQ(cosine.exit_code, 0) << cosine.err;
  const Outcome euclidean = train({"--out", scratch_ / "l2", "--method", "l2", "--old", scratch_ / "cosine"});
  ASSERT_EQ(euclidean.exit_code, 0) << euclidean.err;
  EXPECT_EQ(euclidean.json()["manifest"]["metric"], "cosine") << "what the method needs";
  EXPECT_THAT(train({"--out", scratch_ / "l2b", "--method", "l2", "--old", old_model}).err,
              HasSubstr("field 'old_model.metric' is lorentz; allowed: cosine, as the new model"));
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
    std::vector<std::string> words = {"train", "--data",
                                      set,     "--out",
                                      model,   "--json",
                                      "--set", "encoder.architecture=mlp",
                                      "--set", "encoder.width=0.25",
                                      "--set", "encoder.dimension=16",
                                      "--set", "epochs=1",
                                      "--set", "batch=8"};
    if (model == new_model) words.insert(words.end(), {"--method", "hbct", "--old", old_model});
    const Outcome trained = Run(words);
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  const std::vector<std::string> fit = {"backfill", "fit",         "--data",  set,     "--old-model",
                                        old_model,  "--new-model", new_model, "--json"};
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

  const std::vector<std::string> eval = {"eval",    "--data",    set,       "--served", "--query",
                                         new_model, "--gallery", old_model, "--json"};
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
  FailureHeadFile other;
  other.head.deviation.fill(1);
  other.means = {3, {1, 0, 0}};
  ASSERT_TRUE(WriteFailureHead(scratch_ / "other.head", other).ok());
  EXPECT_THAT(Run(with(eval, {"--order", scratch_ / "other.head"})).err,
              HasSubstr("'--order' is a failure head for vectors of 3 numbers; allowed: 16 numbers"));
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
    std::vector<std::string> words = {"train",    "--data",
                                      set,        "--out",
                                      models[i],  "--method",
                                      methods[i], "--json",
                                      "--set",    "encoder.architecture=mlp",
                                      "--set",    "encoder.width=0.25",
                                      "--set",    "encoder.dimension=16",
                                      "--set",    "epochs=1",
                                      "--set",    "batch=8"};
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

  // Nothing is trained again, so nothing is fitted; but what somebody put in its place is not taken for it.
  const auto fitted = std::filesystem::last_write_time(path);
  EXPECT_EQ(train(command).json()["adapter"], path);
  EXPECT_EQ(std::filesystem::last_write_time(path), fitted);
  AdapterFile another = adapter;
  another.fit.seed += 1;
  ASSERT_TRUE(WriteAdapter(path, another).ok());
  EXPECT_EQ(train(command).json()["adapter"], path);
  EXPECT_EQ(ReadAdapter(path)->fit.seed, adapter.fit.seed);
  std::filesystem::remove(path);
  EXPECT_THAT(train({"--out", new_model, "--method", "lightcone", "--old", old_model, "--set", "encoder.dimension=16",
                     "--set", "lightcone.compatible=none"})
                  .out,
              HasSubstr("old-items.adapter carries the old items"));
  EXPECT_TRUE(ReadAdapter(path).ok()) << "fitted again";
}

TEST_F(Offline, TheServersOrderIsJudgedByWhatTheAdapterGives) {
  const testing_data::Folder data;
  WriteSet(data);
  const std::string set = "idx:" + data.path(), old_model = scratch_ / "old", new_model = scratch_ / "new";
  for (const auto& [model, dimension] : {std::pair{old_model, "12"}, {new_model, "16"}}) {
    const Outcome trained =
        Run({"train", "--data", set, "--out", model, "--set", "encoder.architecture=mlp", "--set", "encoder.width=0.25",
             "--set", "epochs=1", "--set", "batch=8", "--set", StrCat("encoder.dimension=", dimension)});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  const auto fit = [&](const std::string& direction, std::vector<std::string> more) {
    more.insert(more.begin(), {"adapt", "--data", set, "--old-model", old_model, "--new-model", new_model, "--map",
                               "affine", "--steps", "20", "--direction", direction, "--out", scratch_ / direction});
    return Run(more);
  };
  EXPECT_THAT(fit("item", {"--pairs", "10"}).err,
              HasSubstr("'--pairs' is 10; allowed: 0 (all), or 32 .. 48, the training images"));
  EXPECT_THAT(fit("item", {"--pairs", "32", "--views", "1"}).err,
              HasSubstr("'--data' is " + set + " with 48 training"));

  const auto eval = [&](const std::string& query, const std::string& gallery, const std::string& adapter,
                        std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--data", set, "--served", "--query", query, "--gallery", gallery, "--adapter",
                               adapter, "--json"});
    return RunBinary(scratch_, more);
  };
  for (const char* direction : {"item", "query"}) {
    ASSERT_EQ(fit(direction, {}).exit_code, 0);
    const std::optional<double> expected =
        AurocThrough(ReadAdapter(scratch_ / direction).value(), set, old_model, new_model);
    ASSERT_TRUE(expected.has_value()) << "some are retrieved wrongly, and some are not";
    const Outcome ordered = eval(new_model, old_model, scratch_ / direction, {"--order", "neighbourhood"});
    ASSERT_EQ(ordered.exit_code, 0) << ordered.err;
    EXPECT_NEAR(ordered.json().value("order_auroc", -1.0), *expected, 1e-9) << direction;
  }
  EXPECT_THAT(
      eval(old_model, new_model, scratch_ / "item", {}).err,
      HasSubstr("of direction 'item' for vectors of 12 numbers; allowed: one for 16 numbers, as --gallery embeds"));
  AdapterFile elsewhere = ReadAdapter(scratch_ / "item").value();
  elsewhere.spec.target.clip_radius = 3;
  ASSERT_TRUE(WriteAdapter(scratch_ / "elsewhere", elsewhere).ok());
  EXPECT_THAT(eval(new_model, old_model, scratch_ / "elsewhere", {}).err,
              HasSubstr("into lorentz of dimension 16, K 1, clip radius 3; allowed: into lorentz of dimension 16, K 1, "
                        "clip radius 1, as --query embeds"));
  AdapterFile of_another = ReadAdapter(scratch_ / "item").value();
  of_another.from_crc32c ^= 1;
  ASSERT_TRUE(WriteAdapter(scratch_ / "of-another", of_another).ok());
  EXPECT_THAT(eval(new_model, old_model, scratch_ / "of-another", {}).err,
              HasSubstr(StrCat("--adapter '", scratch_ / "of-another", "': field 'adapter.from_crc32c' is ",
                               of_another.from_crc32c, "; allowed: ", of_another.from_crc32c ^ 1,
                               ", of the encoder of --gallery")));
  EXPECT_THAT(eval(new_model, old_model, scratch_ / "item", {"--backfilled", "2"}).err, HasSubstr("--backfilled"));
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
