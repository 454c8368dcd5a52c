// The options table: defaults, ranges, JSON, recipes; the learning-rate schedules; the progress line.
#include "trainer/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/cores.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tests/trainer/tiny_set.h"
#include "trainer/methods/method.h"
#include "trainer/progress.h"
#include "trainer/schedule.h"
#include "trainer/tensor_threads.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

TEST(TrainConfig, DefaultsAreThePapersAndValid) {
  const TrainConfig config;
  EXPECT_TRUE(config.Validate().ok()) << MessageOf(config.Validate());
  EXPECT_EQ(GetTrainOption(config, "hbct.lambda"), "0.3");
  EXPECT_EQ(GetTrainOption(config, "hbct.tau"), "0.5");
  EXPECT_EQ(GetTrainOption(config, "hbct.beta"), "0.01");
  EXPECT_EQ(GetTrainOption(config, "hbct.epsilon"), "0.1");
  EXPECT_EQ(GetTrainOption(config, "weight_decay"), "0.0005");
  EXPECT_EQ(GetTrainOption(config, "encoder.dimension"), "128");
  EXPECT_DOUBLE_EQ(ClipRadiusFor(0), 1.0);
  EXPECT_DOUBLE_EQ(ClipRadiusFor(2), 1.4);
}

TEST(TrainConfig, EveryOptionCanBeSetToItsDefaultAndSurvivesJson) {
  TrainConfig config;
  for (const TrainOption& option : TrainOptions()) {
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option.allowed.empty()) << option.name;
    EXPECT_TRUE(SetTrainOption(config, option.name, option.default_value).ok()) << option.name;
    EXPECT_EQ(GetTrainOption(config, option.name), option.default_value);
  }
  const absl::StatusOr<TrainConfig> parsed = ParseTrainConfig(ToJson(config));
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
  EXPECT_EQ(ToJson(*parsed), ToJson(TrainConfig()));
}

TEST(TrainConfig, EveryNumberAndWordOutOfRangeIsNamed) {
  for (const TrainOption& option : TrainOptions()) {
    const bool number = option.allowed.find(" .. ") != std::string::npos && !option.allowed.ends_with("characters");
    const bool word = option.allowed.find(", ") != std::string::npos;
    if (!number && !word) continue;
    TrainConfig config;
    const std::string value = number ? "-1" : "nonsense";
    const absl::Status status = SetTrainOption(config, option.name, value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << option.name;
    EXPECT_THAT(MessageOf(status),
                HasSubstr("field '" + option.name + "' is " + value + "; allowed: " + option.allowed));
    EXPECT_EQ(ToJson(config), ToJson(TrainConfig())) << "an invalid value must change nothing";
  }
}

TEST(TrainConfig, WrongTypesUnknownOptionsAndMalformedJsonAreErrors) {
  TrainConfig config;
  EXPECT_THAT(MessageOf(SetTrainOption(config, "epochs", "ten")), HasSubstr("field 'epochs' is ten"));
  EXPECT_THAT(MessageOf(SetTrainOption(config, "epochs", "1.5")), HasSubstr("field 'epochs' is 1.5"));
  EXPECT_THAT(MessageOf(SetTrainOption(config, "nesterov", "1")), HasSubstr("allowed: true or false"));
  EXPECT_THAT(MessageOf(SetTrainOption(config, "epoch", "3")), HasSubstr("field 'option' is epoch; allowed: name, "));
  EXPECT_THAT(MessageOf(ParseTrainConfig("{").status()), HasSubstr("malformed JSON"));
  EXPECT_THAT(MessageOf(ParseTrainConfig("{\"batch\": 0}").status()),
              HasSubstr("field 'batch' is 0; allowed: 2 .. 65536"));
  EXPECT_THAT(MessageOf(ParseTrainConfig("{\"lr\": 0}").status()), HasSubstr("field 'option' is lr"));
  EXPECT_TRUE(ParseTrainConfig("{\"hbct.prototypes\": 0, \"hbct.self\": 0.0}").ok()) << "a deleted option, not set";
  EXPECT_THAT(MessageOf(ParseTrainConfig("{\"hbct.prototypes\": 1}").status()),
              HasSubstr("field 'option' is hbct.prototypes"));
}

TEST(TrainConfig, OptionsThatDoNotFitTogetherAreNamed) {
  TrainConfig config;
  config.method = "hbct";
  EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'old_model' is ; allowed: the folder of a trained model"));
  config.old_model = "folder";
  config.metric = "cosine";
  EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'metric' is cosine; allowed: lorentz"));
  config = TrainConfig();
  config.momentum = 0;
  EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'momentum' is 0"));
  config = TrainConfig();
  config.curvature = 4;
  config.clip_radius = 5;
  EXPECT_TRUE(config.Validate().ok()) << MessageOf(config.Validate());
  config.clip_radius = 5.5;
  EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'clip_radius' is 5.5; allowed: 0 .. 5 at curvature 4"));
  config.metric = "cosine";
  EXPECT_TRUE(config.Validate().ok()) << "nothing is clipped there";
  config = TrainConfig();
  config.hbct.tau = 0;
  EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'hbct.tau' is 0"));
}

TEST(TrainMethods, AreListedAndTheirSwitchesAreOptions) {
  std::set<std::string> options;
  for (const TrainOption& option : TrainOptions()) options.insert(option.name);
  ASSERT_NE(FindTrainingMethod("hbct"), nullptr);
  ASSERT_NE(FindTrainingMethod("independent"), nullptr);
  EXPECT_EQ(FindTrainingMethod("magic"), nullptr);
  EXPECT_TRUE(FindTrainingMethod("hbct")->needs_old_model);
  for (const MethodInfo& info : TrainingMethods()) {
    EXPECT_FALSE(info.help.empty());
    EXPECT_FALSE(info.source.empty());
    for (const std::string& name : info.switches) EXPECT_TRUE(options.contains(name)) << name;
  }
  EXPECT_TRUE(ReadsOption(*FindTrainingMethod("independent"), "epochs"));
  EXPECT_TRUE(ReadsOption(*FindTrainingMethod("l2"), "cached_old_features"));
  // "METHOD.OPTION" without an owner would enter the keys of every method's models.
  for (const std::string& name : options) {
    const bool of_a_method = name.find('.') != std::string::npos && !name.starts_with("encoder.");
    if (!of_a_method) continue;
    EXPECT_FALSE(ReadsOption(*FindTrainingMethod("independent"), name)) << name;
  }
}

TEST(TrainRecipes, TheScaleOfTheClassifierLetsOneClassWeighAsMuchAsAllOthers) {
  for (const int64_t classes : {2, 100, 964, 100'000}) {
    const double logit = ClassifierScaleFor(classes) / std::sqrt(3.0);  // the norm of a drawn normal is 3^-1/2
    EXPECT_NEAR(std::exp(logit), static_cast<double>(classes), 1e-9 * static_cast<double>(classes));
  }
}

TEST(TrainRecipes, QuickIsSizedByTheDataAndPaperIsThePapers) {
  Dataset dataset = TinyDataset();
  const TrainConfig small = *RecipeFor(dataset, "quick");
  EXPECT_EQ(small.epochs, 60);
  EXPECT_EQ(small.encoder.height, 6);
  EXPECT_EQ(small.encoder.rescale, "none");
  EXPECT_LE(small.batch, dataset.train.size() / 4);
  dataset.train.height = dataset.train.width = 32;
  dataset.train.channels = 3;
  dataset.train.labels.resize(50'000);  // only sizes matter here
  const int64_t large_classes = dataset.classes();
  const TrainConfig large = *RecipeFor(dataset, "quick");
  EXPECT_EQ(large.batch, 128);
  EXPECT_GE(large.epochs, 4);
  EXPECT_LE(large.epochs, 20);
  EXPECT_DOUBLE_EQ(large.encoder.width, 0.75);
  EXPECT_DOUBLE_EQ(large.classifier_scale, ClassifierScaleFor(large_classes));
  const TrainConfig paper = *RecipeFor(dataset, "paper");
  EXPECT_EQ(paper.encoder.architecture, "resnet18");
  EXPECT_EQ(paper.epochs, 200);
  EXPECT_EQ(paper.encoder.rescale, "fixed");
  EXPECT_DOUBLE_EQ(paper.classifier_scale, 1.0);
  EXPECT_EQ(paper.schedule, "cosine-epoch");
  EXPECT_THAT(MessageOf(RecipeFor(dataset, "fast").status()),
              HasSubstr("field 'recipe' is fast; allowed: quick, paper"));
  EXPECT_THAT(MessageOf(RecipeFor(Dataset(), "quick").status()), HasSubstr("field 'dataset.train' is 0 images"));
}

TEST(TrainingMethods, StartFromTheirOwnDefaultsAndWhatIsSetReplacesThem) {
  const Dataset dataset = TinyDataset();
  for (const MethodInfo& method : TrainingMethods()) {
    TrainConfig config = *RecipeFor(dataset, "quick");
    EXPECT_TRUE(ChooseMethod(method.name, config).ok()) << method.name;
    EXPECT_EQ(config.method, method.name);
    for (const auto& [option, value] : method.defaults) EXPECT_TRUE(ReadsOption(method, option)) << option;
  }
  TrainConfig config = *RecipeFor(dataset, "quick");
  ASSERT_TRUE(ChooseMethod("hbct", config).ok());
  EXPECT_EQ(config.hbct.lambda_until, 0);
  EXPECT_EQ(config.hbct.normals, "old-means") << "the preset's";
  ASSERT_TRUE(ChooseMethod("lightcone", config).ok());
  EXPECT_EQ(config.hbct.normals, "auto");
  EXPECT_EQ(config.hbct.lambda, 1);
  EXPECT_EQ(config.hbct.lambda_until, 0.5);
  ASSERT_TRUE(SetTrainOption(config, "hbct.lambda", "0.3").ok());
  EXPECT_EQ(config.hbct.lambda, 0.3);
  EXPECT_EQ(config.metric, "lorentz") << "the preset's: the method works in others, too";
  EXPECT_THAT(MessageOf(ChooseMethod("magic", config)),
              HasSubstr("field 'method' is 'magic'; allowed: independent, hbct"));
}

TEST(HbctNormals, StartAtOldMeansWhereAClassIsMetTooRarelyToFindItsOwnDirection) {
  const auto images = [](int classes, int of_each) {
    ImageSet set;
    for (int i = 0; i < classes * of_each; ++i) set.labels.push_back(i % classes);
    return set;
  };
  TrainConfig config;
  config.epochs = 8;
  for (const auto& [normals, few, many] :
       {std::tuple("drawn", "drawn", "drawn"), std::tuple("old-means", "old-means", "old-means"),
        std::tuple("auto", "old-means", "drawn")}) {
    config.hbct.normals = normals;
    EXPECT_EQ(NormalsFor(config, images(964, 15)), few) << normals;
    EXPECT_EQ(NormalsFor(config, images(100, 500)), many) << normals;
  }
  EXPECT_EQ(NormalsFor(config, images(10, 125)), "old-means") << "1,000 times";
  EXPECT_EQ(NormalsFor(config, images(10, 126)), "drawn");
}

TEST(TrainingMethods, AreChosenWithTheMetricThatTheyNeedAndRefuseAnother) {
  for (const MethodInfo& method : TrainingMethods()) {
    TrainConfig config = *RecipeFor(TinyDataset(), "quick");
    ASSERT_TRUE(ChooseMethod(method.name, config).ok()) << method.name;
    config.old_model = "folder";
    EXPECT_TRUE(config.Validate().ok()) << MessageOf(config.Validate());
    if (method.metric.empty()) continue;
    EXPECT_EQ(config.metric, method.metric);
    ASSERT_TRUE(SetTrainOption(config, "metric", method.metric == "cosine" ? "lorentz" : "cosine").ok());
    EXPECT_THAT(MessageOf(config.Validate()),
                HasSubstr(StrCat("field 'metric' is ", config.metric, "; allowed: ", method.metric, " (method '",
                                 method.name, "' needs it)")));
  }
}

TEST(LearningRate, FollowsItsSchedule) {
  TrainConfig config;
  config.epochs = 10;
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 0, 100), 0.1);
  EXPECT_NEAR(LearningRateAt(config, 500, 100), 0.05, 1e-12);
  EXPECT_LT(LearningRateAt(config, 999, 100), 1e-6);
  config.schedule = "cosine-epoch";
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 599, 100), LearningRateAt(config, 500, 100));
  config.schedule = "linear-step";
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 0, 100), 0.1);
  EXPECT_NEAR(LearningRateAt(config, 250, 100), 0.075, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 999, 100), 0.0001, 1e-12);
  config.schedule = "step";
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 299, 100), 0.1);
  EXPECT_NEAR(LearningRateAt(config, 300, 100), 0.02, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 900, 100), 0.0008, 1e-12);
  config.schedule = "constant";
  config.warmup_epochs = 2;
  EXPECT_NEAR(LearningRateAt(config, 0, 100), 0.1 / 200, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 99, 100), 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 500, 100), 0.1);
}

TrainProgress Example() {
  TrainProgress p;
  p.name = "new";
  p.epoch = 3, p.epochs = 20, p.step = 310, p.steps = 1240;
  p.losses = {{"total", 3.4125}, {"base", 2.9}};
  p.images_per_second = 1234.4;
  p.elapsed_seconds = 30, p.eta_seconds = 80;
  return p;
}

TEST(Progress, IsOneLineWithEpochStepLossesSpeedAndEta) {
  EXPECT_EQ(FormatProgress(Example(), 0),
            "new epoch 3/20  step 310/1240  total 3.413  base 2.900  1234 img/s  ETA 01:20");
  EXPECT_THAT(FormatProgress(Example(), 8), HasSubstr("[==>     ] epoch"));
  TrainProgress done = Example();
  done.finished = true;
  done.elapsed_seconds = 3725;
  EXPECT_THAT(FormatProgress(done, 0), HasSubstr("took 1:02:05"));
}

std::string Shown(bool terminal, std::chrono::steady_clock::duration interval) {
  std::FILE* file = std::tmpfile();
  ProgressPrinter printer(file, terminal, interval);
  TrainProgress p = Example();
  for (int i = 0; i < 3; ++i) printer.Show(p);
  p.finished = true;
  printer.Show(p);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Progress, RedrawsABarOnATerminalAndPrintsFewLinesElsewhere) {
  const std::string bar = Shown(true, std::chrono::hours(1));
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '\r'), 4);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '\n'), 1);
  const std::string lines = Shown(false, std::chrono::hours(1));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << "the first and the last";
  const std::string all = Shown(false, std::chrono::seconds(0));
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 4);
}

TEST(TensorThreads, AreThoseOfTheEnvironmentAsFarAsThereAreCores) {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(DefaultTensorThreads(), 1);
  for (const char* useless : {"100000", "0", "-1", "two", "", "2,1"}) {
    ::setenv("OMP_NUM_THREADS", useless, 1);
    EXPECT_EQ(DefaultTensorThreads(), AvailableCores()) << "'" << useless << "'";
  }
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(DefaultTensorThreads(), AvailableCores());
  if (given != nullptr) ::setenv("OMP_NUM_THREADS", before.c_str(), 1);
}

}  // namespace
}  // namespace lightcone
