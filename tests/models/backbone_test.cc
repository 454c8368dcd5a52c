// An operator's TorchScript module as the backbone: trained where it can be, frozen where not, saved, exported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"
#include "tests/models/small_encoders_torch.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

constexpr int kSide = 6, kPixels = kSide * kSide * 3, kFeatures = 7;

class BackboneTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(23);
    folder_ = testing::TempDir() + "/backbone_test_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(MakeFolders(folder_).ok());
    config_.architecture = "torchscript";
    config_.height = config_.width_px = kSide;
    config_.dimension = 5;
    config_.backbone_file = folder_ + "/backbone.pt";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WriteOperator(bool trainable) const {
    OperatorModule(kPixels, kFeatures, trainable).save(config_.backbone_file);
  }
  std::shared_ptr<EncoderNetwork> Build(uint64_t seed = 1) const {
    absl::StatusOr<std::shared_ptr<EncoderNetwork>> network = BuildNetwork(config_, seed);
    if (!network.ok()) ADD_FAILURE() << MessageOf(network.status());
    return *network;
  }
  static torch::Tensor Images(int64_t n) { return torch::randn({n, 3, kSide, kSide}); }

  EncoderConfig config_;
  std::string folder_;
};

void Step(EncoderNetwork& network, const torch::Tensor& images) {
  torch::optim::SGD optimizer(network.parameters(), torch::optim::SGDOptions(0.1));
  network.train();
  optimizer.zero_grad();
  network.forward(images).square().mean().backward();
  optimizer.step();
}

std::map<std::string, torch::Tensor> StateOf(const EncoderNetwork& network) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& item : network.named_parameters()) state[item.key()] = item.value().detach().clone();
  for (const auto& item : network.named_buffers()) state[item.key()] = item.value().clone();
  return state;
}

TEST_F(BackboneTest, IsTrainedFurtherWhereItsParametersRequireAGradient) {
  WriteOperator(/*trainable=*/true);
  const auto network = Build();
  const auto before = StateOf(*network);
  const torch::Tensor images = Images(8);
  network->eval();
  const torch::Tensor z = network->forward(images).detach();
  Step(*network, images);
  const auto after = StateOf(*network);
  for (const char* name : {"backbone.weight", "backbone.mean", "backbone.variance", "head.weight"}) {
    EXPECT_FALSE(torch::equal(before.at(name), after.at(name))) << name;
  }
  EXPECT_EQ(after.at("backbone.steps").item<int64_t>(), 1) << "a buffer that the module assigned anew";
  Step(*network, images);
  EXPECT_EQ(StateOf(*network).at("backbone.steps").item<int64_t>(), 2);
  network->eval();
  EXPECT_FALSE(torch::allclose(network->forward(images), z));
}

TEST_F(BackboneTest, IsFrozenWhereNoParameterDoesOrWhereTheOptionSaysSo) {
  for (const bool trainable : {false, true}) {
    WriteOperator(trainable);
    config_.frozen = trainable;
    const auto network = Build();
    const auto before = StateOf(*network);
    Step(*network, Images(8));
    for (const auto& [name, tensor] : StateOf(*network)) {
      EXPECT_EQ(torch::equal(before.at(name), tensor), !name.starts_with("head")) << name;
    }
  }
}

TEST_F(BackboneTest, KeepsTheWeightsOfItsFileWhateverTheSeed) {
  WriteOperator(true);
  const auto a = StateOf(*Build(1)), b = StateOf(*Build(2));
  EXPECT_TRUE(torch::equal(a.at("backbone.weight"), b.at("backbone.weight")));
  EXPECT_FALSE(torch::equal(a.at("head.weight"), b.at("head.weight")));
  EXPECT_EQ(CountParameters(*Build()), kPixels * kFeatures + kFeatures * 5 + 5);
  EXPECT_EQ(ParameterCount(config_), 0) << "only the file knows";
}

TEST_F(BackboneTest, SharedParametersAreStepedOnce) {
  torch::jit::Module inner = OperatorModule(kPixels, kFeatures, true), outer("__torch__.Twice");
  outer.register_module("a", inner);
  outer.register_module("b", inner);
  outer.define("def forward(self, x):\n  return self.a.forward(x) + self.b.forward(x)\n");
  outer.save(config_.backbone_file);
  EXPECT_EQ(CountParameters(*Build()), kPixels * kFeatures + kFeatures * 5 + 5);
}

TEST_F(BackboneTest, ABufferThatItsGradientNeedsMayBeAssignedAnew) {
  const torch::Tensor weight = torch::randn({kPixels, kFeatures}), images = Images(8);
  const auto write = [&](const char* name, const std::string& assignment) {
    torch::jit::Module script(name);
    script.register_parameter("weight", weight.clone().requires_grad_(), /*is_buffer=*/false);
    script.register_buffer("scale", torch::full({1}, 2.0f));
    script.define("def forward(self, x):\n  y = torch.matmul(x.flatten(1), self.weight) * self.scale\n" + assignment +
                  "  return y\n");
    script.save(config_.backbone_file);
    return Build();
  };
  const auto fixed = write("__torch__.Fixed", ""),
             halved = write("__torch__.Halved", "  self.scale = self.scale * 0.5\n");
  Step(*fixed, images);
  Step(*halved, images);
  EXPECT_TRUE(torch::equal(StateOf(*fixed).at("backbone.weight"), StateOf(*halved).at("backbone.weight")));
  EXPECT_EQ(StateOf(*halved).at("backbone.scale").item<float>(), 1.0f);
  Step(*halved, images);
  EXPECT_EQ(StateOf(*halved).at("backbone.scale").item<float>(), 0.5f);
}

TEST_F(BackboneTest, ACheckpointRestoresItAndTrainingGoesOnTheSame) {
  WriteOperator(true);
  const auto a = Build(1), b = Build(2);
  const torch::Tensor images = Images(8), more = Images(8);
  Step(*a, images);
  ASSERT_TRUE(LoadModule(*SaveModule(*a), "network", *b).ok());
  Step(*a, more);
  Step(*b, more);
  const auto of_b = StateOf(*b);
  for (const auto& [name, tensor] : StateOf(*a)) EXPECT_TRUE(torch::equal(tensor, of_b.at(name))) << name;
}

TEST_F(BackboneTest, ACheckpointOfAnotherFileIsRefused) {
  WriteOperator(true);
  const std::string saved = *SaveModule(*Build());
  WriteOperator(false);
  const auto other = Build();
  const absl::Status status = LoadModule(saved, "network", *other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("network: was saved with another backbone_file (CRC-32C "));
}

// What the exported file gives, against the network.
void ExpectExportGivesItsVectors(const EncoderNetwork& network, const std::string& path, EncoderNetwork& eval) {
  const absl::StatusOr<uint32_t> crc32c = ExportTorchScript(network, path);
  ASSERT_TRUE(crc32c.ok()) << MessageOf(crc32c.status());
  torch::jit::Module exported = torch::jit::load(path);
  torch::NoGradGuard no_grad;
  eval.eval();
  for (const int64_t n : {1, 2, 5}) {
    const torch::Tensor images = torch::randn({n, 3, kSide, kSide});
    const torch::Tensor expected = eval.forward(images);
    const torch::Tensor z = exported.forward({images}).toTensor();
    ASSERT_EQ(z.sizes(), expected.sizes());
    EXPECT_LE((z - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>()) << n;
  }
}

TEST_F(BackboneTest, AnExportTakesItAsItIsForAnyBatchAndNeedsNoFile) {
  for (const bool trainable : {false, true}) {
    WriteOperator(trainable);
    config_.rescale = "fixed";
    const auto network = Build();
    for (int i = 0; i < 3; ++i) Step(*network, Images(8));
    std::filesystem::remove(config_.backbone_file);
    ExpectExportGivesItsVectors(*network, folder_ + "/encoder.pt", *network);
    EXPECT_EQ(network->named_parameters()["backbone.weight"].requires_grad(), trainable);
    const std::string graph = torch::jit::load(folder_ + "/encoder.pt").get_method("forward").graph()->toString();
    EXPECT_THAT(graph, testing::Not(HasSubstr("CallMethod"))) << "one frozen graph";
    EXPECT_THAT(graph, testing::Not(HasSubstr("SetAttr"))) << "what only training needs is gone";
  }
}

TEST_F(BackboneTest, AnExportOfOursCanBeOne) {
  EncoderConfig small;
  small.architecture = "mlp";
  small.width = 0.0625;
  small.height = small.width_px = kSide;
  small.dimension = 9;
  ASSERT_TRUE(ExportTorchScript(**BuildNetwork(small, 3), config_.backbone_file).ok());
  const auto network = Build();
  EXPECT_EQ(network->features(), 9);
  EXPECT_EQ(CountParameters(*network), 9 * 5 + 5) << "its weights are constants: frozen";
  ExpectExportGivesItsVectors(*network, folder_ + "/encoder.pt", *network);
}

TEST_F(BackboneTest, AMissingFileIsNotFound) {
  const absl::Status status = BuildNetwork(config_, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(status), HasSubstr(config_.backbone_file));
}

TEST_F(BackboneTest, AFileThatDoesNotParseIsNamed) {
  WriteOperator(true);
  const std::string bytes = *ReadFile(config_.backbone_file);
  for (const std::string& content : {std::string(), std::string("no module"), bytes.substr(0, bytes.size() / 2)}) {
    ASSERT_TRUE(WriteFileAtomically(config_.backbone_file, content).ok());
    const absl::Status status = BuildNetwork(config_, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(status), HasSubstr(StrCat("field 'backbone_file' is ", config_.backbone_file)));
    EXPECT_THAT(MessageOf(status), HasSubstr("allowed: a TorchScript file"));
  }
}

TEST_F(BackboneTest, AnOutputOfAnotherShapeIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x", "gives [2, 3, 6, 6] Float for a batch of [2, 3, 6, 6]"},
      {"x.flatten(1).to(7)", "gives [2, 108] Double for"},
      {"x.flatten()", "gives [216] Float for"},
      {"x.flatten(1)[:, :0]", "gives [2, 0] Float for"},
      {"x.size(0)", "gives Int for"},
      {"torch.zeros([2, 5])", "gives [2, 5] Float for a batch of [3, 3, 6, 6]"},
      {"x.reshape([7, -1])", "gives an error ("},
  };
  for (const auto& [body, text] : cases) {
    ModuleThatReturns(body).save(config_.backbone_file);
    const absl::Status status = BuildNetwork(config_, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << body;
    EXPECT_THAT(MessageOf(status), HasSubstr(config_.backbone_file + ", which " + text));
    EXPECT_THAT(MessageOf(status), HasSubstr("allowed: a module that gives float32 [n, features]"));
  }
}

}  // namespace
}  // namespace lightcone
