#include "tests/engine/encoder_world.h"

#include <torch/script.h>

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
  Describe("mlp", *crc);
  encoder_ = *ReadFile(path);
}

void EncoderTest::MakeFaultyEncoder() {
  torch::jit::Module module("__torch__.Faulty");
  module.define(R"(
def forward(self, x):
    z = x.reshape([x.size(0), -1])[:, 1:5] * 0.5
    for i in range(x.size(0)):
        mark = int(x[i, 0, 0, 0])
        if mark == 1000:
            z = z + float(7 % (mark - 1000))
        if mark == 2000:
            print("hangs")
            while mark == 2000:
                mark = mark * 1
        if mark == 3000:
            assert mark != 3000, "no such picture"
        if mark == 4000:
            print("slow")
            n = 0
            while n < 10000000:
                n = n + 1
        if mark == 5000:
            z = z + float(torch.empty([1073741824]).numel() - 1073741824)
    return z
)");
  const std::string path = folder_.path() + "/.faulty.pt";
  module.save(path);
  encoder_ = *ReadFile(path);
  Describe("external", Crc32c(encoder_));
}

void EncoderTest::Describe(const std::string& architecture, uint32_t crc32c) {
  manifest_.name = "tiny";
  manifest_.architecture = architecture;
  manifest_.dimension = kDimension;
  manifest_.clip_radius = 2;
  manifest_.input = {kSide, kSide, 1, {0.0f}, {1.0f}};
  manifest_.encoder_crc32c = crc32c;
}

}  // namespace lightcone::server
