// An exported encoder in use: images, tensors, threads; damaged files are refused. (export_test.cc: the same vectors.)
#include "models/encoders/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"
#include "tests/models/small_encoders_torch.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

class EncoderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/encoder_test_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(MakeFolders(folder_).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A network whose batch-norm statistics differ from their start, exported with its manifest.
  std::shared_ptr<EncoderNetwork> Export(const std::string& architecture, int dimension = 24) {
    EncoderConfig config;
    config.architecture = architecture;
    config.width = 0.25;
    config.dimension = dimension;
    config.height = 10;
    config.width_px = 12;
    config.rescale = "fixed";
    auto network = *BuildNetwork(config, 3);
    network->train();
    torch::NoGradGuard no_grad;
    for (int i = 0; i < 3; ++i) network->forward(torch::randn({8, 3, 10, 12}) * 2 + 1);
    network->eval();
    manifest_.name = "test";
    manifest_.architecture = architecture;
    manifest_.dimension = dimension;
    manifest_.input = {10, 12, 3, {0.5f, 0.4f, 0.3f}, {0.2f, 0.3f, 0.4f}};
    const absl::StatusOr<uint32_t> crc32c = ExportTorchScript(*network, Path());
    if (!crc32c.ok()) ADD_FAILURE() << MessageOf(crc32c.status());
    manifest_.encoder_crc32c = *crc32c;
    EXPECT_TRUE(WriteManifest(folder_, manifest_).ok());
    return network;
  }
  std::string Path() const { return folder_ + "/encoder.pt"; }

  std::string folder_;
  Manifest manifest_;
};

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST_F(EncoderTest, NormalisesAndResizesImagesAsTheManifestSays) {
  const auto network = Export("small-cnn");
  const auto encoder = *Encoder::LoadFolder(folder_);
  Image image{10, 12, 3, std::vector<uint8_t>(360)};
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 7 % 256);
  torch::Tensor x = torch::empty({1, 3, 10, 12});
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 120; ++i) {
      x[0][c][i / 12][i % 12] =
          (image.pixels[i * 3 + c] / 255.0f - manifest_.input.mean[c]) / manifest_.input.stddev[c];
    }
  }
  torch::NoGradGuard no_grad;
  const std::vector<float> expected = Flat(network->forward(x));
  ExpectNear(*encoder->EmbedImages(std::vector<Image>{image}), expected, 2e-5f);
  ExpectNear(*encoder->EmbedPixels(image.pixels, 1), expected, 2e-5f);
  const Image large{40, 30, 1, std::vector<uint8_t>(1200, 9)};
  const std::vector<float> both = *encoder->EmbedImages(std::vector<Image>{large, image});
  ExpectNear({both.begin() + 24, both.end()}, expected, 2e-5f);
  EXPECT_TRUE(encoder->EmbedImages({})->empty());
}

TEST_F(EncoderTest, IsSafeOnSeveralThreadsAndInSmallBatches) {
  Export("small-cnn");
  EncoderOptions options;
  options.batch_max = 3;
  const auto encoder = *Encoder::LoadFolder(folder_, options);
  const std::vector<float> input = Flat(torch::randn({8, 3, 10, 12}));
  const std::vector<float> expected = *encoder->EmbedTensors(input, 8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] { ExpectNear(*encoder->EmbedTensors(input, 8), expected, 1e-6f); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EncoderTest, TruncatedOrCorruptFilesAreDataLossAndNameTheFile) {
  Export("mlp");
  const std::string bytes = *ReadFile(Path());
  for (size_t length : {size_t{0}, size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    ASSERT_TRUE(WriteFileAtomically(Path(), bytes.substr(0, length)).ok());
    const absl::Status status = Encoder::LoadFolder(folder_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(MessageOf(status), HasSubstr(Path()));
    EXPECT_THAT(MessageOf(status), HasSubstr("truncated or corrupt"));
  }
  std::string flipped = bytes;
  flipped[bytes.size() / 3] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(Path(), flipped).ok());
  const absl::Status status = Encoder::LoadFolder(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(Path()), HasSubstr("truncated or corrupt")));
}

TEST_F(EncoderTest, DamageBehindAMatchingChecksumIsDataLossToo) {
  Export("mlp");
  const std::string bytes = *ReadFile(Path());
  for (const std::string& content : {std::string("not a zip"), bytes.substr(0, bytes.size() / 2), std::string()}) {
    ASSERT_TRUE(WriteFileAtomically(Path(), content).ok());
    manifest_.encoder_crc32c = Crc32c(content);
    const absl::Status status = Encoder::Load(Path(), manifest_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(Path()), HasSubstr("not a TorchScript file")));
  }
}

TEST_F(EncoderTest, AMissingFileIsNotFound) {
  EXPECT_EQ(Encoder::LoadFolder(folder_).status().code(), absl::StatusCode::kNotFound);
  Export("mlp");
  std::filesystem::remove(Path());
  const absl::Status status = Encoder::LoadFolder(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(status), HasSubstr(Path()));
}

TEST_F(EncoderTest, AManifestWithAnotherDimensionOrInputIsFailedPrecondition) {
  Export("mlp", 24);
  Manifest other = manifest_;
  other.dimension = 25;
  absl::Status status = Encoder::Load(Path(), other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'encoder.output' is [1, 24] Float; allowed: float32 [n, 25]"));
  other = manifest_;
  other.input.height = 11;
  status = Encoder::Load(Path(), other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("encoder.output"));
}

TEST_F(EncoderTest, BadInputNamesWhatIsWrong) {
  Export("mlp");
  const auto encoder = *Encoder::LoadFolder(folder_);
  EXPECT_THAT(MessageOf(encoder->EmbedTensors(std::vector<float>(7), 1).status()),
              HasSubstr("field 'tensor' is 7 floats for 1 images; allowed: 360 an image"));
  std::vector<float> values(360, 0.0f);
  values[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(MessageOf(encoder->EmbedTensors(values, 1).status()), HasSubstr("field 'tensor[17]' is nan"));
  EXPECT_THAT(MessageOf(encoder->EmbedImages(std::vector<Image>{{2, 2, 3, {1, 2}}}).status()),
              HasSubstr("field 'images[0].pixels' is 2 bytes; allowed: 12 bytes"));
  EXPECT_THAT(MessageOf(encoder->EmbedImages(std::vector<Image>{{2, 2, 2, std::vector<uint8_t>(8)}}).status()),
              HasSubstr("field 'images[0].channels' is 2; allowed: 1 or 3"));
  EXPECT_THAT(MessageOf(encoder->EmbedImages(std::vector<Image>{{0, 2, 1, {}}}).status()),
              HasSubstr("field 'images[0]'"));
  EXPECT_THAT(MessageOf(encoder->EmbedPixels(std::vector<uint8_t>(5), 1).status()),
              HasSubstr("field 'pixels' is 5 bytes"));
  EncoderOptions options;
  options.batch_max = 0;
  EXPECT_THAT(MessageOf(Encoder::LoadFolder(folder_, options).status()), HasSubstr("field 'encoder.batch_max' is 0"));
  options.batch_max = 1;
  options.threads = 1000;
  EXPECT_THAT(MessageOf(Encoder::LoadFolder(folder_, options).status()), HasSubstr("field 'encoder.threads' is 1000"));
}

TEST_F(EncoderTest, ModulesAndOptimisersSurviveACheckpointBitForBit) {
  EncoderConfig config;
  config.architecture = "mlp";
  config.height = config.width_px = 6;
  const auto a = *BuildNetwork(config, 1), b = *BuildNetwork(config, 2);
  ASSERT_TRUE(LoadModule(*SaveModule(*a), "network", *b).ok());
  for (size_t i = 0; i < a->parameters().size(); ++i) EXPECT_TRUE(torch::equal(a->parameters()[i], b->parameters()[i]));
  config.dimension = 64;
  const auto other = *BuildNetwork(config, 2);
  const absl::Status status = LoadModule(*SaveModule(*a), "network", *other);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("head.bias"));
  EXPECT_EQ(LoadModule("nonsense", "network", *a).code(), absl::StatusCode::kDataLoss);
  torch::optim::SGD sgd(a->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_EQ(LoadOptimizer("nonsense", sgd).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace lightcone
