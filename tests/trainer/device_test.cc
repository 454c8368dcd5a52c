// What lets a training run on a device: images changed there are those that a loader makes, and no step asks the device
// for a number or makes a tensor without saying where. Checked on the CPU, by the operations that steps call.
#include "models/encoders/device.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/encoders/encoder.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/device_images_torch.h"
#include "trainer/run_torch.h"
#include "trainer/train.h"

namespace lightcone {
namespace {

ImageSet RandomImages(int height, int width, int channels) {
  ImageSet set;
  set.height = height;
  set.width = width;
  set.channels = channels;
  Rng rng(9);
  for (int i = 0; i < 40 * height * width * channels; ++i) set.pixels.push_back(static_cast<uint8_t>(rng.Below(256)));
  for (int i = 0; i < 40; ++i) set.labels.push_back(i % 4);
  return set;
}

TEST(DeviceImages, AreThoseOfALoaderWhateverTheChange) {
  for (const int channels : {1, 3}) {
    const ImageSet set = RandomImages(16, 20, channels);
    const Normalisation normalisation =
        channels == 1 ? Normalisation{{0.4f}, {0.3f}} : Normalisation{{0.4f, 0.5f, 0.6f}, {0.3f, 0.25f, 0.2f}};
    const DeviceImages images(set, normalisation, torch::kCPU);
    for (const AugmentKind kind : {AugmentKind::kNone, AugmentKind::kPhoto, AugmentKind::kDrawing}) {
      LoaderOptions options;
      options.batch_size = 20;
      options.seed = 5;
      options.augment = kind;
      const auto whole = *BatchLoader::Create(&set, normalisation, options);
      options.draw_only = true;
      const auto drawn = *BatchLoader::Create(&set, normalisation, options);
      Batch expected, batch;
      for (int step = 0; step < 2; ++step) {
        ASSERT_TRUE(whole->Next(&expected) && drawn->Next(&batch));
        EXPECT_EQ(batch.indices, expected.indices);
        EXPECT_EQ(batch.labels, expected.labels);
        EXPECT_TRUE(batch.images.empty());
        const torch::Tensor made = images.Changed(batch.indices, kind, batch.changes);
        const torch::Tensor wanted = torch::from_blob(expected.images.data(), {20, channels, 16, 20});
        ASSERT_EQ(made.sizes(), wanted.sizes());
        EXPECT_LT((made - wanted).abs().max().item<double>(), 1e-5) << channels << " " << static_cast<int>(kind);
      }
    }
  }
}

TEST(Device, CudaIsRefusedByNameWhereThereIsNoneAndAutoTakesTheProcessor) {
  EXPECT_EQ(*DeviceFor("cpu", "device"), "cpu");
  EXPECT_THAT(MessageOf(DeviceFor("tpu", "device").status()),
              testing::HasSubstr("field 'device' is tpu; allowed: auto"));
  if (torch::cuda::is_available()) {
    EXPECT_EQ(*DeviceFor("auto", "device"), "cuda");
    return;
  }
  EXPECT_EQ(*DeviceFor("auto", "device"), "cpu");
  const absl::Status refused = DeviceFor("cuda", "encoder.device").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(refused), testing::HasSubstr("field 'encoder.device' is cuda"));
  TrainConfig config;
  config.encoder.architecture = "mlp";
  config.batch = 16;
  config.device = "cuda";
  EXPECT_EQ(ResolveConfig(TinyDataset(), config).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Operations of this thread that wait for a device, and factories that were not told one.
class Watch {
 public:
  Watch() {
    found_.clear();
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&See).needsInputs(true));
  }
  ~Watch() { at::removeCallback(handle_); }

  static const std::map<std::string, int>& found() { return found_; }

 private:
  static std::unique_ptr<at::ObserverContext> See(const at::RecordFunction& call) {
    static const std::set<std::string> kWaits = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select",
                                                 "aten::equal", "aten::is_nonzero"};
    static const std::set<std::string> kFactories = {"aten::zeros", "aten::ones", "aten::full",  "aten::arange",
                                                     "aten::eye",   "aten::rand", "aten::randn", "aten::randperm"};
    const std::string name = call.name();
    if (kWaits.contains(name)) ++found_[name];
    if (!kFactories.contains(name)) return nullptr;
    bool told = false;
    for (const c10::IValue& input : call.inputs()) told = told || input.isDevice() || input.isTensor();  // or an output
    if (!told) ++found_[name + " without a device"];
    return nullptr;
  }

  static inline std::map<std::string, int> found_;
  at::CallbackHandle handle_;
};

class DeviceSteps : public testing::Test {
 protected:
  TrainConfig ConfigOf(const MethodInfo& method) const {
    TrainConfig config;
    config.method = method.name;
    config.metric = method.metric.empty() ? "lorentz" : method.metric;
    config.encoder.architecture = "mlp";
    config.encoder.width = 0.125;
    config.encoder.dimension = 8;
    config.extra_dimensions = 3;
    config.batch = 60;
    config.epochs = 1;
    config.threads = 1;
    config.gradient_clip = 10;
    config.nccl.queue = 100;
    if (method.needs_old_model) config.old_model = folder_ / ("old-" + config.metric);
    if (method.name == "bt2") config.bt2.base_model = folder_ / "old-cosine";
    return config;
  }

  void TrainOldModels() const {
    for (const char* metric : {"lorentz", "cosine"}) {
      TrainConfig config = ConfigOf(*FindTrainingMethod("independent"));
      config.metric = metric;
      config.name = "old";
      ASSERT_TRUE(Train(dataset_, config, folder_ / (std::string("old-") + metric)).ok());
    }
  }

  static std::map<std::string, int> AllowedTo(const MethodInfo& method) {
    // The norms of its two matrices say how often the exponential is squared.
    if (method.name == "bt2") return {{"aten::_local_scalar_dense", 2}};
    return {};
  }

  // What the second step of a training watches out for; the first may bring things to their place.
  std::map<std::string, int> FoundIn(const TrainConfig& config) const {
    const absl::StatusOr<TrainConfig> resolved = ResolveConfig(dataset_, config);
    if (!resolved.ok()) ADD_FAILURE() << MessageOf(resolved.status());
    const auto run = TrainingRun::Create(dataset_, *resolved);
    if (!run.ok()) {
      ADD_FAILURE() << config.method << ": " << MessageOf(run.status());
      return {};
    }
    LoaderOptions options;
    options.batch_size = 60;
    options.same_class = FindTrainingMethod(config.method)->same_class;
    const auto loader = *BatchLoader::Create(&dataset_.train, dataset_.normalisation, options);
    Batch batch;
    LossMeter meter;
    EXPECT_TRUE((*run)->Start().ok());
    EXPECT_TRUE(loader->Next(&batch));
    meter.Add((*run)->Step(batch, 0.01, 0));
    EXPECT_TRUE(loader->Next(&batch));
    const Watch watch;
    meter.Add((*run)->Step(batch, 0.01, 0.1));
    return Watch::found();
  }

  const Dataset dataset_ = TinyDataset();
  const TemporaryFolder folder_;
};

TEST_F(DeviceSteps, NoMethodWaitsForADeviceWithinAStepOrForgetsToNameIt) {
  TrainOldModels();
  for (const MethodInfo& method : TrainingMethods()) {
    EXPECT_EQ(FoundIn(ConfigOf(method)), AllowedTo(method)) << method.name;
  }
}

// As on a device: convolutions in channels-last, batch norms, and the backbone under autocast.
TEST_F(DeviceSteps, NoMethodWaitsForADeviceWithAConvolutionalBackboneInBf16) {
  TrainOldModels();
  for (const MethodInfo& method : TrainingMethods()) {
    TrainConfig config = ConfigOf(method);
    config.encoder.architecture = "small-cnn";
    config.precision = "auto";  // float32 on a processor without it
    EXPECT_EQ(FoundIn(config), AllowedTo(method)) << method.name;
  }
}

TEST_F(DeviceSteps, TheWatchSeesWhatItIsFor) {
  const Watch watch;
  torch::ones({3}, torch::device(torch::kCPU)).sum().item<double>();
  torch::zeros({2});
  const std::map<std::string, int> expected = {{"aten::_local_scalar_dense", 1}, {"aten::zeros without a device", 1}};
  EXPECT_EQ(Watch::found(), expected);
}

}  // namespace
}  // namespace lightcone
