#include "tests/engine/encoder_world.h"

#include <torch/script.h>

#include "absl/strings/str_replace.h"
#include "base/files.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"

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

void EncoderTest::LetSlowGoOn() {
  ASSERT_TRUE(WriteFileAtomically(folder_.path() + "/.go", std::string("\0\0\x80\x3f", 4)).ok());  // 1.0
}

void EncoderTest::MakeFaultyEncoder() {
  torch::jit::Module module("__torch__.Faulty");
  const std::string go = folder_.path() + "/.go";
  ASSERT_TRUE(WriteFileAtomically(go, std::string(4, '\0')).ok());
  module.define(absl::StrReplaceAll(R"(
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
            while float(torch.from_file("GO", False, 1)[0]) == 0.0:
                mark = mark * 1
        if mark == 5000:
            z = z + float(torch.empty([1073741824]).numel() - 1073741824)
    return z
)",
                                    {{"GO", go}}));
  Save(module);
}

void EncoderTest::MakeWearyEncoder() {
  torch::jit::Module module("__torch__.Weary");
  module.register_buffer("calls", torch::zeros({1}));
  module.define(R"(
def forward(self, x):
    if float(x.abs().sum()) == 0.0:
        self.calls.add_(1.0)
    assert float(x.abs().sum()) == 0.0 and float(self.calls[0]) < 2.0, "too weary"
    return x.reshape([x.size(0), -1])[:, 1:5] * 0.5
)");
  Save(module);
}

void EncoderTest::MakeSpyingEncoder(const std::string& path, Spy spy) {
  torch::jit::Module module("__torch__.Spy");
  module.define(absl::StrReplaceAll(R"(
def forward(self, x):
    z = x.reshape([x.size(0), -1])[:, 1:5] * 0.5
    if float(x.abs().sum()) > 0.0:
        z = z + float(torch.from_file("PATH", SHARED, 1).fill_(0.0)[0])
    return z
)",
                                    {{"PATH", path}, {"SHARED", spy == Spy::kWrites ? "True" : "False"}}));
  Save(module);
}

void EncoderTest::MakeEagerEncoder(const std::string& path) {
  torch::jit::Module module("__torch__.Eager");
  module.define(absl::StrReplaceAll(R"(
def __getstate__(self):
    return 1
def __setstate__(self, state: int):
    assert float(torch.from_file("PATH", True, 4).sum()) == 0.0, "it is new"
def forward(self, x):
    return x.reshape([x.size(0), -1])[:, 1:5] * 0.5
)",
                                    {{"PATH", path}}));
  Save(module);
}

void EncoderTest::MakeWrongEncoder(Wrong wrong) {
  torch::jit::Module module("__torch__.Wrong");
  module.define(absl::StrReplaceAll(R"(
def forward(self, x):
    z = x.reshape([x.size(0), -1])[:, 1:5] * 0.5
    if float(x.abs().sum()) > 0.0:
        z = WRONG
    return z
)",
                                    {{"WRONG", wrong == Wrong::kNan ? "z / 0.0 - z / 0.0" : "z[:, :3]"}}));
  Save(module);
}

void EncoderTest::Save(const torch::jit::Module& module) {
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
