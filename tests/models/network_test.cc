// The architectures: shapes, sizes, seeds, and the rescale of the head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "base/status.h"
#include "models/network_torch.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

EncoderConfig ConfigOf(const std::string& architecture, double width = 1.0) {
  EncoderConfig config;
  config.architecture = architecture;
  config.width = width;
  return config;
}

std::shared_ptr<EncoderNetwork> Build(const EncoderConfig& config, uint64_t seed = 1) {
  absl::StatusOr<std::shared_ptr<EncoderNetwork>> network = BuildNetwork(config, seed);
  if (!network.ok()) ADD_FAILURE() << MessageOf(network.status());
  return *network;
}

TEST(Network, EveryArchitectureMapsImagesOfItsSizeToVectors) {
  for (const ArchitectureInfo& info : Architectures()) {
    for (int channels : {1, 3}) {
      for (int height : {9, 20}) {
        EncoderConfig config = ConfigOf(info.name, 0.25);
        config.channels = channels;
        config.height = height;
        config.width_px = 12;
        config.dimension = 10;
        const auto network = Build(config);
        const torch::Tensor z = network->forward(torch::randn({3, channels, height, 12}));
        EXPECT_EQ(z.sizes(), (std::vector<int64_t>{3, 10})) << info.name;
        EXPECT_GT(MacsPerImage(config), 1000) << info.name;
      }
    }
  }
}

TEST(Network, Resnet18HasTheParametersOfTheCifarStem) {
  const int64_t head = 512 * 128 + 128;
  EXPECT_EQ(CountParameters(*Build(ConfigOf("resnet18"))), 11'168'832 + head);
  EXPECT_NEAR(MacsPerImage(ConfigOf("resnet18")), 0.556e9, 0.002e9);
}

TEST(Network, SmallCnnIsSmall) {
  const int64_t count = CountParameters(*Build(ConfigOf("small-cnn")));
  EXPECT_GT(count, 1'100'000);
  EXPECT_LT(count, 1'250'000);
  EXPECT_LT(CountParameters(*Build(ConfigOf("small-cnn", 0.5))), count / 3);
}

TEST(Network, SameSeedGivesTheSameWeightsAndLeavesTheGlobalGeneratorAlone) {
  torch::manual_seed(5);
  const torch::Tensor expected = torch::rand({4});
  const auto a = Build(ConfigOf("small-cnn", 0.25), 7), c = Build(ConfigOf("small-cnn", 0.25), 8);
  torch::manual_seed(99);
  const auto b = Build(ConfigOf("small-cnn", 0.25), 7);
  for (size_t i = 0; i < a->parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(a->parameters()[i], b->parameters()[i])) << i;
  }
  EXPECT_FALSE(torch::equal(a->parameters()[0], c->parameters()[0]));
  torch::manual_seed(5);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(Network, RescaleFixedAndLearnableStartAtOneOverRootD) {
  EncoderConfig config = ConfigOf("mlp", 0.25);
  config.height = config.width_px = 6;
  config.dimension = 16;
  const torch::Tensor images = torch::randn({4, 3, 6, 6});
  const auto z_of = [&](const std::string& rescale) {
    config.rescale = rescale;
    const auto network = Build(config);
    network->eval();
    return network->forward(images);
  };
  const torch::Tensor plain = z_of("none");
  EXPECT_TRUE(torch::allclose(z_of("fixed"), plain / 4));
  EXPECT_TRUE(torch::allclose(z_of("learnable"), plain / 4));
}

TEST(Network, LearnableRescaleNeverExceedsOne) {
  EncoderConfig config = ConfigOf("mlp", 0.25);
  config.height = config.width_px = 6;
  config.rescale = "learnable";
  const auto network = Build(config), plain = [&] {
    config.rescale = "none";
    return Build(config);
  }();
  network->eval();
  plain->eval();
  torch::NoGradGuard no_grad;
  network->named_parameters()["log_alpha"].fill_(3.0);
  network->LimitRescale();
  const torch::Tensor images = torch::randn({2, 3, 6, 6});
  EXPECT_TRUE(torch::allclose(network->forward(images), plain->forward(images)));
  network->named_parameters()["log_alpha"].fill_(-2.0);
  network->LimitRescale();
  EXPECT_FLOAT_EQ(network->named_parameters()["log_alpha"].item<float>(), -2.0f) << "below the limit nothing changes";
}

TEST(Network, LearnableRescaleComesBackFromItsLimit) {
  EncoderConfig config = ConfigOf("mlp", 0.25);
  config.height = config.width_px = 6;
  config.rescale = "learnable";
  const auto network = Build(config);
  torch::Tensor log_alpha = network->named_parameters()["log_alpha"];
  {
    torch::NoGradGuard no_grad;
    log_alpha.fill_(3.0);
  }
  network->LimitRescale();
  torch::optim::SGD optimizer(std::vector<torch::Tensor>{log_alpha}, torch::optim::SGDOptions(0.1));
  network->forward(torch::randn({4, 3, 6, 6})).square().sum().backward();  // falls with alpha
  optimizer.step();
  EXPECT_LT(log_alpha.item<float>(), 0.0f);
}

TEST(Network, HeadSwitchesChangeItsParameters) {
  EncoderConfig config = ConfigOf("mlp", 0.25);
  const int64_t with_bias = CountParameters(*Build(config));
  config.head_bias = false;
  EXPECT_EQ(CountParameters(*Build(config)), with_bias - config.dimension);
  config.head_batch_norm = true;
  EXPECT_EQ(CountParameters(*Build(config)), with_bias + config.dimension);
}

TEST(Network, BadConfigurationsNameTheField) {
  const auto message = [](auto change) {
    EncoderConfig config;
    change(config);
    const absl::Status status = BuildNetwork(config, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  EXPECT_THAT(message([](EncoderConfig& c) { c.architecture = "vgg"; }),
              HasSubstr("field 'architecture' is vgg; allowed: small-cnn, resnet18, mlp"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.width = 0; }), HasSubstr("field 'width' is 0; allowed: 0.0625 .. 8"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.width = std::nan(""); }), HasSubstr("field 'width' is nan"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.dimension = 1; }), HasSubstr("field 'dimension' is 1"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.height = 2; }), HasSubstr("field 'input.height' is 2"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.width_px = 5000; }), HasSubstr("field 'input.width' is 5000"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.channels = 4; }),
              HasSubstr("field 'input.channels' is 4; allowed: 1 or 3"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.rescale = "x"; }), HasSubstr("field 'rescale' is x"));
}

}  // namespace
}  // namespace lightcone
