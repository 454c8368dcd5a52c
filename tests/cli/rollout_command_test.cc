// docs/start/afternoon.md by a program: a model from elsewhere, of another dimension, from its folder into service;
// what the gate lets through and what not; and everything that an operator may answer on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/npy.h"
#include "base/sealed.h"
#include "base/strings.h"
#include "cli/child_server.h"
#include "cli/commands/register_model.h"
#include "cli/json/rollout_json.h"
#include "models/adapter_file.h"
#include "tests/cli/served_test.h"
#include "tests/trainer/data_files.h"
#include "tests/trainer/two_models.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kItems = 1'200, kProbes = 300, kClasses = 6, kOldWide = 8, kNewWide = 10;

class RolloutCommand : public ServedTest {
 protected:
  void Must(std::vector<std::string> words) {
    const std::string line = StrCat(words[0], " ", words[1], " ", words[2]);
    const Outcome outcome = Run(std::move(words));
    ASSERT_EQ(outcome.exit_code, 0) << line << ": " << outcome.err;
  }
  // With answers to the questions, in a process of its own.
  Outcome Answering(const std::string& answers, const std::vector<std::string>& words) {
    EXPECT_TRUE(WriteFileAtomically(scratch_ / "answers", answers).ok());
    std::string line = StrCat("exec ", Binary(), " --server ", server_->address());
    for (const std::string& word : words) line += " '" + word + "'";
    const std::string script = scratch_ / "script";
    EXPECT_TRUE(WriteFileAtomically(script, line + " < " + (scratch_ / "answers") + "\n").ok());
    return RunShell(script);
  }
  Outcome RunShell(const std::string& script) {
    Outcome outcome;
    const std::string command = StrCat("sh ", script, " > ", scratch_ / "stdout", " 2> ", scratch_ / "stderr");
    outcome.exit_code = WEXITSTATUS(std::system(command.c_str()));
    outcome.out = ReadFile(scratch_ / "stdout").value();
    outcome.err = ReadFile(scratch_ / "stderr").value();
    return outcome;
  }

  static std::string VectorText(const std::vector<float>& all, size_t i, int wide) {
    std::string text;
    for (int j = 0; j < wide; ++j)
      text += StrCat(j == 0 ? "[" : ",", all[i * static_cast<size_t>(wide) + static_cast<size_t>(j)]);
    return text + "]";
  }
  std::string PutNpy(const std::string& name, const std::vector<float>& all, int64_t from, int64_t rows, int wide) {
    const std::string_view bytes(reinterpret_cast<const char*>(all.data() + from * wide),
                                 static_cast<size_t>(rows * wide) * 4);
    return Put(name, EncodeNpy(NpyType::kFloat32, {rows, wide}, bytes));
  }

  // A gallery that the old model embedded, probes by both, and the new model registered as generation 2, which has
  // embedded nothing.
  void MakeShop(const std::string& name, int probes = kProbes) {
    models_ = MakeTwoModels(kItems + kProbes, kClasses, kOldWide, kNewWide, Metric::kCosine, 1);
    // The old model is worse, so that a generation of the new one surely gains by an adapter.
    Rng noise(5);
    for (float& x : models_.old_z) x += static_cast<float>(0.05 * noise.Normal());
    Must({"collection", "create", name, "--geometry", "cosine"});
    Must({"generation", "register", name, "--dimension", StrCat(kOldWide), "--activate"});
    std::string lines;
    for (size_t i = 0; i < kItems; ++i) {
      lines += StrCat("{\"id\":", i, ",\"vector\":", VectorText(models_.old_z, i, kOldWide),
                      ",\"payload\":{\"class\":", models_.labels[i], "}}\n");
    }
    Must({"import", name, Put("gallery.jsonl", lines)});
    Must({"generation", "register", name, "--dimension", StrCat(kNewWide), "--expects-adapter"});
    std::string labels;
    for (int i = 0; i < probes; ++i)
      labels += StrCat("{\"label\":", models_.labels[static_cast<size_t>(kItems + i)], "}\n");
    Must({"generation", "probes", "put", name, "daily", Put("probes.jsonl", labels), "--label-field", "class",
          "--vectors", "1=" + PutNpy("old.npy", models_.old_z, kItems, probes, kOldWide), "--vectors",
          "2=" + PutNpy("new.npy", models_.new_z, kItems, probes, kNewWide)});
  }
  // What an application does with the items that the server names. `wrong`: the vectors are those of other items.
  void EmbedSample(const std::string& name, int items, bool wrong = false) {
    const Outcome sample = Run({"generation", "adapter", "sample", name, "2", "--items", StrCat(items), "--json"});
    ASSERT_EQ(sample.exit_code, 0) << sample.err;
    const nlohmann::json answer = sample.json();
    ASSERT_EQ(answer["items"].size(), static_cast<size_t>(items));
    std::vector<float> rows;
    for (const auto& item : answer["items"]) {
      const size_t id = item["id"], of = wrong ? (id * 7 + 3) % kItems : id;
      const auto begin = models_.new_z.begin() + static_cast<std::ptrdiff_t>(of * kNewWide);
      rows.insert(rows.end(), begin, begin + kNewWide);
    }
    Must({"import", name, PutNpy("sample.npy", rows, 0, items, kNewWide), "--ids", Put("sample.json", sample.out),
          "--generation", "2", "--same-content"});
  }

  // A model `old_` and one of method lightcone, `new_`, whose adapter is `adapter_`.
  void TrainWithAdapter() {
    const testing_data::Folder data;
    std::vector<int> labels;
    for (int i = 0; i < 48; ++i) labels.push_back(i % 4);
    for (const char* part : {"train", "t10k"}) {
      data.Write(StrCat(part, "-images-idx3-ubyte"), testing_data::IdxImages(48, 16, 16));
      data.Write(StrCat(part, "-labels-idx1-ubyte"), testing_data::IdxLabels(labels));
    }
    const auto train = [&](const std::vector<std::string>& words) {
      Must(With({"train", "--data", "idx:" + data.path(), "--set", "encoder.architecture=mlp", "--set",
                 "encoder.width=0.25", "--set", "encoder.dimension=12", "--set", "epochs=1", "--set", "batch=8"},
                words));
    };
    train({"--out", old_});
    train({"--out", new_, "--method", "lightcone", "--old", old_});
  }
  static std::vector<std::string> With(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string AdaptersOf(const std::string& name) {
    std::string pairs;
    for (const auto& one : Run({"generation", "adapter", "list", name, "--json"}).json()) {
      pairs += StrCat(one["from_generation"].get<int>(), ">", one["to_generation"].get<int>(), " ");
    }
    return pairs;
  }

  TwoModels models_;
  const std::string old_ = scratch_ / "old", new_ = scratch_ / "new", adapter_ = new_ + "/old-items.adapter";
};

TEST_F(RolloutCommand, AModelFromElsewhereIsRefusedUntilAnAdapterIsFittedAndThenServes) {
  MakeShop("shop");
  // Incompatible as it is: nothing leads to what the old model embedded.
  const Outcome alone = Run({"rollout", "shop", "--generation", "2", "--adapter", "never", "--yes"});
  EXPECT_EQ(alone.exit_code, 5);
  EXPECT_THAT(alone.err, HasSubstr("generation 2 did not pass its validation"));
  EXPECT_EQ(Run({"generation", "activate", "shop", "2"}).exit_code, 5);
  // No pairs yet: it says how to have some.
  const Outcome none = Run({"rollout", "shop", "--generation", "2", "--yes"});
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_THAT(none.err, HasSubstr("generation adapter sample shop 2"));
  EmbedSample("shop", 300);
  const Outcome done = Run({"rollout", "shop", "--generation", "2", "--yes", "--tolerance", "0.1"});
  ASSERT_EQ(done.exit_code, 0) << done.err << done.out;
  for (const char* step : {"== estimate of the backfill", "== fit adapters", "== validate", "== activate",
                           "== backfill", "undo   `lightcone generation rollback", "1 -> 2", "is rolled out"}) {
    EXPECT_THAT(done.out, HasSubstr(step));
  }
  EXPECT_EQ(Run({"collection", "get", "shop", "--json"}).json()["active_generation"], 2);
  const auto audit = Run({"generation", "audit", "shop", "--json"}).json();
  EXPECT_EQ(audit[0]["validated"], true);
  EXPECT_EQ(audit[0]["forced"], false);
  // What became of the calibration is shown, and an operator may do without.
  EXPECT_THAT(Run({"generation", "get", "shop", "2"}).out, HasSubstr("calibration of generation 1, way item: "));
  const auto calibration_of = [&] {
    const auto shown = Run({"generation", "get", "shop", "2", "--json"}).json();
    return shown["validation"]["pairs"][0]["ways"][0].value("calibration", nlohmann::json());
  };
  const nlohmann::json calibration = calibration_of();
  EXPECT_GT(calibration.value("slope", 0.0), 0) << calibration;
  EXPECT_EQ(calibration.value("mixture", nlohmann::json()).size(), 5u) << calibration;
  EXPECT_GT(calibration["map_gain"]["probes"], 100);
  Must({"generation", "validate", "shop", "2", "--tolerance", "0.1", "--no-calibration", "--wait"});
  EXPECT_TRUE(calibration_of().is_null());
  // Its queries find their class in a gallery that it has not embedded.
  int right = 0;
  for (size_t i = kItems; i < kItems + 50; ++i) {
    const Outcome found =
        Run({"search", "shop", "--vector", VectorText(models_.new_z, i, kNewWide), "--k", "1", "--payload", "--json"});
    ASSERT_EQ(found.exit_code, 0) << found.err;
    right += found.json()["results"][0]["hits"][0]["payload"]["class"] == models_.labels[i];
  }
  EXPECT_GT(right, 35);
  // Again: nothing is left to do, and the way back works.
  const Outcome again = Run({"rollout", "shop", "--generation", "2", "--yes", "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const nlohmann::json said = again.json();
  EXPECT_EQ(said["estimate"]["generation"], 2) << said;
  const Outcome estimated = Run({"backfill", "estimate", "shop", "--price", "0.02"});
  EXPECT_EQ(estimated.exit_code, 0) << estimated.err;
  EXPECT_THAT(estimated.out, HasSubstr("items are not embedded by generation 2"));
  EXPECT_EQ(Run({"backfill", "estimate", "shop", "--price", "-1"}).exit_code, 2);
  for (const auto& step : said["steps"]) EXPECT_EQ(step["did"], false) << step;
  // The next one finds the whole gallery to be embedded anew, whatever became of the backfill before.
  Must({"generation", "register", "shop", "--dimension", StrCat(kNewWide), "--parent", "2"});
  const Outcome next =
      Run({"rollout", "shop", "--generation", "3", "--adapter", "never", "--force", "--reason", "a test", "--yes"});
  ASSERT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(next.out, HasSubstr(StrCat("embeds ", "1,200", " items anew")));
  EXPECT_EQ(Run({"generation", "rollback", "shop"}).exit_code, 0);
  EXPECT_EQ(Run({"generation", "rollback", "shop"}).exit_code, 0);
  EXPECT_EQ(Run({"collection", "get", "shop", "--json"}).json()["active_generation"], 1);
}

TEST_F(RolloutCommand, AnAdapterOfWrongPairsAndTooFewProbesStayOutside) {
  MakeShop("wrong");
  EmbedSample("wrong", 300, /*wrong=*/true);
  const Outcome refused = Run({"rollout", "wrong", "--generation", "2", "--yes", "--tolerance", "0.1"});
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_THAT(refused.out, HasSubstr("worse"));
  EXPECT_THAT(refused.err, Not(HasSubstr("backfill start"))) << "its own embeddings are wrong at every share";
  MakeShop("few", 12);
  EmbedSample("few", 300);
  const Outcome uncertain = Run({"rollout", "few", "--generation", "2", "--yes"});
  EXPECT_EQ(uncertain.exit_code, 5);
  EXPECT_THAT(uncertain.out, HasSubstr("uncertain"));
  EXPECT_EQ(Run({"rollout", "few", "--generation", "2", "--yes", "--force"}).exit_code, 2) << "without a reason";
  EXPECT_EQ(Run({"rollout", "few", "--generation", "2", "--yes", "--force", "--reason", "a test"}).exit_code, 0);
  EXPECT_EQ(Run({"generation", "audit", "few", "--json"}).json()[0]["forced"], true);
}

TEST(HowToPassByBackfill, NamesEachPairsShareAndTheCommandThatEmbedsIt) {
  v1::Validation validation;
  EXPECT_EQ(HowToPassByBackfill(validation, "shop", 3, "RATE"), "");
  for (const auto& [generation, share] : {std::pair(1u, 0.5), std::pair(2u, 0.125)}) {
    v1::PairValidation* const pair = validation.add_pairs();
    pair->set_item_generation(generation);
    pair->set_verdict(v1::VALIDATION_VERDICT_WORSE);
    pair->set_passes_from_share(share);
  }
  validation.set_passes_from_share(0.5);
  EXPECT_THAT(HowToPassByBackfill(validation, "shop", 3, "RATE"),
              HasSubstr("with 50 % of the items of generation 1 and 12.5 % of the items of generation 2 embedded anew: "
                        "`lightcone backfill start shop --generation 3 --embed-rate RATE`, then"));
  validation.mutable_pairs(0)->set_verdict(v1::VALIDATION_VERDICT_PASSED);
  const std::string workers = HowToPassByBackfill(validation, "shop", 3, "");
  EXPECT_THAT(workers, HasSubstr("with 12.5 % of the items of generation 2 embedded anew"));
  EXPECT_THAT(workers, Not(HasSubstr("--embed-rate"))) << "the server has no encoder";
  EXPECT_THAT(workers, HasSubstr("takes the place of another generation's"));
  validation.set_passes_from_share(1);
  EXPECT_THAT(HowToPassByBackfill(validation, "shop", 3, "20"), HasSubstr("only with the whole gallery embedded anew"));
}

TEST_F(RolloutCommand, AsksBeforeEveryStepAndStopsWhereItIsTold) {
  MakeShop("asked");
  EmbedSample("asked", 300);
  const std::vector<std::string> rollout = {"rollout", "asked", "--generation", "2", "--tolerance", "0.1"};
  for (const char* answers : {"", "n\n", "what?\n"}) {
    const Outcome stopped = Answering(answers, rollout);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("stopped before 'fit adapters', which has not begun"));
    EXPECT_THAT(stopped.out, Not(HasSubstr("== validate")));
  }
  EXPECT_EQ(Run({"generation", "adapter", "list", "asked", "--json"}).json().size(), 0u);
  const Outcome fitted = Answering("y\nn\n", rollout);
  EXPECT_THAT(fitted.err, HasSubstr("stopped before 'validate'"));
  EXPECT_EQ(Run({"generation", "adapter", "list", "asked", "--json"}).json().size(), 2u);
  const Outcome validated = Answering("y\nno\n", rollout);
  EXPECT_THAT(validated.out, HasSubstr("fit adapters: not needed"));
  EXPECT_THAT(validated.err, HasSubstr("stopped before 'activate'"));
  EXPECT_EQ(Run({"collection", "get", "asked", "--json"}).json()["active_generation"], 1);
  const Outcome active = Answering("yes\n", rollout);
  EXPECT_THAT(active.err, HasSubstr("stopped before 'backfill'"));
  EXPECT_EQ(Run({"collection", "get", "asked", "--json"}).json()["active_generation"], 2);
  EXPECT_EQ(Answering("", {"rollout", "asked", "--generation", "2", "--no-backfill"}).exit_code, 0);
}

TEST_F(RolloutCommand, AModelThatIsRegisteredIsTakenUpByTheNextRunAndNotRegisteredAgain) {
  const std::string model = scratch_ / "model";
  Must({"train", "--data", "glyphs", "--classes", "2", "--fraction", "0.05", "--set", "epochs=1", "--set", "batch=4",
        "--set", "encoder.architecture=mlp", "--set", "encoder.dimension=8", "--out", model});
  Must({"collection", "create", "again", "--geometry", "lorentz"});
  const std::vector<std::string> rollout = {"rollout", "again", "--model", model};
  const auto generations = [&] { return Run({"generation", "list", "again", "--json"}).json().size(); };
  const Outcome before = Answering("n\n", rollout);
  EXPECT_EQ(before.exit_code, 130);
  EXPECT_THAT(before.err, HasSubstr(StrCat("`lightcone rollout again --model ", model, "`")));
  EXPECT_EQ(generations(), 0u);
  const Outcome stopped = Answering("y\nn\n", rollout);
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("stopped before 'activate'"));
  EXPECT_EQ(generations(), 1u);
  const Outcome done = Answering("y\n", rollout);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("register the model: not needed, generation 1 holds it already"));
  EXPECT_EQ(generations(), 1u);
  // As the child of another generation it is another one, and so it is when the first one is retired.
  Must({"rollout", "again", "--model", model, "--parent", "1", "--yes", "--no-backfill"});
  EXPECT_EQ(generations(), 2u);
  Must({"generation", "retire", "again", "1", "--wait"});
  Must({"rollout", "again", "--model", model, "--adapter", "never", "--yes", "--no-backfill"});
  EXPECT_EQ(generations(), 3u);
}

TEST_F(RolloutCommand, AModelThatEndsWithAnAdapterBringsItAlong) {
  TrainWithAdapter();
  const auto adapters = [&] { return AdaptersOf("brought"); };
  Must({"collection", "create", "brought", "--geometry", "lorentz"});
  Must({"generation", "register", "brought", "--model", old_, "--activate"});

  // Registered: to the old model's generation, whether that is named or not, unless it is left out or not the parent.
  const std::vector<std::string> register_new = {"generation", "register", "brought", "--model", new_};
  const Outcome named = Run(With(register_new, {"--parent", "1", "--request-id", "r"}));
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("adapter 1 -> 2 is put"));
  EXPECT_EQ(adapters(), "1>2 ");
  const auto unnamed = Run(With(register_new, {"--json"})).json();
  EXPECT_EQ(unnamed["adapter"]["from_generation"], 1);
  EXPECT_EQ(adapters(), "1>2 1>3 ");
  EXPECT_FALSE(Run(With(register_new, {"--parent", "1", "--no-adapter", "--json"})).json().contains("adapter"));
  const Outcome other = Run(With(register_new, {"--parent", "2"}));
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("carries the items of the model 'old', which generation 2 is not: it is left out"));
  EXPECT_EQ(adapters(), "1>2 1>3 ");

  // Rolled out: as a step of its own, which a run that goes on does not miss.
  const std::vector<std::string> rollout = {"rollout", "brought", "--model", new_, "--parent", "1", "--no-backfill"};
  Must({"generation", "retire", "brought", "4", "--wait"});
  Must({"generation", "retire", "brought", "2", "--wait"});
  const Outcome stopped = Answering("y\nn\n", rollout);
  EXPECT_THAT(stopped.err, HasSubstr("stopped before 'put the model's adapter'"));
  EXPECT_THAT(stopped.err, HasSubstr(StrCat("`lightcone rollout brought --model ", new_, " --parent 1`")));
  EXPECT_EQ(adapters(), "1>3 ");
  std::string items, again;  // that both have embedded: there is what a fit would need
  Rng random(5);
  for (int i = 0; i < 100; ++i) {
    std::string vector;
    for (int j = 0; j < 12; ++j) vector += StrCat(j == 0 ? "[" : ",", random.Normal());
    for (std::string* lines : {&items, &again}) *lines += StrCat("{\"id\":", i, ",\"vector\":", vector, "]}\n");
  }
  Must({"import", "brought", Put("items.jsonl", items)});
  Must({"import", "brought", Put("again.jsonl", again), "--generation", "6", "--same-content"});
  const Outcome done = Run(With(rollout, {"--yes"}));
  ASSERT_EQ(done.exit_code, 0) << done.err << done.out;
  EXPECT_THAT(done.out, HasSubstr(StrCat("puts the item adapter 1 -> 6 in '", adapter_, "'")));
  EXPECT_THAT(done.out, HasSubstr("fit adapters: not needed, it reaches generation 1"));
  EXPECT_EQ(adapters(), "1>3 1>6 ");
  EXPECT_EQ(Run({"collection", "get", "brought", "--json"}).json()["active_generation"], 6);

  // An adapter of another encoder than the folder's, and none where one belongs.
  ASSERT_TRUE(WriteSealed(adapter_ + ".json", {{"new_crc32c", 1}}).ok());
  EXPECT_THAT(Run(With(rollout, {"--yes"})).out, HasSubstr("was fitted to another encoder than the folder's"));
  std::filesystem::remove(adapter_);
  EXPECT_THAT(Run(register_new).err, HasSubstr(StrCat("'", adapter_, "' is missing")));
}

TEST_F(RolloutCommand, AModelsAdapterIsPutOnceAndItsRegistrationMayBeRepeatedWhateverBecameOfIt) {
  TrainWithAdapter();
  Must({"collection", "create", "repeated", "--geometry", "lorentz"});
  Must({"generation", "register", "repeated", "--model", old_, "--activate"});
  Must({"upsert", "repeated", "one", "--vector", "1,0,0,0,0,0,0,0,0,0,0,0"});
  Must({"generation", "register", "repeated", "--model", old_});  // a copy that serves nothing
  const std::vector<std::string> command = {"generation", "register", "repeated", "--model", new_, "--request-id", "w"};
  EXPECT_THAT(Run(command).out, HasSubstr("adapter 1 -> 3 is put")) << "not from the copy";
  // The old model is registered again since, and serves: it is newer than the model.
  Must({"generation", "register", "repeated", "--model", old_, "--activate", "--force", "--reason", "a test"});
  const Outcome again = Run(command);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("adapter 1 -> 3 is there already"));
  // Replaced, also by another file than the first call's.
  AdapterFile other = ReadAdapter(adapter_).value();
  other.fit.seed += 1;
  ASSERT_TRUE(WriteAdapter(adapter_, other).ok());
  Must({"generation", "adapter", "put", "repeated", "1", "3", adapter_});
  EXPECT_THAT(Run(command).out, HasSubstr("adapter 1 -> 3 is there already"));
  // Dropped: that stays so, and the rest of the call is done.
  Must({"generation", "adapter", "drop", "repeated", "1", "3"});
  const Outcome dropped = Run(command);
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_THAT(dropped.err, HasSubstr("adapter 1 -> 3 is not put again: field 'request_id' is 'w-adapter'"));
  other.fit.seed -= 1;
  ASSERT_TRUE(WriteAdapter(adapter_, other).ok());
  const Outcome active = Run(With(command, {"--activate", "--force", "--reason", "a test"}));
  EXPECT_EQ(active.exit_code, 0) << active.err;
  EXPECT_THAT(active.err, HasSubstr("and replaced or dropped since"));
  EXPECT_EQ(AdaptersOf("repeated"), "");
  EXPECT_EQ(Run({"collection", "get", "repeated", "--json"}).json()["active_generation"], 3);
}

TEST_F(RolloutCommand, AModelsAdapterIsLeftOutWhereTheNamedParentHasAnotherSpace) {
  TrainWithAdapter();
  const auto register_new = [&](const std::string& name, std::vector<std::string> old, std::vector<std::string> more) {
    Must({"collection", "create", name, "--geometry", "lorentz"});
    Must(With({"generation", "register", name, "--curvature", "1", "--activate"}, old));
    return Run(With({"generation", "register", name, "--model", new_, "--parent", "1", "--activate"}, more));
  };
  const Outcome clipped = register_new("clipped", {"--dimension", "12", "--clip-radius", "3"}, {});
  EXPECT_EQ(clipped.exit_code, 0) << clipped.err;
  EXPECT_THAT(clipped.err, HasSubstr(StrCat("'", adapter_, "' is left out, it does not lead from generation 1 to the ",
                                            "model: field 'adapter.source.clip_radius' is 1; allowed: 3")));
  EXPECT_EQ(Run({"collection", "get", "clipped", "--json"}).json()["active_generation"], 2);
  const Outcome narrow = register_new("narrow", {"--dimension", "8", "--clip-radius", "1"}, {"--expects-adapter"});
  EXPECT_EQ(narrow.exit_code, 0) << narrow.err;
  EXPECT_THAT(narrow.err, HasSubstr("field 'adapter.input_dimension' is 12; allowed: 8, of generation 1"));
  // The same model from elsewhere, as far as anybody can tell: the operator's word counts.
  const Outcome same = register_new("same", {"--dimension", "12", "--clip-radius", "1"}, {});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("adapter 1 -> 2 is put"));
}

TEST(ChooseOldGeneration, TakesNoDraftNoNewerOneAndNoneOfAnUnknownEncoderUnlessItIsTheParent) {
  google::protobuf::RepeatedPtrField<v1::GenerationInfo> all;
  const auto add = [&](v1::GenerationState state, uint64_t items, const std::string& manifest) {
    v1::GenerationInfo* const one = all.Add();
    one->set_generation(static_cast<uint32_t>(all.size()));
    one->set_state(state);
    one->set_items(items);
    one->set_manifest_json(manifest);
  };
  const std::string known = R"({"encoder_crc32c": 7})", external = R"({"dimension": 3})";
  add(v1::GENERATION_STATE_REGISTERED, 5, known);
  add(v1::GENERATION_STATE_REGISTERED, 0, known);
  add(v1::GENERATION_STATE_RETIRED, 0, known);
  add(v1::GENERATION_STATE_DRAFT, 9, known);
  add(v1::GENERATION_STATE_REGISTERED, 9, external);
  EXPECT_EQ(ChooseOldGeneration(all, 7, 0, 0), 1u) << "with items";
  EXPECT_EQ(ChooseOldGeneration(all, 7, 2, 0), 2u) << "it is the parent";
  EXPECT_EQ(ChooseOldGeneration(all, 7, 4, 0), 0u) << "a draft";
  EXPECT_EQ(ChooseOldGeneration(all, 7, 5, 0), 5u) << "nobody knows better";
  EXPECT_EQ(ChooseOldGeneration(all, 0, 0, 0), 0u) << "nothing is known of the old model";
  EXPECT_EQ(ChooseOldGeneration(all, 8, 0, 0), 0u);
  add(v1::GENERATION_STATE_ACTIVE, 0, known);
  EXPECT_EQ(ChooseOldGeneration(all, 7, 0, 0), 6u) << "it serves";
  EXPECT_EQ(ChooseOldGeneration(all, 7, 0, 6), 1u) << "that is newer";
  EXPECT_EQ(ChooseOldGeneration(all, 7, 0, 1), 0u);
}

TEST_F(RolloutCommand, WhatMakesNoSenseIsSaid) {
  MakeShop("nonsense");
  EXPECT_EQ(Run({"rollout", "nonsense"}).exit_code, 2);
  EXPECT_EQ(Run({"rollout", "nonsense", "--generation", "2", "--model", "x"}).exit_code, 2);
  EXPECT_THAT(Run({"rollout", "nonsense", "--generation", "2", "--adapter", "maybe"}).err,
              HasSubstr("auto, always, never"));
  EXPECT_THAT(Run({"rollout", "nonsense", "--generation", "2", "--json"}).err, HasSubstr("--yes"));
  EXPECT_EQ(Run({"rollout", "nonsense", "--generation", "9", "--yes"}).exit_code, 3);
  EXPECT_EQ(Run({"rollout", "nobody", "--generation", "1", "--yes"}).exit_code, 3);
  EXPECT_EQ(Run({"rollout", "nonsense", "--model", "/no/such", "--yes"}).exit_code, 3);
  EXPECT_EQ(Run({"generation", "adapter", "fit", "nonsense", "1", "1"}).exit_code, 2);
  EXPECT_EQ(Run({"generation", "adapter", "sample", "nonsense", "7"}).exit_code, 3);
}

}  // namespace
}  // namespace lightcone::cli
