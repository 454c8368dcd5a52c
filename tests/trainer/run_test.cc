// What a training starts from, and the old model beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/data/split.h"
#include "trainer/old_model_torch.h"
#include "trainer/run_torch.h"

namespace lightcone {
namespace {

TrainConfig TinyConfig(const Dataset& dataset) {
  TrainConfig config;
  config.encoder.architecture = "mlp";
  config.encoder.width = 0.125;
  config.encoder.dimension = 8;
  config.batch = 16;
  return *ResolveConfig(dataset, config);
}

std::string WeightsOf(const Dataset& dataset, const TrainConfig& config) {
  Checkpoint checkpoint;
  EXPECT_TRUE((*TrainingRun::Create(dataset, config))->Save(checkpoint).ok());
  return checkpoint.sections["network"];
}

TEST(TrainingRun, ModelsOfOneSeedButOtherDataStartFromOtherWeights) {
  const Dataset all = TinyDataset();
  Dataset half = all;
  half.train = SelectClasses(all.train, 3);
  const TrainConfig config = TinyConfig(all);
  EXPECT_EQ(WeightsOf(all, config), WeightsOf(all, config));
  EXPECT_NE(WeightsOf(all, config), WeightsOf(half, config));
}

Batch FirstBatchOf(const Dataset& dataset) {
  LoaderOptions options;
  options.batch_size = 16;
  const auto loader = *BatchLoader::Create(&dataset.train, dataset.normalisation, options);
  Batch batch;
  EXPECT_TRUE(loader->Next(&batch));
  return batch;
}

TEST(TrainingRun, StepsLowerTheLossAndTheMeterGivesMeans) {
  const Dataset dataset = TinyDataset();
  const TrainConfig config = TinyConfig(dataset);
  const auto run = *TrainingRun::Create(dataset, config);
  LoaderOptions options;
  options.batch_size = 16;
  options.epochs = 8;
  const auto loader = *BatchLoader::Create(&dataset.train, dataset.normalisation, options);
  Batch batch;
  LossMeter first, last;
  for (int64_t step = 0; loader->Next(&batch); ++step) {
    (step < 7 ? first : last).Add(run->Step(batch, 0.1));
    if (step % 7 == 0 && step > 7) last.Clear();
  }
  ASSERT_EQ(first.Means().size(), 2u);
  EXPECT_EQ(first.Means()[0].first, "total");
  EXPECT_EQ(first.Means()[1].first, "base");
  EXPECT_EQ(first.steps(), 7);
  EXPECT_LT(last.Means()[0].second, first.Means()[0].second);
}

TEST(TrainingRun, TheHeadHasAWeightDecayOfItsOwn) {
  const Dataset dataset = TinyDataset();
  const auto sections = [&](double head_decay) {
    TrainConfig config = TinyConfig(dataset);
    config.weight_decay = 0;
    config.classifier_weight_decay = head_decay;
    const auto run = *TrainingRun::Create(dataset, config);
    Batch batch = FirstBatchOf(dataset);
    run->Step(batch, /*learning_rate=*/0.1);
    Checkpoint checkpoint;
    EXPECT_TRUE(run->Save(checkpoint).ok());
    return checkpoint.sections;
  };
  const auto plain = sections(0), decayed = sections(0.5);
  EXPECT_EQ(plain.at("network"), decayed.at("network"));
  EXPECT_NE(plain.at("classifier"), decayed.at("classifier"));
}

TEST(TrainingRun, TheGradientIsClippedToOneNormOverAllParameters) {
  const Dataset dataset = TinyDataset();
  TrainConfig config = TinyConfig(dataset);
  config.encoder.rescale = "learnable";  // a parameter group of its own
  config.momentum = config.weight_decay = 0;
  config.nesterov = false;
  config.gradient_clip = 1e-3;
  const auto run = *TrainingRun::Create(dataset, config);
  Batch batch = FirstBatchOf(dataset);
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& parameter : run->network().parameters()) before.push_back(parameter.detach().clone());
  run->Step(batch, /*learning_rate=*/1.0);
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    moved += (run->network().parameters()[i].detach() - before[i]).to(torch::kFloat64).square().sum().item<double>();
  }
  EXPECT_GT(moved, 0);
  EXPECT_LE(std::sqrt(moved), 1.01e-3);
}

class OldModelTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/old_model_test_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(MakeFolders(folder_).ok());
    const auto network = *BuildNetwork(config_.encoder, 3);
    Manifest manifest;
    manifest.name = "old";
    manifest.architecture = "mlp";
    manifest.dimension = 8;
    manifest.input = {6, 6, 1, {0.3f}, {0.7f}};
    manifest.encoder_crc32c = *ExportTorchScript(*network, folder_ + "/encoder.pt");
    ASSERT_TRUE(WriteManifest(folder_, manifest).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const Dataset dataset_ = TinyDataset();
  const TrainConfig config_ = TinyConfig(dataset_);
  std::string folder_;
};

TEST_F(OldModelTest, SeesABatchNormalisedForTheNewModelAsItsOwnManifestSays) {
  const auto old = *OldModel::Load(folder_, config_, dataset_.normalisation);
  torch::Tensor batch = torch::empty({4, 1, 6, 6});
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t p = 0; p < 36; ++p) {
      batch[i][0][p / 6][p % 6] = (dataset_.test.image(i)[p] / 255.0f - 0.5f) / 0.25f;  // the data set's normalisation
    }
  }
  const torch::Tensor expected = old->EmbedAll(dataset_.test)->narrow(0, 0, 4);
  EXPECT_TRUE(torch::allclose(old->Embed(batch), expected, 1e-4, 1e-5));
}

TEST_F(OldModelTest, TakesImagesOfAnotherSize) {
  const auto old = *OldModel::Load(folder_, config_, dataset_.normalisation);
  EXPECT_EQ(old->Embed(torch::zeros({2, 1, 12, 9})).sizes(), (std::vector<int64_t>{2, 8}));
}

TEST_F(OldModelTest, ShrinksABatchAsTheServerShrinksAnImage) {
  const auto old = *OldModel::Load(folder_, config_, dataset_.normalisation);
  std::mt19937 random(1);
  for (const auto& [height, width] : {std::pair{18, 24}, {12, 12}, {7, 5}, {4, 6}}) {
    ImageSet images;
    images.height = height, images.width = width, images.channels = 1;
    images.labels = {0, 1, 2};
    for (int i = 0; i < 3 * height * width; ++i) images.pixels.push_back(static_cast<uint8_t>(random() % 256));
    const torch::Tensor bytes =
        torch::from_blob(images.pixels.data(), {3, 1, height, width}, torch::kUInt8).to(torch::kFloat32);
    const torch::Tensor batch = (bytes / 255.0 - 0.5) / 0.25;  // the data set's normalisation
    const torch::Tensor served = *old->EmbedAll(images), trained = old->Embed(batch);
    // The server rounds the shrunk pixels to bytes.
    EXPECT_LT((served - trained).norm().item<float>(), 0.02 * served.norm().item<float>()) << height << " x " << width;
  }
}

}  // namespace
}  // namespace lightcone
