// The numbers of the architectures, shared by the networks and by the cost model. Internal to models/.
#pragma once

#include <cstdint>

#include "models/encoders/architecture.h"

namespace lightcone::internal {

inline constexpr int kSmallCnnStem = 32;
inline constexpr int kSmallCnnStages[] = {64, 128, 256};
inline constexpr int kMlpHidden = 256;

// ResNet and IResNet: channels of the four stages (a bottleneck gives four times as many), and blocks in each.
inline constexpr int kResnetStages[] = {64, 128, 256, 512};
inline constexpr int kResnet18Blocks[] = {2, 2, 2, 2};
inline constexpr int kResnet50Blocks[] = {3, 4, 6, 3};
inline constexpr int kIresnet18Blocks[] = {2, 2, 2, 2};
inline constexpr int kIresnet50Blocks[] = {3, 4, 14, 3};
inline constexpr int kBottleneckExpansion = 4;

// VGG: two 3x3 convolutions a stage, then a pooling by 2. AlexNet: pooling 3x3, stride 2, behind some convolutions.
inline constexpr int kVgg13Stages[] = {64, 128, 256, 512, 512};
struct AlexnetConv {
  int channels, kernel;
  bool pooled;
};
inline constexpr AlexnetConv kAlexnetConvs[] = {
    {64, 0, true}, {192, 5, true}, {384, 3, false}, {256, 3, false}, {256, 3, true}};  // 0: the stem's own
inline constexpr int kVggGrid = 7, kAlexnetGrid = 6;  // largest side of the map that the first linear layer sees
inline constexpr int kClassifierHidden = 4096;        // both of its layers, of VGG and AlexNet
inline constexpr double kClassifierDropout = 0.5;

// ViT: patches, heads of 64 channels, layers.
inline constexpr int kVitPatch = 16, kVitHead = 64, kVitLayers = 12;
inline constexpr int kVitSmallHeads = 6, kVitBaseHeads = 12;

// base x width, rounded to a multiple of 4 (vector units), at least 4.
int64_t Channels(double width, int base);
// base x width attention heads, rounded, at least 1.
int64_t Heads(double width, int base);

// The side of a map after a convolution or pooling.
constexpr int64_t Side(int64_t pixels, int64_t kernel, int64_t stride, int64_t padding) {
  return (pixels + 2 * padding - kernel) / stride + 1;
}

// The stem of ResNet and AlexNet; `padding` of the convolution, `pool`: followed by a 3x3 pooling of stride 2.
struct Stem {
  int kernel, stride, padding;
  bool pool;
};
// REQUIRES: StemOf(config) is not empty.
Stem StemLayout(const EncoderConfig& config);

// The map that the last convolution of VGG or AlexNet gives, pooled to at most `grid` a side.
struct MapSize {
  int64_t height, width;
  int64_t area() const { return height * width; }
};
MapSize VggMap(const EncoderConfig& config);      // before that pooling
MapSize AlexnetMap(const EncoderConfig& config);  // before that pooling
MapSize IresnetMap(const EncoderConfig& config);  // IResNet has no pooling
MapSize AtMost(MapSize map, int64_t grid);

}  // namespace lightcone::internal
