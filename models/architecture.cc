#include "models/architecture.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "models/layout.h"

namespace lightcone {

const std::vector<ArchitectureInfo>& Architectures() {
  static const auto* const kAll = new std::vector<ArchitectureInfo>{
      {"small-cnn", "residual CNN, 7 convolutions of 32 - 256 channels x width; minutes on two cores"},
      {"resnet18", "ResNet-18 with the CIFAR stem (3x3, stride 1, no pooling), 64 - 512 channels x width"},
      {"mlp", "two hidden layers of 256 x width on the flattened pixels; for tests and tiny inputs"},
  };
  return *kAll;
}

absl::Status EncoderConfig::Validate() const {
  bool known = false;
  std::string names;
  for (const ArchitectureInfo& info : Architectures()) {
    known = known || info.name == architecture;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  if (!known) return InvalidField("architecture", architecture, names);
  if (!(width >= 0.0625 && width <= 8)) return InvalidField("width", StrCat(width), "0.0625 .. 8");
  if (dimension < 2 || dimension > 4096) return InvalidField("dimension", StrCat(dimension), "2 .. 4096");
  if (height < 4 || height > 1024) return InvalidField("input.height", StrCat(height), "4 .. 1024");
  if (width_px < 4 || width_px > 1024) return InvalidField("input.width", StrCat(width_px), "4 .. 1024");
  if (channels != 1 && channels != 3) return InvalidField("input.channels", StrCat(channels), "1 or 3");
  if (rescale != "none" && rescale != "fixed" && rescale != "learnable") {
    return InvalidField("rescale", rescale, "none, fixed or learnable");
  }
  return absl::OkStatus();
}

namespace internal {

int64_t Channels(double width, int base) {
  return std::max<int64_t>(4, static_cast<int64_t>(std::lround(width * base / 4.0)) * 4);
}

int64_t Halved(int64_t pixels) { return (pixels + 1) / 2; }

}  // namespace internal

namespace {

using internal::Channels;
using internal::Halved;

double ConvMacs(int64_t in, int64_t out, int kernel, int64_t h, int64_t w) {
  return static_cast<double>(in) * out * kernel * kernel * h * w;
}

double SmallCnnMacs(const EncoderConfig& c) {
  int64_t h = c.height, w = c.width_px, in = Channels(c.width, internal::kSmallCnnStem);
  double macs = ConvMacs(c.channels, in, 3, h, w);
  for (int base : internal::kSmallCnnStages) {
    h = Halved(h), w = Halved(w);
    const int64_t out = Channels(c.width, base);
    macs += ConvMacs(in, out, 3, h, w) + ConvMacs(out, out, 3, h, w);
    in = out;
  }
  return macs + static_cast<double>(in) * c.dimension;
}

double Resnet18Macs(const EncoderConfig& c) {
  int64_t h = c.height, w = c.width_px, in = Channels(c.width, internal::kResnetStages[0]);
  double macs = ConvMacs(c.channels, in, 3, h, w);
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t out = Channels(c.width, internal::kResnetStages[stage]);
    if (stage > 0) h = Halved(h), w = Halved(w);
    macs += ConvMacs(in, out, 3, h, w) + 3 * ConvMacs(out, out, 3, h, w);
    if (stage > 0) macs += ConvMacs(in, out, 1, h, w);
    in = out;
  }
  return macs + static_cast<double>(in) * c.dimension;
}

}  // namespace

double MacsPerImage(const EncoderConfig& config) {
  if (config.architecture == "small-cnn") return SmallCnnMacs(config);
  if (config.architecture == "resnet18") return Resnet18Macs(config);
  const int64_t hidden = Channels(config.width, internal::kMlpHidden);
  const double pixels = static_cast<double>(config.height) * config.width_px * config.channels;
  return pixels * hidden + static_cast<double>(hidden) * hidden + static_cast<double>(hidden) * config.dimension;
}

}  // namespace lightcone
