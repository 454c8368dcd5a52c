#include "models/encoders/architecture.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "base/status.h"
#include "models/encoders/layout.h"

namespace lightcone {
namespace {

constexpr int kImagenetStemPixels = 128;  // from here on, `auto` takes the stem that reduces the image by 4

bool IsVit(const EncoderConfig& c) { return c.architecture == "vit-s16" || c.architecture == "vit-b16"; }
bool HasStems(const EncoderConfig& c) {
  return c.architecture == "resnet18" || c.architecture == "resnet50" || c.architecture == "alexnet";
}

}  // namespace

const std::vector<ArchitectureInfo>& Architectures() {
  static const auto* const kAll = new std::vector<ArchitectureInfo>{
      {"small-cnn", "residual CNN, 7 convolutions of 32 - 256 channels x width; minutes on two cores"},
      {"resnet18", "ResNet-18, 64 - 512 channels x width; the stem is 3x3, stride 1, below 128 px (encoder.stem)"},
      {"resnet50", "ResNet-50, bottlenecks of 64 - 512 channels x width, stride in their 3x3; stems as resnet18"},
      {"iresnet18", "InsightFace's IResNet-18: pre-activated blocks with PReLU, flatten, batch norm behind the head"},
      {"iresnet50", "InsightFace's IResNet-50 (3, 4, 14, 3 blocks), otherwise as iresnet18"},
      {"vgg13", "VGG-13 with batch norm, 64 - 512 channels x width, two layers of 4096 x width; from 32 px"},
      {"alexnet", "AlexNet, 64 - 384 channels x width, two layers of 4096 x width; from 63 px, or 15 with stem cifar"},
      {"vit-s16", "ViT-S/16: 12 pre-norm layers, 6 x width heads of 64 channels; sides are multiples of 16 px"},
      {"vit-b16", "ViT-B/16: 12 pre-norm layers, 12 x width heads of 64 channels; sides are multiples of 16 px"},
      {"mlp", "two hidden layers of 256 x width on the flattened pixels; for tests and tiny inputs"},
      {"torchscript", "a TorchScript module of yours (encoder.backbone_file), images to features"},
  };
  return *kAll;
}

std::string StemOf(const EncoderConfig& config) {
  if (!HasStems(config)) return "";
  if (config.stem != "auto") return config.stem;
  return std::min(config.height, config.width_px) >= kImagenetStemPixels ? "imagenet" : "cifar";
}

bool HasHeadBatchNorm(const EncoderConfig& config) {
  return config.head_batch_norm || config.architecture == "iresnet18" || config.architecture == "iresnet50";
}

namespace internal {

int64_t Channels(double width, int base) {
  return std::max<int64_t>(4, static_cast<int64_t>(std::lround(width * base / 4.0)) * 4);
}

int64_t Heads(double width, int base) { return std::max<int64_t>(1, std::lround(width * base)); }

Stem StemLayout(const EncoderConfig& config) {
  LC_DCHECK(!StemOf(config).empty());
  const bool imagenet = StemOf(config) == "imagenet";
  if (config.architecture == "alexnet") return imagenet ? Stem{11, 4, 2, true} : Stem{3, 1, 1, true};
  return imagenet ? Stem{7, 2, 3, true} : Stem{3, 1, 1, false};
}

MapSize VggMap(const EncoderConfig& config) {
  MapSize map{config.height, config.width_px};
  for (size_t stage = 0; stage < std::size(kVgg13Stages); ++stage) map.height /= 2, map.width /= 2;
  return map;
}

MapSize AlexnetMap(const EncoderConfig& config) {
  const Stem stem = StemLayout(config);
  const auto side = [&](int64_t pixels) {
    pixels = Side(pixels, stem.kernel, stem.stride, stem.padding);
    for (const AlexnetConv& conv : kAlexnetConvs) {
      if (conv.pooled) pixels = pixels < 3 ? 0 : Side(pixels, 3, 2, 0);  // the other convolutions keep the size
    }
    return pixels;
  };
  return {side(config.height), side(config.width_px)};
}

MapSize IresnetMap(const EncoderConfig& config) {
  MapSize map{config.height, config.width_px};
  for (size_t stage = 0; stage < std::size(kResnetStages); ++stage) {
    map = {Side(map.height, 3, 2, 1), Side(map.width, 3, 2, 1)};
  }
  return map;
}

MapSize AtMost(MapSize map, int64_t grid) { return {std::min(map.height, grid), std::min(map.width, grid)}; }

}  // namespace internal

namespace {

absl::Status CheckSides(const EncoderConfig& c, bool (*ok)(int pixels), const std::string& allowed) {
  const std::string words = StrCat(allowed, " for architecture '", c.architecture, "'");
  if (!ok(c.height)) return InvalidField("input.height", StrCat(c.height), words);
  if (!ok(c.width_px)) return InvalidField("input.width", StrCat(c.width_px), words);
  return absl::OkStatus();
}

// What only some architectures can do.
absl::Status CheckArchitecture(const EncoderConfig& c) {
  if (c.stem != "auto" && c.stem != "cifar" && c.stem != "imagenet") {
    return InvalidField("stem", c.stem, "auto, cifar or imagenet");
  }
  if (c.stem != "auto" && !HasStems(c)) {
    return InvalidField("stem", c.stem, StrCat("auto for architecture '", c.architecture, "', which has one stem"));
  }
  if (c.architecture == "torchscript") {
    if (c.backbone_file.empty()) return InvalidField("backbone_file", "", "the path of a TorchScript file");
    if (c.width != 1) return InvalidField("width", StrCat(c.width), "1 for architecture 'torchscript'");
    return absl::OkStatus();
  }
  if (!c.backbone_file.empty()) {
    return InvalidField("backbone_file", c.backbone_file, "empty, unless the architecture is torchscript");
  }
  if (c.frozen) return InvalidField("frozen", "true", "false, unless the architecture is torchscript");
  if (IsVit(c))
    return CheckSides(
        c, [](int p) { return p % internal::kVitPatch == 0; }, "a multiple of 16");
  if (c.architecture == "vgg13")
    return CheckSides(
        c, [](int p) { return p >= 32; }, "32 .. 1024");
  if (c.architecture == "alexnet" && StemOf(c) == "imagenet") {
    return CheckSides(
        c, [](int p) { return p >= 63; }, "63 .. 1024 (stem cifar: 15 .. 1024)");
  }
  if (c.architecture == "alexnet")
    return CheckSides(
        c, [](int p) { return p >= 15; }, "15 .. 1024");
  return absl::OkStatus();
}

}  // namespace

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
  return CheckArchitecture(*this);
}

}  // namespace lightcone
