// Every architecture from network to TorchScript: batch norms are folded, the vectors stay the same here and in Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/encoder.h"
#include "models/encoders/network_torch.h"
#include "tests/models/python_vectors_torch.h"
#include "tests/models/small_encoders_torch.h"

namespace lightcone {
namespace {

class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(17);
    folder_ = testing::TempDir() + "/export_test_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(MakeFolders(folder_).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::shared_ptr<EncoderNetwork> Trained(const EncoderConfig& config) {
    auto network = *BuildNetwork(config, 3);
    WarmUp(*network);
    return network;
  }

  std::unique_ptr<Encoder> Exported(const EncoderNetwork& network, const std::string& path) {
    const EncoderConfig& c = network.config();
    const absl::StatusOr<uint32_t> crc32c = ExportTorchScript(network, path);
    if (!crc32c.ok()) ADD_FAILURE() << MessageOf(crc32c.status());
    Manifest manifest;
    manifest.name = "test";
    manifest.architecture = c.architecture;
    manifest.dimension = c.dimension;
    manifest.input = {c.height, c.width_px, 3, {0.5f, 0.4f, 0.3f}, {0.2f, 0.3f, 0.4f}};
    manifest.encoder_crc32c = *crc32c;
    absl::StatusOr<std::unique_ptr<Encoder>> encoder = Encoder::Load(path, manifest);
    if (!encoder.ok()) ADD_FAILURE() << MessageOf(encoder.status());
    return *std::move(encoder);
  }
  std::string Path() const { return folder_ + "/encoder.pt"; }

  std::string folder_;
};

TEST_F(ExportTest, GivesTheVectorsOfTheNetworkForEveryArchitectureAndBatchSize) {
  for (const auto& [name, config] : SmallEncoders()) {
    const auto network = Trained(config);
    const auto encoder = Exported(*network, Path());
    for (int64_t n : {1, 2, 7}) {
      const torch::Tensor images = torch::randn({n, 3, config.height, config.width_px});
      torch::NoGradGuard no_grad;
      const std::vector<float> z = *encoder->EmbedTensors(Flat(images), n);
      ASSERT_EQ(static_cast<int64_t>(z.size()), n * config.dimension) << name;
      EXPECT_LE(WorstError(torch::tensor(z).reshape({n, config.dimension}), network->forward(images)), 1e-5)
          << name << ", " << n << " images";
    }
  }
}

int CountOf(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST_F(ExportTest, HoldsNoBatchNormButThoseBeforeAPaddedConvolution) {
  for (const auto& [name, config] : SmallEncoders()) {
    ASSERT_TRUE(ExportTorchScript(*Trained(config), Path()).ok());
    const std::string graph = torch::jit::load(Path()).get_method("forward").graph()->toString();
    int expected = 0;
    if (config.architecture == "iresnet18") expected = 8;  // the first layer of each block
    if (config.architecture == "iresnet50") expected = 24;
    EXPECT_EQ(CountOf(graph, "aten::batch_norm"), expected) << name;
  }
}

// In float64, where a wrong formula cannot hide behind rounding.
TEST_F(ExportTest, FoldingDoesNotChangeWhatANetworkComputes) {
  for (auto [name, config] : SmallEncoders()) {
    config.rescale = "learnable";
    const auto network = Trained(config), folded = *BuildNetwork(config, 4);
    {
      torch::NoGradGuard no_grad;
      network->named_parameters()["log_alpha"].fill_(-0.7);
    }
    ASSERT_TRUE(LoadModule(*SaveModule(*network), "test", *folded).ok());
    network->to(torch::kFloat64);
    folded->to(torch::kFloat64);
    folded->FoldForInference();
    folded->FoldForInference();  // nothing happens the second time
    torch::NoGradGuard no_grad;
    const torch::Tensor images = torch::randn({5, 3, config.height, config.width_px}, torch::kFloat64);
    EXPECT_LE(WorstError(folded->forward(images), network->forward(images)), 1e-11) << name;
  }
}

TEST_F(ExportTest, FoldsEveryFormOfTheHead) {
  for (const std::string rescale : {"none", "fixed", "learnable"}) {
    for (const bool bias : {false, true}) {
      for (const bool norm : {false, true}) {
        EncoderConfig config = SmallEncoders()[0].second;
        config.rescale = rescale;
        config.head_bias = bias;
        config.head_batch_norm = norm;
        const auto network = Trained(config);
        const auto encoder = Exported(*network, Path());
        const torch::Tensor images = torch::randn({2, 3, config.height, config.width_px});
        torch::NoGradGuard no_grad;
        const torch::Tensor z = torch::tensor(*encoder->EmbedTensors(Flat(images), 2)).reshape({2, config.dimension});
        EXPECT_LE(WorstError(z, network->forward(images)), 1e-5) << rescale << bias << norm;
      }
    }
  }
}

TEST_F(ExportTest, LeavesTheNetworkAsItWas) {
  const EncoderConfig config = SmallEncoders()[0].second;
  const auto network = *BuildNetwork(config, 3);
  const std::string before = *SaveModule(*network);
  ASSERT_TRUE(ExportTorchScript(*network, Path()).ok());
  EXPECT_TRUE(network->is_training());
  const auto other = *BuildNetwork(config, 4);
  ASSERT_TRUE(LoadModule(before, "test", *other).ok());
  const auto now = network->named_parameters();
  for (const auto& item : other->named_parameters()) {
    EXPECT_TRUE(torch::equal(now[item.key()], item.value())) << item.key();
    EXPECT_TRUE(now[item.key()].requires_grad()) << item.key();
  }
}

TEST_F(ExportTest, PythonsTorchJitLoadGivesTheSameVectors) {
  PythonVectors vectors(folder_);
  auto encoders = SmallEncoders();
  EncoderConfig own = encoders[0].second;  // an operator's module as backbone
  own.architecture = "torchscript";
  own.width = 1;
  own.backbone_file = folder_ + "/backbone.pt";
  OperatorModule(int64_t{own.channels} * own.height * own.width_px, 7, /*trainable=*/true).save(own.backbone_file);
  encoders.emplace_back("torchscript", own);
  for (size_t i = 0; i < encoders.size(); ++i) {
    const auto& [name, config] = encoders[i];
    const std::string path = StrCat(folder_, "/", i, ".pt");
    vectors.Add(name, path, *Exported(*Trained(config), path));
  }
  vectors.ExpectTheSame();
}

}  // namespace
}  // namespace lightcone
