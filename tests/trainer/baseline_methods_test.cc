// Every Euclidean baseline in a training of two steps, resumed and not; and the ways in which one is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/number_text.h"
#include "base/status.h"
#include "models/checkpoint.h"
#include "models/encoders/encoder.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/data/split.h"
#include "trainer/methods/method.h"
#include "trainer/old_head_torch.h"
#include "trainer/train.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

const std::vector<std::string>& Baselines() {
  static const auto* const kNames =
      new std::vector<std::string>{"l2", "bct", "bct+32", "unibct", "nccl", "hot-refresh", "contra", "advbct", "hoc"};
  return *kNames;
}

class BaselineMethods : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = testing::TempDir() + "/baseline_methods_test_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
    Dataset half = TinyDataset();
    half.train = SelectClasses(half.train, 3);
    half.class_names.resize(3);
    TrainConfig config = TwoSteps();
    config.name = "old";
    config.batch = 30;
    config.epochs = 4;
    ASSERT_TRUE(Train(half, config, Old()).ok());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root_); }

  static std::string Old() { return root_ + "/old"; }

  TrainConfig ConfigOf(const std::string& method) const {
    TrainConfig config = TwoSteps();
    config.method = method;
    config.old_model = Old();
    return config;
  }

  // A folder of its own for each call.
  absl::StatusOr<TrainResult> TrainOnce(const TrainConfig& config, const TrainCallback& report = {}) {
    folder_ = root_ + "/" + std::to_string(++count_);
    return Train(dataset_, config, folder_, report);
  }
  void MustTrain(const TrainConfig& config, const std::string& what) {
    const absl::StatusOr<TrainResult> result = TrainOnce(config);
    ASSERT_TRUE(result.ok()) << what << ": " << MessageOf(result.status());
    EXPECT_TRUE(std::isfinite(result->final_loss)) << what;
  }
  void ExpectRefused(const TrainConfig& config, absl::StatusCode code, const std::string& text) {
    const absl::Status status = TrainOnce(config).status();
    EXPECT_EQ(status.code(), code) << text;
    EXPECT_THAT(MessageOf(status), HasSubstr(text));
  }

  static std::string root_;
  static int count_;
  std::string folder_;
  Dataset dataset_ = TinyDataset();
};
std::string BaselineMethods::root_;
int BaselineMethods::count_ = 0;

TEST_F(BaselineMethods, AreRegisteredWithSourceAndSwitchesAndNeedAnOldModelInCosineSpace) {
  for (const std::string& name : Baselines()) {
    const MethodInfo* info = FindTrainingMethod(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_TRUE(info->needs_old_model) << name;
    EXPECT_EQ(info->metric, "cosine") << name;
    EXPECT_FALSE(info->source.empty()) << name;
    for (const std::string& option : info->switches) {
      TrainConfig config;
      EXPECT_TRUE(SetTrainOption(config, option, GetTrainOption(config, option)).ok()) << name << " " << option;
    }
    TrainConfig config = ConfigOf(name);
    config.metric = "lorentz";
    EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'metric' is lorentz; allowed: cosine")) << name;
    config.metric = "cosine";
    config.old_model.clear();
    EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'old_model'")) << name;
  }
}

TEST_F(BaselineMethods, TrainTwoStepsWithFiniteLosses) {
  for (const std::string& name : Baselines()) {
    std::vector<std::pair<std::string, double>> losses;
    const absl::StatusOr<TrainResult> result = TrainOnce(ConfigOf(name), [&](const TrainProgress& p) {
      if (!p.losses.empty()) losses = p.losses;  // the last report may have nothing new
    });
    ASSERT_TRUE(result.ok()) << name << ": " << MessageOf(result.status());
    EXPECT_EQ(result->steps, 2) << name;
    EXPECT_EQ(result->manifest.method, name);
    EXPECT_EQ(result->manifest.parent, "old") << name;
    ASSERT_GE(losses.size(), 3u) << name;
    for (const auto& [part, value] : losses) EXPECT_TRUE(std::isfinite(value)) << name << " " << part;
  }
}

TEST_F(BaselineMethods, TrainUnderEverySwitch) {
  const std::vector<std::vector<std::string>> changes = {
      {"l2", "l2.form", "mse"},
      {"l2", "cached_old_features", "true"},
      {"contra", "contra.negatives", "10"},
      {"hot-refresh", "hot_refresh.negatives", "3"},
      {"hoc", "hoc.same_class", "zeroed"},
      {"bct", "bct.head", "old-means"},
      {"bct+32", "bct.head", "old-means"},
      {"unibct", "unibct.wait", "false"},
      {"unibct", "unibct.refinements", "0"},
      {"nccl", "nccl.credible", "1"},
      {"advbct", "advbct.elastic", "false"},
      {"bct", "base_loss", "arcface"},
      {"hoc", "base_loss", "cosface"},
      {"l2", "base_loss", "bce"},
  };
  for (const std::vector<std::string>& change : changes) {
    TrainConfig config = ConfigOf(change[0]);
    ASSERT_TRUE(SetTrainOption(config, change[1], change[2]).ok()) << change[1];
    MustTrain(config, change[0] + " " + change[1] + "=" + change[2]);
  }
}

TEST_F(BaselineMethods, WithAStateOfTheirOwnResumeBitForBit) {
  for (const char* name : {"unibct", "nccl", "advbct"}) {
    TrainConfig config = ConfigOf(name);
    config.epochs = 3;
    config.nccl.queue = 70;  // wraps around
    MustTrain(config, name);
    const Checkpoint whole = *ReadCheckpoint(folder_ + "/checkpoint.bin");
    const std::atomic<bool> stop = true;
    const std::string parts = folder_ + "-parts";
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Train(dataset_, config, parts, {}, &stop).status().code(), absl::StatusCode::kCancelled) << name;
    }
    ASSERT_TRUE(Train(dataset_, config, parts).ok()) << name;
    const Checkpoint resumed = *ReadCheckpoint(parts + "/checkpoint.bin");
    for (const char* section : {"network", "classifier", "method"}) {
      EXPECT_EQ(whole.sections.at(section), resumed.sections.at(section)) << name << " " << section;
    }
  }
}

TEST_F(BaselineMethods, BctPlus32WritesALongerVectorWithThePrefixInItsManifest) {
  TrainConfig config = ConfigOf("bct+32");
  config.extra_dimensions = 5;
  const absl::StatusOr<TrainResult> result = TrainOnce(config);
  ASSERT_TRUE(result.ok()) << MessageOf(result.status());
  EXPECT_EQ(result->manifest.dimension, 13);
  EXPECT_EQ(result->manifest.compatible_prefix, 8);
  const auto encoder = *Encoder::LoadFolder(folder_);
  EXPECT_EQ(encoder->dimension(), 13);
  EXPECT_EQ(encoder->EmbedPixels(dataset_.test.pixels, dataset_.test.size())->size(),
            static_cast<size_t>(dataset_.test.size() * 13));
}

TEST_F(BaselineMethods, BringNewEmbeddingsCloserToTheOldOnesThanWithoutTheirLoss) {
  const auto old = *Encoder::LoadFolder(Old());
  const auto unit_rows = [&](const Encoder& encoder) {
    const std::vector<float> z = *encoder.EmbedPixels(dataset_.test.pixels, dataset_.test.size());
    const torch::Tensor rows = torch::tensor(z).reshape({dataset_.test.size(), encoder.dimension()});
    return rows / rows.norm(2, 1, true);
  };
  // Mean cosine of new and old embeddings of the same test images.
  const auto likeness = [&](TrainConfig config, const std::string& weight, const std::string& value) {
    config.epochs = 20;
    EXPECT_TRUE(SetTrainOption(config, weight, value).ok()) << weight;
    EXPECT_TRUE(TrainOnce(config).ok()) << config.method;
    return (unit_rows(**Encoder::LoadFolder(folder_)) * unit_rows(*old)).sum(1).mean().item<double>();
  };
  for (const auto& [method, weight] :
       std::vector<std::pair<std::string, std::string>>{{"l2", "l2.lambda"},
                                                        {"bct", "bct.lambda"},
                                                        {"unibct", "unibct.lambda"},
                                                        {"nccl", "nccl.lambda"},
                                                        {"contra", "contra.lambda"},
                                                        {"hot-refresh", "hot_refresh.lambda"},
                                                        {"advbct", "advbct.lambda"},
                                                        {"hoc", "hoc.lambda"}}) {
    TrainConfig config = ConfigOf(method);
    config.bct.head = "old-means";  // the old head knows only half of the classes
    config.unibct.wait = false;
    config.advbct.adversarial = 0;
    EXPECT_GT(likeness(config, weight, "2"), likeness(config, weight, "0")) << method;
  }
}

TEST_F(BaselineMethods, AnOldModelOfAnotherDimensionIsRefused) {
  for (const std::string& name : Baselines()) {
    TrainConfig config = ConfigOf(name);
    config.encoder.dimension = 9;
    ExpectRefused(config, absl::StatusCode::kFailedPrecondition,
                  "field 'old_model.dimension' is 8; allowed: 9, as the new model");
  }
}

TEST_F(BaselineMethods, BctWithoutAnOldHeadSaysWhatElseCanBeDone) {
  const std::string bare = root_ + "/bare";
  std::filesystem::copy(Old(), bare);
  std::filesystem::remove(bare + "/checkpoint.bin");
  for (const char* name : {"bct", "bct+32"}) {
    TrainConfig config = ConfigOf(name);
    config.old_model = bare;
    ExpectRefused(config, absl::StatusCode::kFailedPrecondition, "field 'old_model.head' is missing");
    ExpectRefused(config, absl::StatusCode::kFailedPrecondition, "bct.head to old-means");
    config.bct.head = "old-means";
    MustTrain(config, name);
  }
}

TEST_F(BaselineMethods, BctFindsTheOldClassesByName) {
  const Manifest manifest = *ReadManifest(Old());
  const OldHead head = *LoadOldHead(Old(), manifest, {"class2", "somebody", "class0"});
  EXPECT_EQ(head.weight.size(0), 3);
  EXPECT_TRUE(torch::equal(head.row_of, torch::tensor(std::vector<int64_t>{2, -1, 0}, torch::kInt64)));
  dataset_.class_names = {"a", "b", "c", "d", "e", "f"};
  ExpectRefused(ConfigOf("bct"), absl::StatusCode::kFailedPrecondition, "field 'old_model.head.classes'");
}

TEST_F(BaselineMethods, ADamagedOldHeadIsDataLossAndNamesTheFile) {
  const std::string damaged = root_ + "/damaged";
  std::filesystem::copy(Old(), damaged);
  Checkpoint checkpoint = *ReadCheckpoint(damaged + "/checkpoint.bin");
  checkpoint.sections["classifier"] = "no archive";
  ASSERT_TRUE(WriteCheckpoint(damaged + "/checkpoint.bin", checkpoint).ok());
  TrainConfig config = ConfigOf("bct");
  config.old_model = damaged;
  ExpectRefused(config, absl::StatusCode::kDataLoss, damaged + "/checkpoint.bin");
}

TEST_F(BaselineMethods, WhatLeavesNothingToBeCompatibleWithIsRefused) {
  TrainConfig config = ConfigOf("nccl");
  config.nccl.credible = 0;
  ExpectRefused(config, absl::StatusCode::kInvalidArgument, "no old embedding is credible");
}

TEST_F(BaselineMethods, OptionsThatDoNotGoTogetherAreRefused) {
  const auto message = [&](const std::string& method, const std::string& name, const std::string& value,
                           const std::string& metric) {
    TrainConfig config = ConfigOf(method);
    config.metric = metric;
    EXPECT_TRUE(SetTrainOption(config, name, value).ok()) << name;
    return MessageOf(config.Validate());
  };
  EXPECT_THAT(message("nccl", "nccl.queue", "59", "cosine"),
              HasSubstr("field 'nccl.queue' is 59; allowed: at least batch (60)"));
  EXPECT_THAT(message("independent", "base_loss", "arcface", "lorentz"),
              HasSubstr("field 'base_loss' is arcface; allowed: auto, lorentz-mlr, bce for metric 'lorentz'"));
  EXPECT_THAT(message("independent", "base_loss", "arcface", "euclidean"), HasSubstr("allowed: auto, softmax, bce"));
  EXPECT_THAT(message("independent", "base_loss", "lorentz-mlr", "cosine"), HasSubstr("field 'base_loss'"));
  EXPECT_THAT(message("independent", "learn_curvature", "true", "cosine"), HasSubstr("field 'learn_curvature'"));
  EXPECT_THAT(message("bct+32", "extra_dimensions", "4090", "cosine"), HasSubstr("field 'extra_dimensions' is 4090"));
}

TEST_F(BaselineMethods, ALearntCurvatureMovesAndEntersTheManifest) {
  TrainConfig config = TwoSteps();
  config.metric = "lorentz";
  config.learn_curvature = true;
  config.curvature_learning_rate = 0.05;
  config.epochs = 4;
  const absl::StatusOr<TrainResult> result = TrainOnce(config);
  ASSERT_TRUE(result.ok()) << MessageOf(result.status());
  EXPECT_NE(result->manifest.curvature, 1.0);
  EXPECT_GE(result->manifest.curvature, 0.1);
  EXPECT_LE(result->manifest.curvature, 10.0);
  config.clip_radius = 4;  // sqrt(10) x 4 is too much for float32, 1 x 4 would not be
  EXPECT_THAT(MessageOf(config.Validate()), HasSubstr("field 'clip_radius' is 4; allowed: 0 .. "));
}

TEST_F(BaselineMethods, HbctTrainsWithALearntCurvatureAndAnotherClipStep) {
  TrainConfig config = TwoSteps();
  config.metric = "lorentz";
  config.name = "old";
  const absl::StatusOr<TrainResult> old = TrainOnce(config);
  ASSERT_TRUE(old.ok());
  config.old_model = folder_;
  config.method = "hbct";
  config.learn_curvature = true;
  config.clip_step = 0.5;
  const absl::StatusOr<TrainResult> result = TrainOnce(config);
  ASSERT_TRUE(result.ok()) << MessageOf(result.status());
  EXPECT_DOUBLE_EQ(result->manifest.clip_radius, 1.5);
  EXPECT_TRUE(std::isfinite(result->final_loss));

  // The K that was learnt is a parent's where a new model has every digit of it, and a refusal shows every digit.
  const double learnt = result->manifest.curvature;
  ASSERT_NE(learnt, 1.0);
  config.old_model = folder_;
  config.learn_curvature = false;
  config.curvature = std::nextafter(learnt, 2.0);
  ExpectRefused(config, absl::StatusCode::kFailedPrecondition,
                StrCat("field 'old_model.curvature' is ", NumberText(learnt),
                       "; allowed: ", NumberText(config.curvature), ", as the new model"));
  EXPECT_NE(NumberText(learnt), NumberText(config.curvature));
  config.curvature = learnt;
  const absl::StatusOr<TrainResult> child = TrainOnce(config);
  EXPECT_TRUE(child.ok()) << MessageOf(child.status());
}

}  // namespace
}  // namespace lightcone
