#include "tests/engine/encoder_world.h"

#include "base/files.h"
#include "models/checkpoint_torch.h"
#include "models/network_torch.h"

namespace lightcone::server {

void EncoderTest::MakeEncoder(uint64_t seed) {
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

}  // namespace lightcone::server
