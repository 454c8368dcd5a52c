// The architectures: shapes, sizes, seeds, and the rescale of the head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <set>

#include "base/status.h"
#include "models/encoders/blocks_torch.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"
#include "tests/models/small_encoders_torch.h"

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
  std::set<std::string> seen = {"torchscript"};  // backbone_test.cc
  for (auto [name, config] : SmallEncoders()) {
    seen.insert(config.architecture);
    for (int channels : {1, 3}) {
      config.channels = channels;
      const auto network = Build(config);
      const torch::Tensor z = network->forward(torch::randn({3, channels, config.height, config.width_px}));
      EXPECT_EQ(z.sizes(), (std::vector<int64_t>{3, 10})) << name;
      EXPECT_TRUE(torch::isfinite(z).all().item<bool>()) << name;
      EXPECT_GT(MacsPerImage(config), 1000) << name;
    }
  }
  EXPECT_EQ(seen.size(), Architectures().size());
}

TEST(Network, EveryParameterLearnsButTheScaleThatInsightFaceFixes) {
  for (auto [name, config] : SmallEncoders()) {
    config.rescale = "learnable";
    const auto network = Build(config);
    const torch::Tensor z = network->forward(torch::randn({6, 3, config.height, config.width_px}));
    (z * torch::randn(z.sizes())).sum().backward();
    for (const auto& item : network->named_parameters()) {
      const bool fixed = item.key() == "head_norm.weight" && config.architecture.starts_with("iresnet");
      EXPECT_EQ(item.value().grad().defined(), !fixed) << name << ": " << item.key();
    }
  }
}

TEST(Network, ImagesInChannelsLastAreTheSameImagesAndTorchSeesTheirLayout) {
  for (int channels : {1, 3}) {
    const torch::Tensor images = torch::randn({4, channels, 8, 6});
    const torch::Tensor last = InChannelsLast(images);
    EXPECT_TRUE(torch::equal(last, images));
    EXPECT_EQ(last.suggest_memory_format(), torch::MemoryFormat::ChannelsLast) << channels;
  }
}

TEST(Network, InBf16TrainingStepsAreCloseToFloat32AndEvalModeIsTheSame) {
  EncoderConfig config = ConfigOf("small-cnn", 0.25);
  const auto exact = Build(config), fast = Build(config);
  fast->TrainInBf16(true);
  const torch::Tensor images = InChannelsLast(torch::randn({32, 3, 32, 32}));
  const auto cosine = [](const torch::Tensor& a, const torch::Tensor& b) {
    return torch::cosine_similarity(a.flatten(), b.flatten(), 0).item<double>();
  };
  // A training refuses bf16 on a processor without it (train_test); what is left to hold there is eval mode.
  const int steps = __builtin_cpu_supports("avx512bf16") ? 2 : 0;
  for (int step = 0; step < steps; ++step) {  // the second one with other weights: no copy of the first ones may stay
    const torch::Tensor a = exact->forward(images), b = fast->forward(images);
    EXPECT_EQ(b.scalar_type(), torch::kFloat32);
    EXPECT_FALSE(torch::equal(a, b));
    EXPECT_GT(cosine(a, b), 0.999) << step;
    a.square().sum().backward();
    b.square().sum().backward();
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < exact->parameters().size(); ++i) {
      torch::Tensor weights = exact->parameters()[i], copy = fast->parameters()[i];
      EXPECT_EQ(copy.grad().scalar_type(), torch::kFloat32);
      if (weights.dim() == 4) {
        EXPECT_GT(cosine(weights.grad(), copy.grad()), 0.95) << i;
      }
      weights.sub_(1e-3 * weights.grad().sign());
      copy.copy_(weights);
    }
  }
  for (size_t i = 0; i < exact->buffers().size(); ++i) fast->buffers()[i].copy_(exact->buffers()[i]);
  exact->eval();
  fast->eval();
  torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(exact->forward(images), fast->forward(images)));
}

TEST(ParameterCount, IsThatOfTheNetworkThatIsBuilt) {
  for (auto [name, config] : SmallEncoders()) {
    EXPECT_EQ(ParameterCount(config), CountParameters(*Build(config))) << name;
    config.rescale = "learnable";
    config.head_bias = false;
    config.head_batch_norm = true;
    config.channels = 1;
    EXPECT_EQ(ParameterCount(config), CountParameters(*Build(config))) << name;
  }
}

struct Published {
  const char* architecture;
  int pixels, dimension;
  int64_t parameters;
  double macs;
};

// torchvision (resnet18, resnet50, vgg13_bn, alexnet, vit_b_16), timm (vit_small_patch16_224), and InsightFace's
// arcface_torch (iresnet18 and iresnet50 as PyTorch modules; an ONNX export counts differently, its norms are folded).
// Their operations are multiply-accumulates too; InsightFace's are not compared, as they count norms.
TEST(ParameterCount, IsThePublishedOneAtFullSizeInTheNetworkThatIsBuiltToo) {
  for (const Published& one :
       {Published{"resnet18", 224, 1000, 11'689'512, 1.814e9}, Published{"resnet50", 224, 1000, 25'557'032, 4.089e9},
        Published{"vgg13", 224, 1000, 133'053'736, 11.308e9}, Published{"alexnet", 224, 1000, 61'100'840, 0.714e9},
        Published{"vit-s16", 224, 1000, 22'050'664, 4.6e9}, Published{"vit-b16", 224, 1000, 86'567'656, 17.564e9},
        Published{"iresnet18", 112, 512, 24'025'600, 0}, Published{"iresnet50", 112, 512, 43'590'848, 0}}) {
    EncoderConfig config = ConfigOf(one.architecture);
    config.height = config.width_px = one.pixels;
    config.dimension = one.dimension;
    ASSERT_TRUE(config.Validate().ok()) << one.architecture;
    EXPECT_EQ(ParameterCount(config), one.parameters) << one.architecture;
    EXPECT_EQ(CountParameters(*Build(config)), one.parameters) << one.architecture;
    const double macs = one.macs > 0 ? one.macs : MacsPerImage(config);
    EXPECT_NEAR(MacsPerImage(config), macs, 1e-3 * macs) << one.architecture;
  }
}

TEST(Network, TheStemFollowsTheSizeOfTheImageUnlessItIsSet) {
  EncoderConfig config = ConfigOf("resnet50");
  config.height = 128, config.width_px = 127;
  EXPECT_EQ(StemOf(config), "cifar");
  config.width_px = 128;
  EXPECT_EQ(StemOf(config), "imagenet");
  config.stem = "cifar";
  EXPECT_EQ(StemOf(config), "cifar");
  config.architecture = "small-cnn";
  EXPECT_EQ(StemOf(config), "");
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

TEST(Network, ItsWeightsAreAFunctionOfItsSeedAlone) {
  for (const auto& [name, config] : SmallEncoders()) {
    torch::manual_seed(5);
    const auto a = Build(config, 7), c = Build(config, 8);
    torch::manual_seed(99);
    const auto b = Build(config, 7);
    const auto of_b = b->named_parameters(), of_c = c->named_parameters();
    for (const auto& item : a->named_parameters()) {
      EXPECT_TRUE(torch::equal(item.value(), of_b[item.key()])) << name << ": " << item.key();
    }
    EXPECT_FALSE(torch::equal(a->named_parameters()["head.weight"], of_c["head.weight"])) << name;
    for (size_t i = 0; i < a->buffers().size(); ++i)
      EXPECT_TRUE(torch::equal(a->buffers()[i], b->buffers()[i])) << name;
  }
}

TEST(Dropout, ZeroesItsShareScalesTheRestAndDrawsAnewEachTime) {
  internal::SeededDropout dropout(0.3);
  torch::Generator generator = at::detail::createCPUGenerator(1);
  dropout.Initialise(generator);
  const torch::Tensor ones = torch::ones({100, 1000});
  const torch::Tensor first = dropout.forward(ones), second = dropout.forward(ones);
  EXPECT_NEAR(first.count_nonzero().item<int64_t>() / 1e5, 0.7, 0.01);
  EXPECT_TRUE(torch::allclose(first.masked_select(first.ne(0)), torch::full({}, 1 / 0.7)));
  // Independent masks agree with probability 0.3^2 + 0.7^2, in every row and every column alike.
  EXPECT_NEAR(first.eq(second).sum().item<int64_t>() / 1e5, 0.58, 0.01);
  EXPECT_NEAR(first[0].eq(first[1]).sum().item<int64_t>() / 1e3, 0.58, 0.08);
  EXPECT_LT(first.ne(0).to(torch::kFloat32).mean(0).sub(0.7).abs().max().item<float>(), 0.25f);
  dropout.eval();
  EXPECT_TRUE(torch::equal(dropout.forward(ones), ones));
}

TEST(Dropout, ItsMasksGoOnFromACheckpoint) {
  EncoderConfig config;
  for (const auto& one : SmallEncoders()) {
    if (one.second.architecture == "alexnet") config = one.second;
  }
  const auto a = Build(config, 1), b = Build(config, 2);
  const torch::Tensor images = torch::randn({4, 3, config.height, config.width_px});
  const torch::Tensor before = a->forward(images);
  const std::string saved = *SaveModule(*a);
  const torch::Tensor after = a->forward(images);
  EXPECT_FALSE(torch::equal(before, after));
  ASSERT_TRUE(LoadModule(saved, "network", *b).ok());
  EXPECT_TRUE(torch::equal(b->forward(images), after));
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
              HasSubstr("field 'architecture' is vgg; allowed: small-cnn, resnet18, resnet50, "));
  EXPECT_THAT(message([](EncoderConfig& c) { c.width = 0; }), HasSubstr("field 'width' is 0; allowed: 0.0625 .. 8"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.width = std::nan(""); }), HasSubstr("field 'width' is nan"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.dimension = 1; }), HasSubstr("field 'dimension' is 1"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.height = 2; }), HasSubstr("field 'input.height' is 2"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.width_px = 5000; }), HasSubstr("field 'input.width' is 5000"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.channels = 4; }),
              HasSubstr("field 'input.channels' is 4; allowed: 1 or 3"));
  EXPECT_THAT(message([](EncoderConfig& c) { c.rescale = "x"; }), HasSubstr("field 'rescale' is x"));
}

struct BadCombination {
  const char* architecture;
  void (*change)(EncoderConfig&);
  const char* text;
};

TEST(Network, WhatOnlySomeArchitecturesTakeIsNamed) {
  using C = EncoderConfig;
  for (const BadCombination& bad : {
           BadCombination{"resnet18", [](C& c) { c.stem = "7x7"; }, "field 'stem' is 7x7; allowed: auto, cifar"},
           BadCombination{"vgg13", [](C& c) { c.stem = "cifar"; }, "field 'stem' is cifar; allowed: auto for"},
           BadCombination{"vgg13", [](C& c) { c.height = 31; }, "field 'input.height' is 31; allowed: 32 .. 1024"},
           BadCombination{"vgg13", [](C& c) { c.width_px = 31; }, "field 'input.width' is 31; allowed: 32 .. 1024"},
           BadCombination{"alexnet", [](C& c) { c.height = 14; }, "field 'input.height' is 14; allowed: 15 .. 1024"},
           BadCombination{"alexnet", [](C& c) { c.stem = "imagenet", c.width_px = 62, c.height = 63; },
                          "field 'input.width' is 62; allowed: 63 .. 1024"},
           BadCombination{"vit-s16", [](C& c) { c.height = 28; },
                          "field 'input.height' is 28; allowed: a multiple of 16 for architecture 'vit-s16'"},
           BadCombination{"vit-b16", [](C& c) { c.width_px = 8; }, "field 'input.width' is 8; allowed: a multiple"},
           BadCombination{"resnet18", [](C& c) { c.frozen = true; }, "field 'frozen' is true; allowed: false"},
           BadCombination{"resnet18", [](C& c) { c.backbone_file = "a.pt"; }, "field 'backbone_file' is a.pt"},
           BadCombination{"torchscript", [](C&) {}, "field 'backbone_file' is ; allowed: the path of a"},
           BadCombination{"torchscript", [](C& c) { c.backbone_file = "a.pt", c.width = 0.5; },
                          "field 'width' is 0.5; allowed: 1 for architecture 'torchscript'"},
       }) {
    EncoderConfig config = ConfigOf(bad.architecture);
    bad.change(config);
    const absl::Status status = BuildNetwork(config, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(status), HasSubstr(bad.text));
  }
}

}  // namespace
}  // namespace lightcone
