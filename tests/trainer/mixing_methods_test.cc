// Trainings of seconds with MixBCT, BT2 and HypMix: steps, resumption, exported vectors, and how each is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/checkpoint.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/encoder.h"
#include "tests/models/python_vectors_torch.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/evaluate.h"
#include "trainer/frozen_features_torch.h"
#include "trainer/losses/bt2_torch.h"
#include "trainer/run_torch.h"
#include "trainer/train.h"

namespace lightcone {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr int kOldDimension = 8, kExtra = 3;

class MixingMethodsTest : public testing::Test {
 protected:
  TrainConfig Config(const std::string& method) const {
    TrainConfig config;
    config.method = method;
    config.metric = "cosine";
    config.encoder.architecture = "mlp";
    config.encoder.width = 0.125;
    config.encoder.dimension = kOldDimension;
    config.extra_dimensions = kExtra;
    config.batch = 60;  // two steps an epoch
    config.epochs = 1;
    config.learning_rate = 0.05;
    config.threads = 1;
    if (FindTrainingMethod(method)->needs_old_model) config.old_model = folder_ / "old";
    if (method == "bt2") config.bt2.base_model = folder_ / "base";
    return config;
  }

  TrainResult MustTrain(const TrainConfig& config, const std::string& name) const {
    absl::StatusOr<TrainResult> result = Train(dataset_, config, folder_ / name);
    if (!result.ok()) ADD_FAILURE() << name << ": " << MessageOf(result.status());
    return result.ok() ? *std::move(result) : TrainResult();
  }

  void TrainOldAndBase() const {
    TrainConfig config = Config("independent");
    config.name = "old";
    MustTrain(config, "old");
    config.name = "base";
    config.seed = 2;
    MustTrain(config, "base");
  }

  std::string MessageOfRefusal(const TrainConfig& config, absl::StatusCode code, const std::string& name = "refused") {
    const absl::Status status = Train(dataset_, config, folder_ / name).status();
    EXPECT_EQ(status.code(), code) << MessageOf(status);
    return MessageOf(status);
  }

  const Dataset dataset_ = TinyDataset();
  const TemporaryFolder folder_;
};

TEST_F(MixingMethodsTest, TakeTwoStepsUnderEverySwitch) {
  TrainOldAndBase();
  const std::vector<std::pair<std::string, std::string>> switches = {
      {"mixbct", ""},
      {"mixbct", "mixbct.alpha=0"},
      {"mixbct", "mixbct.alpha=1"},
      {"mixbct", "mixbct.denoise=false"},
      {"mixbct", "mixbct.old_features=plain"},
      {"mixbct", "mixbct.old_features=batch"},
      {"mixbct", "base_loss=cosface"},
      {"bt2", ""},
      {"bt2", "bt2.orthogonal=cayley"},
      {"bt2", "bt2.f=paper"},
      {"bt2", "bt2.old_features=plain"},
      {"bt2", "bt2.old_features=batch"},
      {"bt2", "bt2.lambda1=0"},
      {"hypmix", ""},
      {"hypmix", "hypmix.geometry=spherical"},
      {"hypmix", "hypmix.geometry=hyperbolic"},
      {"hypmix", "augment=drawing"},
  };
  for (size_t i = 0; i < switches.size(); ++i) {
    const auto& [method, option] = switches[i];
    TrainConfig config = Config(method);
    const size_t equals = option.find('=');
    if (!option.empty()) {
      ASSERT_TRUE(SetTrainOption(config, option.substr(0, equals), option.substr(equals + 1)).ok()) << option;
    }
    const TrainResult result = MustTrain(config, std::to_string(i));
    EXPECT_EQ(result.steps, 2) << method << " " << option;
    EXPECT_GT(result.final_loss, 0) << method << " " << option;
  }
}

TEST_F(MixingMethodsTest, AStoppedTrainingEndsAsIfItHadNotStopped) {
  TrainOldAndBase();
  for (const std::string method : {"mixbct", "bt2", "hypmix"}) {
    TrainConfig config = Config(method);
    config.epochs = 2;
    const TrainResult whole = MustTrain(config, method + "-whole");
    const std::atomic<bool> stop = true;  // after every step
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(Train(dataset_, config, folder_ / (method + "-parts"), {}, &stop).status().code(),
                absl::StatusCode::kCancelled);
    }
    const TrainResult resumed = MustTrain(config, method + "-parts");
    EXPECT_EQ(resumed.resumed_at, 3) << method;
    EXPECT_EQ(whole.manifest.encoder_crc32c, resumed.manifest.encoder_crc32c) << method;
    EXPECT_DOUBLE_EQ(whole.final_loss, resumed.final_loss) << method;
  }
}

TEST_F(MixingMethodsTest, HypmixLearnsToTellClassesApart) {
  TrainConfig config = Config("hypmix");
  config.batch = 24;
  config.epochs = 16;
  const auto map = [&](const std::string& name) {
    const std::unique_ptr<Encoder> encoder = *Encoder::LoadFolder(folder_ / name);
    const std::vector<float> z = *EmbedSplit(*encoder, dataset_.test);
    const LabelledEmbeddings test{z, dataset_.test.labels, 1.0};
    return EvaluateRetrieval({"cosine", 1.0, kOldDimension}, test, test, true)->map;
  };
  MustTrain(config, "trained");
  config.learning_rate = 1e-8;
  MustTrain(config, "untrained");
  EXPECT_GT(map("trained"), map("untrained"));
  EXPECT_GT(map("trained"), 0.6);
}

TEST_F(MixingMethodsTest, Bt2GivesALongerVectorOfConstantNormWithACompatiblePrefix) {
  TrainOldAndBase();
  TrainConfig config = Config("bt2");
  config.bt2.scale = 3;
  const TrainResult result = MustTrain(config, "new");
  EXPECT_EQ(result.manifest.dimension, kOldDimension + kExtra);
  EXPECT_EQ(result.manifest.compatible_prefix, kOldDimension);
  EXPECT_EQ(result.manifest.parent, "old");
  const std::unique_ptr<Encoder> encoder = *Encoder::LoadFolder(folder_ / "new");
  const std::vector<float> z = *EmbedSplit(*encoder, dataset_.test);
  const Tensor rows = torch::tensor(z).reshape({dataset_.test.size(), kOldDimension + kExtra});
  EXPECT_TRUE(rows.square().sum(1).allclose(torch::full({rows.size(0)}, 10.0f), 0, 1e-4)) << "1 + C^2";
  EXPECT_GT(rows.std(0).min().item<double>(), 0);
}

TEST_F(MixingMethodsTest, PythonsTorchJitLoadGivesTheVectorsOfBt2sEncoder) {
  TrainOldAndBase();
  MustTrain(Config("bt2"), "new");
  PythonVectors vectors(folder_ / "");
  vectors.Add("bt2", folder_ / "new/encoder.pt", **Encoder::LoadFolder(folder_ / "new"));
  vectors.ExpectTheSame();
}

TEST_F(MixingMethodsTest, Bt2ExportsTheVectorsOfTheNetworkAndTransformInItsCheckpoint) {
  TrainOldAndBase();
  TrainConfig config = Config("bt2");
  config.bt2.new_dimension = 6;
  config.bt2.orthogonal = "cayley";
  TrainConfig base = Config("independent");
  base.encoder.dimension = 6;
  MustTrain(base, "base6");
  config.bt2.base_model = folder_ / "base6";
  const TrainResult result = MustTrain(config, "new");
  EXPECT_EQ(result.manifest.dimension, 6 + kExtra);

  const Checkpoint checkpoint = *ReadCheckpoint(folder_ / "new/checkpoint.bin");
  EncoderConfig encoder_config = (*ResolveConfig(dataset_, config)).encoder;
  encoder_config.dimension = kOldDimension + 6;
  const auto network = *BuildNetwork(encoder_config, /*seed=*/99);
  ASSERT_TRUE(LoadModule(*checkpoint.Section("network"), "network", *network).ok());
  network->eval();
  Bt2Transform transform({kOldDimension, 6, kExtra, 2, /*cayley=*/true, /*relu_input=*/true}, /*seed=*/99);
  ASSERT_TRUE(LoadModule(*checkpoint.Section("method"), "method", transform).ok());

  torch::NoGradGuard no_grad;
  torch::Generator generator = at::detail::createCPUGenerator(4);
  const Tensor images = torch::empty({5, 1, 6, 6}).normal_(0, 1, generator);
  const Tensor expected = transform.Apply(network->forward(images)).phi_new;
  const std::unique_ptr<Encoder> encoder = *Encoder::LoadFolder(folder_ / "new");
  for (const int64_t n : {1, 5}) {
    const Tensor some = images.narrow(0, 0, n).contiguous();
    const std::vector<float> z =
        *encoder->EmbedTensors(std::span<const float>(some.data_ptr<float>(), static_cast<size_t>(some.numel())), n);
    EXPECT_TRUE(torch::tensor(z).reshape({n, 6 + kExtra}).allclose(expected.narrow(0, 0, n), 0, 2e-5)) << n;
  }
}

TEST_F(MixingMethodsTest, Bt2NamesWhatDoesNotFit) {
  TrainOldAndBase();
  TrainConfig config = Config("bt2");
  config.bt2.base_model = "";
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kInvalidArgument),
              HasSubstr("field 'bt2.base_model' is ; allowed: the folder of a model trained alone"));
  config = Config("bt2");
  config.bt2.base_model = folder_ / "nowhere";
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kNotFound), HasSubstr("bt2.base_model"));
  config = Config("bt2");
  config.bt2.new_dimension = 9;
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kFailedPrecondition), HasSubstr("bt2.base_model"));
  config.bt2.new_dimension = 4;
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kInvalidArgument),
              HasSubstr("field 'bt2.new_dimension' is 4; allowed: at least encoder.dimension - extra_dimensions = 5"));
  config = Config("bt2");
  config.extra_dimensions = 8;
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kInvalidArgument),
              HasSubstr("field 'extra_dimensions' is 8; allowed: 1 .. 7"));
  config = Config("bt2");
  config.metric = "lorentz";
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kInvalidArgument), HasSubstr("field 'metric' is lorentz"));
}

TEST_F(MixingMethodsTest, ABt2CheckpointOfAnotherBaseModelIsRefusedAndAMovedOneIsNot) {
  TrainOldAndBase();
  const TrainConfig config = Config("bt2");
  const uint32_t first = MustTrain(config, "new").manifest.encoder_crc32c;
  std::filesystem::rename(folder_ / "base", folder_ / "moved");
  TrainConfig moved = config;
  moved.bt2.base_model = folder_ / "moved";
  EXPECT_EQ(MustTrain(moved, "new").manifest.encoder_crc32c, first);
  moved.bt2.base_model = folder_ / "old";
  EXPECT_THAT(MessageOfRefusal(moved, absl::StatusCode::kFailedPrecondition, "new"),
              HasSubstr("field 'bt2.base_model or the old model's head' is another one"));
}

TEST_F(MixingMethodsTest, MixbctWantsAHeadThatNormalisesAndUsesArcFaceByDefault) {
  TrainOldAndBase();
  TrainConfig config = Config("mixbct");
  const uint32_t by_default = MustTrain(config, "default").manifest.encoder_crc32c;
  config.base_loss = "arcface";
  EXPECT_EQ(MustTrain(config, "arcface").manifest.encoder_crc32c, by_default);
  config.base_loss = "softmax";
  EXPECT_THAT(MessageOfRefusal(config, absl::StatusCode::kInvalidArgument),
              HasSubstr("field 'base_loss' is softmax; allowed: auto, arcface or cosface"));
}

TEST_F(MixingMethodsTest, FrozenFeaturesAreUnitRowsOfTheViewAskedFor) {
  TrainOldAndBase();
  const TrainConfig config = *ResolveConfig(dataset_, Config("mixbct"));
  const auto old = *OldModel::Load(folder_ / "old", config, dataset_.normalisation);
  const Tensor images = torch::ones({2, 1, 6, 6}), rows = torch::tensor(std::vector<int64_t>{7, 3});
  const auto of = [&](const TrainConfig& c, const std::string& form) {
    return *FrozenFeatures::Create(*old, dataset_, c, form);
  };
  const FrozenFeatures once = of(config, "augmented-once"), plain = of(config, "plain"), batch = of(config, "batch");
  EXPECT_TRUE(once.all().square().sum(1).allclose(torch::ones({dataset_.train.size()}), 0, 1e-5));
  EXPECT_TRUE(plain.Of(images, rows).equal(plain.all().index_select(0, rows)));
  EXPECT_TRUE(once.all().allclose(plain.all(), 0, 1e-4)) << "this data set is not augmented";
  EXPECT_TRUE(batch.Of(images, rows)[0].equal(batch.Of(images, rows)[1])) << "the same image twice";
  TrainConfig drawing = config;
  drawing.augment = "drawing";
  const FrozenFeatures changed = of(drawing, "augmented-once");
  EXPECT_FALSE(changed.all().allclose(plain.all(), 0, 1e-2));
  EXPECT_TRUE(changed.all().equal(of(drawing, "augmented-once").all())) << "the same view again";
  EXPECT_EQ(FrozenFeatures::Create(*old, dataset_, config, "raw").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lightcone
