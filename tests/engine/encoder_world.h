// A collection "c" whose generations have real, tiny encoders, registered as TorchScript.
#pragma once

#include <cmath>
#include <string>

#include "base/files.h"
#include "engine_testing.h"
#include "models/checkpoint_torch.h"
#include "models/manifest.h"
#include "models/network_torch.h"

namespace lightcone::server {

class EncoderTest : public EngineTest {
 protected:
  static constexpr int kSide = 8;

  void SetUp() override {
    EngineTest::SetUp();
    MakeEncoder(5);
    CreateCollectionCall create;
    create.name = "c";
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
  }
  // Manifest and encoder of a model, another one for every seed.
  void MakeEncoder(uint64_t seed) {
    EncoderConfig config;
    config.architecture = "mlp";
    config.width = 0.0625;
    config.dimension = kDimension;
    config.height = config.width_px = kSide;
    config.channels = 1;
    const auto network = BuildNetwork(config, seed);
    ASSERT_TRUE(network.ok()) << network.status();
    const std::string path = folder_.path() + "/.encoder.pt";
    (*network)->eval();
    const auto crc = ExportTorchScript(**network, path);
    ASSERT_TRUE(crc.ok()) << crc.status();
    manifest_.name = "tiny";
    manifest_.architecture = "mlp";
    manifest_.dimension = kDimension;
    manifest_.clip_radius = 2;
    manifest_.input = {kSide, kSide, 1, {0.0f}, {1.0f}};
    manifest_.encoder_crc32c = *crc;
    encoder_ = *ReadFile(path);
  }
  RegisterCall Call() {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ToJson(manifest_);
    call.encoder = encoder_;
    return call;
  }
  static RawInput Tensor(float seed) {
    TensorInput tensor;
    tensor.shape = {1, kSide, kSide};
    for (int i = 0; i < kSide * kSide; ++i) tensor.values.push_back(std::sin(seed + 0.1f * static_cast<float>(i)));
    return tensor;
  }

  Manifest manifest_;
  std::string encoder_;
};

}  // namespace lightcone::server
