// Every architecture from network to TorchScript: batch norms are folded, the vectors stay the same here and in Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "models/checkpoint_torch.h"
#include "models/encoder.h"
#include "models/network_torch.h"
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

// Relative to the largest number of `expected`.
double WorstError(const torch::Tensor& values, const torch::Tensor& expected) {
  return ((values - expected).abs().max() / expected.abs().max()).item<double>();
}

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

// A Python with torch: the distribution's first, then the one in the path; empty when this machine has none.
std::string PythonWithTorch() {
  for (const std::string python : {"/usr/bin/python3", "python3"}) {
    if (std::system((python + " -c 'import torch' >/dev/null 2>&1").c_str()) == 0) return python;
  }
  return "";
}

constexpr char kPythonProgram[] = R"(
import array, sys, torch
for line in open(sys.argv[1]):
    encoder, height, width = line.split()
    values = array.array('f')
    values.frombytes(open(encoder + '.in', 'rb').read())
    images = torch.tensor(list(values)).reshape(-1, 3, int(height), int(width))
    z = torch.jit.load(encoder)(images)
    open(encoder + '.out', 'wb').write(array.array('f', z.flatten().tolist()).tobytes())
)";

TEST_F(ExportTest, PythonsTorchJitLoadGivesTheSameVectors) {
  const std::string python = PythonWithTorch();
  std::vector<std::pair<std::string, std::vector<float>>> expected;
  std::string list;
  for (const auto& [name, config] : SmallEncoders()) {
    const std::string path = folder_ + "/" + std::to_string(expected.size()) + ".pt";
    const auto encoder = Exported(*Trained(config), path);
    const std::vector<float> input = Flat(torch::randn({3, 3, config.height, config.width_px}));
    ASSERT_TRUE(
        WriteFileAtomically(path + ".in", {reinterpret_cast<const char*>(input.data()), input.size() * 4}).ok());
    expected.emplace_back(path, *encoder->EmbedTensors(input, 3));
    EXPECT_EQ(expected.back().second.size(), 3u * 10) << name;
    list += StrCat(path, " ", config.height, " ", config.width_px, "\n");
  }
  if (python.empty()) {
    std::puts("no python3 with torch here: compared with the C++ torch::jit::load only");
    return;
  }
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/program.py", kPythonProgram).ok());
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/list", list).ok());
  const std::string command = StrCat(python, " ", folder_, "/program.py ", folder_, "/list");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  for (const auto& [path, vectors] : expected) {
    const std::string bytes = *ReadFile(path + ".out");
    std::vector<float> z(bytes.size() / 4);
    std::memcpy(z.data(), bytes.data(), bytes.size());
    ASSERT_EQ(z.size(), vectors.size());
    EXPECT_LE(WorstError(torch::tensor(z), torch::tensor(vectors)), 1e-6) << path;
  }
}

}  // namespace
}  // namespace lightcone
