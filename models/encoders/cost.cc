// What a network costs: one walk over its layers gives multiply-accumulates and parameters. The tests hold it against
// the networks that are built (small ones) and the published counts (full-size ones, which nobody has to build).
#include <functional>
#include <map>

#include "base/dcheck.h"
#include "models/encoders/architecture.h"
#include "models/encoders/layout.h"

namespace lightcone {
namespace {

using internal::Channels;
using internal::Side;

struct Map {
  int64_t channels, height, width;
};

class Counter {
 public:
  Map Conv(Map in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool bias) {
    const Map map{out, Side(in.height, kernel, stride, padding), Side(in.width, kernel, stride, padding)};
    const int64_t weights = in.channels * out * kernel * kernel;
    macs += static_cast<double>(weights) * static_cast<double>(map.height * map.width);
    parameters += weights + (bias ? out : 0);
    return map;
  }
  // With the batch norm behind it.
  Map ConvNorm(Map in, int64_t out, int64_t kernel, int64_t stride, bool bias = false) {
    Norm(out);
    return Conv(in, out, kernel, stride, kernel / 2, bias);
  }
  void Norm(int64_t channels) { parameters += 2 * channels; }
  // Applied to `rows` vectors of an image.
  void Linear(int64_t in, int64_t out, int64_t rows = 1, bool bias = true) {
    macs += static_cast<double>(in) * static_cast<double>(out) * static_cast<double>(rows);
    parameters += in * out + (bias ? out : 0);
  }

  double macs = 0;
  int64_t parameters = 0;
};

Map InputOf(const EncoderConfig& c) { return {c.channels, c.height, c.width_px}; }

// Each of these returns the number of features that the head sees.

int64_t CountSmallCnn(const EncoderConfig& c, Counter& counter) {
  Map map = counter.ConvNorm(InputOf(c), Channels(c.width, internal::kSmallCnnStem), 3, 1);
  for (int base : internal::kSmallCnnStages) {
    map = counter.ConvNorm(map, Channels(c.width, base), 3, 2);
    map = counter.ConvNorm(map, map.channels, 3, 1);
  }
  return map.channels;
}

int64_t CountMlp(const EncoderConfig& c, Counter& counter) {
  const int64_t hidden = Channels(c.width, internal::kMlpHidden);
  counter.Linear(int64_t{c.height} * c.width_px * c.channels, hidden);
  counter.Linear(hidden, hidden);
  counter.Norm(2 * hidden);
  return hidden;
}

int64_t CountResnet(const EncoderConfig& c, const int (&blocks)[4], bool bottleneck, Counter& counter) {
  const internal::Stem stem = internal::StemLayout(c);
  Map map = counter.ConvNorm(InputOf(c), Channels(c.width, internal::kResnetStages[0]), stem.kernel, stem.stride);
  if (stem.pool) map = {map.channels, Side(map.height, 3, 2, 1), Side(map.width, 3, 2, 1)};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t inner = Channels(c.width, internal::kResnetStages[stage]);
    const int64_t out = inner * (bottleneck ? internal::kBottleneckExpansion : 1);
    for (int block = 0; block < blocks[stage]; ++block) {
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      if (stride != 1 || map.channels != out) counter.ConvNorm(map, out, 1, stride);
      if (bottleneck) {
        map = counter.ConvNorm(counter.ConvNorm(map, inner, 1, 1), inner, 3, stride);
        map = counter.ConvNorm(map, out, 1, 1);
      } else {
        map = counter.ConvNorm(counter.ConvNorm(map, out, 3, stride), out, 3, 1);
      }
    }
  }
  return map.channels;
}

int64_t CountIresnet(const EncoderConfig& c, const int (&blocks)[4], Counter& counter) {
  Map map = counter.ConvNorm(InputOf(c), Channels(c.width, internal::kResnetStages[0]), 3, 1);
  counter.parameters += map.channels;  // PReLU
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t out = Channels(c.width, internal::kResnetStages[stage]);
    for (int block = 0; block < blocks[stage]; ++block) {
      const int stride = block == 0 ? 2 : 1;
      if (block == 0) counter.ConvNorm(map, out, 1, stride);
      counter.Norm(map.channels);
      counter.parameters += out;  // PReLU
      map = counter.ConvNorm(counter.ConvNorm(map, out, 3, 1), out, 3, stride);
    }
  }
  counter.Norm(map.channels);
  return map.channels * map.height * map.width;
}

int64_t CountClassifier(int64_t features, const EncoderConfig& c, Counter& counter) {
  const int64_t hidden = Channels(c.width, internal::kClassifierHidden);
  counter.Linear(features, hidden);
  counter.Linear(hidden, hidden);
  return hidden;
}

int64_t CountVgg13(const EncoderConfig& c, Counter& counter) {
  Map map = InputOf(c);
  for (int base : internal::kVgg13Stages) {
    for (int i = 0; i < 2; ++i) map = counter.ConvNorm(map, Channels(c.width, base), 3, 1, /*bias=*/true);
    map.height /= 2, map.width /= 2;
  }
  return CountClassifier(map.channels * internal::AtMost({map.height, map.width}, internal::kVggGrid).area(), c,
                         counter);
}

int64_t CountAlexnet(const EncoderConfig& c, Counter& counter) {
  const internal::Stem stem = internal::StemLayout(c);
  Map map = InputOf(c);
  for (const internal::AlexnetConv& conv : internal::kAlexnetConvs) {
    const int64_t out = Channels(c.width, conv.channels);
    map = conv.kernel == 0 ? counter.Conv(map, out, stem.kernel, stem.stride, stem.padding, true)
                           : counter.Conv(map, out, conv.kernel, 1, conv.kernel / 2, true);
    if (conv.pooled) map = {out, Side(map.height, 3, 2, 0), Side(map.width, 3, 2, 0)};
  }
  return CountClassifier(map.channels * internal::AtMost({map.height, map.width}, internal::kAlexnetGrid).area(), c,
                         counter);
}

int64_t CountVit(const EncoderConfig& c, int heads, Counter& counter) {
  const int64_t d = internal::Heads(c.width, heads) * internal::kVitHead;
  const Map patches = counter.Conv(InputOf(c), d, internal::kVitPatch, internal::kVitPatch, 0, true);
  const int64_t tokens = patches.height * patches.width + 1;
  counter.parameters += d + tokens * d;  // class token, positions
  for (int layer = 0; layer < internal::kVitLayers; ++layer) {
    counter.Norm(2 * d);
    counter.Linear(d, 3 * d, tokens);
    counter.macs += 2.0 * static_cast<double>(tokens * tokens * d);  // q k^T, and its softmax times v
    counter.Linear(d, d, tokens);
    counter.Linear(d, 4 * d, tokens);
    counter.Linear(4 * d, d, tokens);
  }
  counter.Norm(d);
  return d;
}

using Walk = std::function<int64_t(const EncoderConfig&, Counter&)>;

const std::map<std::string, Walk>& Walks() {
  using C = const EncoderConfig&;
  static const auto* const kWalks = new std::map<std::string, Walk>{
      {"small-cnn", CountSmallCnn},
      {"mlp", CountMlp},
      {"resnet18", [](C c, Counter& n) { return CountResnet(c, internal::kResnet18Blocks, false, n); }},
      {"resnet50", [](C c, Counter& n) { return CountResnet(c, internal::kResnet50Blocks, true, n); }},
      {"iresnet18", [](C c, Counter& n) { return CountIresnet(c, internal::kIresnet18Blocks, n); }},
      {"iresnet50", [](C c, Counter& n) { return CountIresnet(c, internal::kIresnet50Blocks, n); }},
      {"vgg13", CountVgg13},
      {"alexnet", CountAlexnet},
      {"vit-s16", [](C c, Counter& n) { return CountVit(c, internal::kVitSmallHeads, n); }},
      {"vit-b16", [](C c, Counter& n) { return CountVit(c, internal::kVitBaseHeads, n); }},
  };
  return *kWalks;
}

Counter CostOf(const EncoderConfig& config) {
  Counter counter;
  const auto walk = Walks().find(config.architecture);
  if (walk == Walks().end()) return counter;
  const int64_t features = walk->second(config, counter);
  counter.Linear(features, config.dimension, 1, config.head_bias);
  if (HasHeadBatchNorm(config)) counter.Norm(config.dimension);
  if (config.rescale == "learnable") ++counter.parameters;
  return counter;
}

}  // namespace

double MacsPerImage(const EncoderConfig& config) {
  LC_DCHECK(config.Validate().ok());
  return CostOf(config).macs;
}

int64_t ParameterCount(const EncoderConfig& config) {
  LC_DCHECK(config.Validate().ok());
  return CostOf(config).parameters;
}

}  // namespace lightcone
