// The method lightcone: its loss by finite differences, trainings of seconds in spaces that differ from the old one,
// and how it is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/checkpoint.h"
#include "models/encoders/checkpoint_torch.h"
#include "research/uncertainty/head_logits.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/finite_differences_torch.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/methods/method_torch.h"
#include "trainer/old_model_torch.h"
#include "trainer/train.h"

namespace lightcone {
namespace {

using testing::HasSubstr;
using torch::Tensor;

Embedded AsPoints(const Tensor& z, bool lorentz, double curvature) { return EmbedPoints(z, lorentz, curvature, 1.2); }

TEST(CarriedAlignment, GradientsOfBothSidesAgreeWithFiniteDifferences) {
  torch::Generator generator = at::detail::createCPUGenerator(5);
  const auto options = torch::dtype(torch::kFloat64);
  const Tensor fresh = torch::empty({5, 4}, options).normal_(0, 0.5, generator);
  const Tensor carried = fresh + torch::empty({5, 4}, options).normal_(0, 0.4, generator);
  const Tensor labels = torch::tensor(std::vector<int64_t>{0, 1, 0, 2, 1});
  for (const char* alignment : {"infonce", "distance"}) {
    for (const auto& [lorentz, curvature] : {std::pair(true, 1.0), {true, 0.3}, {false, 1.0}}) {
      LightconeConfig config;
      config.alignment = alignment;
      const auto loss = [&](const Tensor& a, const Tensor& b) {
        return CarriedAlignment(config, AsPoints(a, lorentz, curvature), AsPoints(b, lorentz, curvature), lorentz,
                                curvature, labels);
      };
      ExpectGradientOfDifferences([&](const Tensor& z) { return loss(z, carried); }, fresh);
      ExpectGradientOfDifferences([&](const Tensor& z) { return loss(fresh, z); }, carried);
    }
  }
}

TEST(CarriedAlignment, StaysFiniteForDegenerateBatches) {
  const Tensor labels = torch::tensor(std::vector<int64_t>{0, 0, 0});
  const Tensor spread = torch::tensor({{0.1f, 0.2f}, {-0.3f, 0.1f}, {0.2f, -0.4f}});
  for (const char* alignment : {"infonce", "distance"}) {
    LightconeConfig config;
    config.alignment = alignment;
    for (const bool lorentz : {true, false}) {
      const auto against = [&](const Tensor& carried, const Tensor& classes) {
        return [=](const Tensor& z) {
          return CarriedAlignment(config, AsPoints(z, lorentz, 1.0), AsPoints(carried, lorentz, 1.0), lorentz, 1.0,
                                  classes);
        };
      };
      ExpectFiniteWithGradient(against(spread, labels), spread);                              // one class, one place
      ExpectFiniteWithGradient(against(torch::zeros({3, 2}), labels), torch::zeros({3, 2}));  // at the origin
      ExpectFiniteWithGradient(against(spread * 100, labels), spread * 100);                  // at the clip
      ExpectFiniteWithGradient(against(spread.narrow(0, 0, 1), labels.narrow(0, 0, 1)), spread.narrow(0, 0, 1));
      ExpectFiniteWithGradient(against(spread.narrow(0, 0, 1).repeat({3, 1}), labels),
                               spread.narrow(0, 0, 1).repeat({3, 1}));  // identical points
    }
  }
}

class LightconeMethodTest : public testing::Test {
 protected:
  TrainConfig Config(const std::string& method, const std::string& metric, int dimension) const {
    TrainConfig config;
    config.method = method;
    config.metric = metric;
    config.encoder.architecture = "mlp";
    config.encoder.width = 0.125;
    config.encoder.dimension = dimension;
    config.batch = 60;  // two steps an epoch
    config.epochs = 1;
    config.learning_rate = 0.05;
    config.lightcone.compatible = "none";  // tests of HBCT's part say so
    config.lightcone.lambda = 0.3;
    config.lightcone.width = 16;
    config.threads = 1;
    if (method != "independent") config.old_model = folder_ / "old";
    return config;
  }

  void TrainOld(const std::string& metric, int dimension) const {
    TrainConfig config = Config("independent", metric, dimension);
    config.name = "old";
    MustTrain(config, "old");
  }

  TrainResult MustTrain(const TrainConfig& config, const std::string& name, const TrainCallback& report = {}) const {
    absl::StatusOr<TrainResult> result = Train(dataset_, config, folder_ / name, report);
    if (!result.ok()) ADD_FAILURE() << name << ": " << MessageOf(result.status());
    return result.ok() ? *std::move(result) : TrainResult();
  }

  // Stopped after each of its first `steps` steps, and then left alone, it is the training that never stopped.
  void ExpectEndsAsIfItHadNotStopped(const TrainConfig& config, int steps) const {
    const TrainResult whole = MustTrain(config, "whole");
    const std::atomic<bool> stop = true;
    for (int step = 0; step < steps; ++step) {
      EXPECT_EQ(Train(dataset_, config, folder_ / "parts", {}, &stop).status().code(), absl::StatusCode::kCancelled);
    }
    const TrainResult resumed = MustTrain(config, "parts");
    EXPECT_EQ(resumed.resumed_at, steps);
    EXPECT_EQ(whole.manifest.encoder_crc32c, resumed.manifest.encoder_crc32c);
    EXPECT_DOUBLE_EQ(whole.final_loss, resumed.final_loss);
  }

  const Dataset dataset_ = TinyDataset();
  const TemporaryFolder folder_;
};

TEST_F(LightconeMethodTest, TakesTwoStepsUnderEverySwitchAndMetric) {
  int count = 0;
  for (const char* metric : {"cosine", "lorentz"}) {
    std::filesystem::remove_all(folder_ / "old");
    TrainOld(metric, 8);
    for (const char* option : {"", "lightcone.lambda=0", "lightcone.alignment=distance", "lightcone.tau=0.05"}) {
      TrainConfig config = Config("lightcone", metric, 8);
      const std::string text = option;
      const size_t equals = text.find('=');
      if (!text.empty()) {
        ASSERT_TRUE(SetTrainOption(config, text.substr(0, equals), text.substr(equals + 1)).ok()) << option;
      }
      const TrainResult result = MustTrain(config, std::to_string(++count));
      EXPECT_EQ(result.steps, 2) << metric << " " << option;
      EXPECT_GT(result.final_loss, 0) << metric << " " << option;
    }
  }
}

TEST_F(LightconeMethodTest, TakesAnOldModelOfAnotherDimensionAndSaysThatNothingCompares) {
  for (const char* metric : {"lorentz", "cosine"}) {
    TrainOld(metric, 5);
    const TrainResult result = MustTrain(Config("lightcone", metric, 8), StrCat("new-", metric));
    EXPECT_EQ(result.manifest.dimension, 8);
    EXPECT_TRUE(result.manifest.through_adapter);
    EXPECT_EQ(result.manifest.parent, "old");
    std::filesystem::remove_all(folder_ / "old");
  }
  EXPECT_FALSE(MustTrain(Config("independent", "lorentz", 8), "alone").manifest.through_adapter);
}

TEST_F(LightconeMethodTest, TheHeadStartsAtTheOldMeansOrAsDrawn) {
  TrainOld("lorentz", 8);
  const auto trained = [&](const std::string& normals) {
    TrainConfig config = Config("lightcone", "lorentz", 8);
    config.lightcone.compatible = "hbct";
    config.hbct.normals = normals;
    return MustTrain(config, normals).manifest.encoder_crc32c;
  };
  const auto old_means = trained("old-means");
  EXPECT_EQ(trained("auto"), old_means) << "few images, one epoch";
  EXPECT_NE(trained("drawn"), old_means);
  // A training that was begun by the word goes on by what it came to.
  TrainConfig config = Config("lightcone", "lorentz", 8);
  config.lightcone.compatible = "hbct";
  config.hbct.normals = "auto";
  EXPECT_TRUE(Train(dataset_, config, folder_ / "old-means").ok());
}

// One call of the loss, with gradients that can be looked at.
struct OneStep {
  Tensor z_gradient;
  std::vector<Tensor> carrier, head;  // gradients of g's and of the head's parameters
};

class LightconeGradients : public LightconeMethodTest {
 protected:
  // The loss of a method for drawn images, z and labels in one step at `progress`.
  struct Visit {
    Tensor z, old, labels;
    double loss = 0;
  };
  Visit OneVisit(TrainConfig config, double progress) {
    config.encoder.height = config.encoder.width_px = 6;
    config.encoder.channels = 1;
    config.clip_radius = 1.2;
    const std::unique_ptr<OldModel> old = *OldModel::Load(config.old_model, config, dataset_.normalisation);
    const Classifier head = Head(config);
    const std::unique_ptr<TrainingMethod> method = *MakeTrainingMethod({config, dataset_, head, old.get()});
    torch::Generator generator = at::detail::createCPUGenerator(7);
    const Tensor images = torch::empty({12, 1, 6, 6}).normal_(0, 1, generator);
    Visit visit;
    visit.z = torch::empty({12, config.encoder.dimension}).normal_(0, 0.6, generator);
    visit.old = old->Embed(images);
    visit.labels = torch::arange(12, torch::kInt64).remainder(6);
    const Tensor rows = torch::arange(12, torch::kInt64) + 3;
    visit.loss = method->Loss({images, visit.labels, rows, progress}, visit.z).total.item<double>();
    return visit;
  }

  Classifier Head(const TrainConfig& config) const {
    return Classifier(dataset_.classes(), config.encoder.dimension, config.metric == "lorentz", config.curvature, 1.0,
                      3, HeadOptionsOf(config));
  }

  OneStep Step(TrainConfig config, bool base_only = false) {
    config.encoder.height = config.encoder.width_px = 6;
    config.encoder.channels = 1;
    config.clip_radius = 1.2;
    const std::unique_ptr<OldModel> old = *OldModel::Load(config.old_model, config, dataset_.normalisation);
    const Classifier head = Head(config);
    const std::unique_ptr<TrainingMethod> method = *MakeTrainingMethod({config, dataset_, head, old.get()});
    torch::Generator generator = at::detail::createCPUGenerator(7);
    const Tensor images = torch::empty({12, 1, 6, 6}).normal_(0, 1, generator);
    Tensor z = torch::empty({12, config.encoder.dimension}).normal_(0, 0.4, generator).requires_grad_();
    const Tensor labels = torch::arange(12, torch::kInt64).remainder(6);
    const Tensor loss = base_only ? head.Loss(head.Embed(z, config.clip_radius), labels)
                                  : method->Loss({images, labels, torch::arange(12, torch::kInt64)}, z).total;
    loss.backward();
    OneStep step{z.grad(), {}, {}};
    if (const auto own = method->module()) {
      for (const Tensor& one : own->parameters()) step.carrier.push_back(one.grad());
    }
    for (const Tensor& one : head.parameters()) step.head.push_back(one.grad());
    return step;
  }
};

TEST_F(LightconeGradients, LambdaAloneSaysHowFarTheNetworkIsDrawn) {
  for (const char* metric : {"lorentz", "cosine"}) {
    TrainOld(metric, 5);
    TrainConfig config = Config("lightcone", metric, 8);
    const Tensor base = Step(config, /*base_only=*/true).z_gradient;
    config.lightcone.lambda = 0;
    const OneStep none = Step(config);
    EXPECT_TRUE(torch::allclose(none.z_gradient, base, 1e-5, 1e-7)) << metric;
    config.lightcone.lambda = 0.5;
    const OneStep half = Step(config);
    config.lightcone.lambda = 1;
    const OneStep one = Step(config);
    EXPECT_GT((half.z_gradient - base).abs().max().item<double>(), 1e-5) << metric;
    EXPECT_TRUE(torch::allclose(2 * (half.z_gradient - base), one.z_gradient - base, 1e-4, 1e-6)) << metric;
    for (size_t i = 0; i < none.carrier.size(); ++i) {
      ASSERT_TRUE(none.carrier[i].defined());
      EXPECT_TRUE(torch::equal(none.carrier[i], one.carrier[i])) << "g is fitted at full weight";
    }
    EXPECT_GT(none.carrier[0].abs().max().item<double>(), 0);
    std::filesystem::remove_all(folder_ / "old");
  }
}

TEST_F(LightconeGradients, WithoutAWordItIsHbctAndLambdaAddsThePullOfTheCarried) {
  TrainOld("lorentz", 8);
  TrainConfig config = Config("hbct", "lorentz", 8);
  const OneStep hbct = Step(config);
  config.method = "lightcone";
  config.lightcone = {};
  const OneStep plain = Step(config);
  EXPECT_TRUE(torch::equal(plain.z_gradient, hbct.z_gradient));
  EXPECT_TRUE(plain.carrier.empty()) << "nothing is trained along";
  config.lightcone.lambda = 0.5;
  const OneStep drawn = Step(config);
  EXPECT_GT((drawn.z_gradient - hbct.z_gradient).abs().max().item<double>(), 1e-5);
  EXPECT_FALSE(drawn.carrier.empty());
  config.encoder.architecture = "mlp";
  EXPECT_FALSE(MustTrain(config, "comparable").manifest.through_adapter) << "it compares as it is, too";
}

// The loss against its parts put together by hand.
TEST_F(LightconeGradients, TheWeightOfHbctFallsWithTheShareOfTheSteps) {
  TrainOld("lorentz", 8);
  TrainConfig config = Config("hbct", "lorentz", 8);
  config.curvature = 1;
  config.hbct.lambda = 0.7;
  config.hbct.lambda_until = 0.8;
  for (const double progress : {0.0, 0.25, 0.5, 0.9}) {
    const Visit visit = OneVisit(config, progress);
    const auto points = [](const Tensor& z, double radius) { return EmbedPoints(z, true, 1.0, radius); };
    const double old_clip = ReadManifest(config.old_model)->clip_radius;
    const HbctSides sides{points(visit.z, 1.2), points(visit.old, old_clip)};
    const double expected = Head(config).Loss(sides.fresh, visit.labels).item<double>() +
                            0.7 * std::max(0.0, 1 - progress / 0.8) *
                                HbctCompatibility(config.hbct, 1.0, sides, visit.labels).total.item<double>();
    EXPECT_NEAR(visit.loss, expected, 1e-5 * std::abs(expected)) << progress;
  }
}

TEST_F(LightconeGradients, TheHeadIsNotMovedByTheCarried) {
  TrainOld("lorentz", 5);
  const TrainConfig config = Config("lightcone", "lorentz", 8);
  const OneStep base = Step(config, /*base_only=*/true), all = Step(config);
  ASSERT_EQ(base.head.size(), all.head.size());
  for (size_t i = 0; i < all.head.size(); ++i) EXPECT_TRUE(torch::allclose(base.head[i], all.head[i], 1e-5, 1e-7)) << i;
}

TEST_F(LightconeMethodTest, AStoppedTrainingEndsAsIfItHadNotStopped) {
  TrainOld("lorentz", 6);
  TrainConfig config = Config("lightcone", "lorentz", 8);
  config.epochs = 2;
  ExpectEndsAsIfItHadNotStopped(config, 3);
}

TEST_F(LightconeMethodTest, AStoppedTrainingWithHbctEndsAsIfItHadNotStopped) {
  TrainOld("lorentz", 8);
  TrainConfig config = Config("lightcone", "lorentz", 8);
  config.lightcone.compatible = "hbct";
  config.epochs = 3;
  ExpectEndsAsIfItHadNotStopped(config, 4);
}

TEST_F(LightconeMethodTest, AStoredHeadSaysOfEmbeddingsWhatItSaidInTheTraining) {
  for (const double curvature : {0.3, 1.5}) {
    TrainConfig config = Config("independent", "lorentz", 8);
    config.curvature = curvature;
    const std::string folder = folder_ / StrCat("curved-", curvature);
    const Manifest manifest = MustTrain(config, StrCat("curved-", curvature)).manifest;
    Classifier head(dataset_.classes(), 8, true, curvature, 1.0, 3, HeadOptionsOf(config));
    const Checkpoint checkpoint = *ReadCheckpoint(folder + "/checkpoint.bin");
    ASSERT_TRUE(LoadModule(*checkpoint.Section("classifier"), "classifier", head).ok());
    torch::Generator generator = at::detail::createCPUGenerator(2);
    const Tensor z = torch::empty({5, 8}).normal_(0, 1, generator);
    torch::NoGradGuard no_grad;
    const Tensor expected = head.Logits(head.Embed(z, manifest.clip_radius));
    const std::vector<float> logits = HeadLogits(folder, manifest, {z.data_ptr<float>(), 40}).value();
    ASSERT_EQ(std::ssize(logits), expected.numel());
    EXPECT_TRUE(torch::allclose(torch::tensor(logits).view(expected.sizes()), expected, 1e-4, 1e-5)) << curvature;
    Manifest other = manifest;
    other.dimension = 5;
    EXPECT_THAT(MessageOf(HeadLogits(folder, other, {z.data_ptr<float>(), 40}).status()),
                HasSubstr("a head of metric lorentz and 8 numbers; needed: lorentz and 5"));
  }
  EXPECT_EQ(HeadLogits(folder_ / "none", Manifest(), {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LightconeMethodTest, RefusesWhatNoCollectionOrAdapterCanHold) {
  TrainOld("cosine", 8);
  const absl::Status metric = Train(dataset_, Config("lightcone", "lorentz", 8), folder_ / "refused").status();
  EXPECT_EQ(metric.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(metric), HasSubstr("old_model.metric"));
  const absl::Status euclidean = Train(dataset_, Config("lightcone", "euclidean", 8), folder_ / "refused").status();
  EXPECT_EQ(euclidean.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(euclidean), HasSubstr("lorentz, cosine"));
  TrainConfig cosine = Config("lightcone", "cosine", 8);
  cosine.lightcone.compatible = "hbct";
  EXPECT_THAT(MessageOf(Train(dataset_, cosine, folder_ / "refused").status()),
              HasSubstr("field 'metric' is cosine; allowed: lorentz; or cosine with lightcone.compatible=none"));
  std::filesystem::remove_all(folder_ / "old");
  TrainOld("lorentz", 5);
  TrainConfig wider = Config("lightcone", "lorentz", 8);
  wider.lightcone.compatible = "hbct";
  EXPECT_THAT(MessageOf(Train(dataset_, wider, folder_ / "refused").status()),
              HasSubstr("field 'old_model.dimension' is 5; allowed: 8, as the new model; or any with "
                        "lightcone.compatible=none"));
  TrainConfig wide = Config("hbct", "lorentz", 5);
  wide.clip_radius = 12;
  EXPECT_THAT(MessageOf(Train(dataset_, wide, folder_ / "refused").status()),
              HasSubstr("field 'clip_radius' is 12; allowed: 0 .. 10 at curvature 1 (sqrt(curvature) * clip_radius is "
                        "at most 10)"));
  TrainConfig learnt = Config("lightcone", "lorentz", 8);
  learnt.learn_curvature = true;
  EXPECT_THAT(MessageOf(Train(dataset_, learnt, folder_ / "refused").status()), HasSubstr("learn_curvature"));
}

}  // namespace
}  // namespace lightcone
