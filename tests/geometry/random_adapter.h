// Random adapters for tests, and what they compute, in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "geometry/adapter.h"

namespace lightcone::test {

inline std::vector<float> RandomNumbers(std::mt19937_64& random, std::size_t count, double size) {
  std::uniform_real_distribution<double> uniform(-size, size);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(uniform(random));
  return values;
}

// `width` is used by kinds that have one. Equal dimensions make a low-rank map without a linear part.
inline AdapterSpec RandomAdapter(std::mt19937_64& random, AdapterKind kind, int in, int out, int width,
                                 AdapterHead head = AdapterHead::kNone) {
  const std::size_t i = static_cast<std::size_t>(in), o = static_cast<std::size_t>(out);
  const bool low_rank = kind == AdapterKind::kLowRankAffine, mlp = kind == AdapterKind::kResidualMlp,
             kernel = kind == AdapterKind::kKernel;
  const std::size_t w = low_rank || mlp || kernel ? static_cast<std::size_t>(width) : 0;
  AdapterSpec spec;
  spec.direction = AdapterDirection::kItem;
  spec.kind = kind;
  spec.input_dimension = in;
  spec.target = {Metric::kLorentz, out, 1.0, 1.2};
  spec.width = static_cast<int>(w);
  if (!low_rank || in != out) spec.linear = RandomNumbers(random, o * i, 0.3);
  if (kind != AdapterKind::kProcrustes) spec.offset = RandomNumbers(random, o, 0.3);
  spec.hidden = RandomNumbers(random, w * i, 0.3);
  if (mlp) spec.hidden_offset = RandomNumbers(random, w, 0.3);
  spec.output = RandomNumbers(random, o * w, 0.3);
  if (kernel) spec.input_radius = 1.1f, spec.sharpness = 0.7f;  // some rows are longer, some are not
  spec.head = head;
  if (head != AdapterHead::kNone) {
    spec.head_weights = RandomNumbers(random, (head == AdapterHead::kHidden ? w : i) + 1, 0.1);
    spec.head_bias = -1.0f;
  }
  return spec;
}

struct AdapterTruth {
  std::vector<double> out;
  std::vector<double> size;  // sum of the absolute terms of each output: what float32 rounding is relative to
  double error = 0;          // predicted; 0 without a head
};

inline double LengthOf(const std::vector<double>& x) {
  double square = 0;
  for (const double v : x) square += v * v;
  return std::sqrt(square);
}

// What the map reads: z, or z / |z| where the adapter asks for that, shortened where the kind does.
inline std::vector<double> InputOf(const AdapterSpec& spec, std::span<const float> z) {
  std::vector<double> x(z.begin(), z.end());
  const double length = spec.unit_input ? LengthOf(x) : 1.0;
  for (double& v : x) v /= length;
  if (spec.kind != AdapterKind::kKernel) return x;
  const double scale = std::min(1.0, static_cast<double>(spec.input_radius) / LengthOf(x));
  for (double& v : x) v *= scale;
  return x;
}

struct UnitsTruth {
  std::vector<double> units, size;
};

inline UnitsTruth UnitsOf(const AdapterSpec& spec, const std::vector<double>& x) {
  const std::size_t in = x.size(), width = static_cast<std::size_t>(spec.width);
  UnitsTruth truth{std::vector<double>(width), std::vector<double>(width)};
  for (std::size_t u = 0; u < width; ++u) {
    double sum = spec.hidden_offset.empty() ? 0.0 : spec.hidden_offset[u], size = std::abs(sum), square = 0;
    for (std::size_t j = 0; j < in; ++j) {
      const double a = spec.hidden[u * in + j];
      sum += a * x[j];
      size += std::abs(a * x[j]);
      square += (x[j] - a) * (x[j] - a);
    }
    truth.units[u] = spec.kind == AdapterKind::kResidualMlp ? std::max(sum, 0.0) : sum;
    truth.size[u] = size;
    if (spec.kind != AdapterKind::kKernel) continue;
    truth.units[u] = std::exp(-spec.sharpness * std::sqrt(square));
    truth.size[u] = 1 + spec.sharpness * (1 + 4 / std::sqrt(square));  // the square's rounding, through the root
  }
  return truth;
}

inline AdapterTruth TruthOf(const AdapterSpec& spec, std::span<const float> z) {
  const std::size_t in = static_cast<std::size_t>(spec.input_dimension),
                    out = static_cast<std::size_t>(spec.output_dimension()),
                    width = static_cast<std::size_t>(spec.width);
  const std::vector<double> x = InputOf(spec, z);
  const auto [units, unit_size] = UnitsOf(spec, x);
  AdapterTruth truth{std::vector<double>(out), std::vector<double>(out), 0};
  for (std::size_t o = 0; o < out; ++o) {
    double sum = spec.offset.empty() ? 0.0 : spec.offset[o], size = std::abs(sum);
    for (std::size_t j = 0; j < in; ++j) {
      const double term = (spec.linear.empty() ? (o == j ? 1.0 : 0.0) : spec.linear[o * in + j]) * x[j];
      sum += term;
      size += std::abs(term);
    }
    for (std::size_t u = 0; u < width; ++u) {
      sum += spec.output[o * width + u] * units[u];
      size += std::abs(spec.output[o * width + u]) * unit_size[u];
    }
    truth.out[o] = sum;
    truth.size[o] = size;
  }
  if (spec.head == AdapterHead::kNone) return truth;
  double log_error = spec.head_bias;
  const std::vector<double> read = spec.unit_input ? x : std::vector<double>(z.begin(), z.end());
  const std::size_t features = spec.head == AdapterHead::kHidden ? width : in;
  for (std::size_t f = 0; f < features; ++f) {
    log_error += spec.head_weights[f] * (spec.head == AdapterHead::kHidden ? units[f] : read[f]);
  }
  truth.error = std::exp(log_error + spec.head_weights[features] * LengthOf(read));
  return truth;
}

}  // namespace lightcone::test
