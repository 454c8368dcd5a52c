// Adapters for tests: random ones, and what they do and what distances are, written out naively in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "geometry/adapter.h"
#include "geometry/metric.h"

namespace lightcone {

// Random weights of about unit gain. Maps with a hidden layer or a rank get `width`.
inline AdapterSpec RandomAdapter(std::mt19937* random, AdapterDirection direction, int input_dimension,
                                 const Space& target, AdapterKind kind = AdapterKind::kResidualMlp, int width = 6) {
  const size_t in = static_cast<size_t>(input_dimension), out = static_cast<size_t>(target.dimension);
  const size_t hidden = static_cast<size_t>(width);
  const auto numbers = [&](size_t n, double scale) {
    std::normal_distribution<double> normal(0, scale);
    std::vector<float> values(n);
    for (float& x : values) x = static_cast<float>(normal(*random));
    return values;
  };
  const double gain = 1.0 / std::sqrt(static_cast<double>(input_dimension));
  AdapterSpec spec;
  spec.direction = direction;
  spec.kind = kind;
  spec.input_dimension = input_dimension;
  spec.target = target;
  spec.linear = numbers(out * in, gain);
  spec.offset = numbers(out, 0.2);
  if (kind != AdapterKind::kResidualMlp) return spec;
  spec.width = width;
  spec.hidden = numbers(hidden * in, gain);
  spec.hidden_offset = numbers(hidden, 0.2);
  spec.output = numbers(out * hidden, 0.5);
  return spec;
}

// f(z) = W z + c + B relu(A z + a), with B = 0 for affine maps. REQUIRES: residual-mlp or affine.
inline std::vector<double> CarriedNaively(const AdapterSpec& spec, std::span<const float> z) {
  const auto product = [](const std::vector<float>& matrix, const auto& x, size_t row) {
    double sum = 0;
    for (size_t j = 0; j < x.size(); ++j) sum += static_cast<double>(matrix[row * x.size() + j]) * x[j];
    return sum;
  };
  std::vector<double> hidden(static_cast<size_t>(spec.width));
  for (size_t i = 0; i < hidden.size(); ++i) {
    hidden[i] = std::max(0.0, product(spec.hidden, z, i) + spec.hidden_offset[i]);
  }
  std::vector<double> out(static_cast<size_t>(spec.output_dimension()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = product(spec.linear, z, i) + spec.offset[i];
    if (!hidden.empty()) out[i] += product(spec.output, hidden, i);
  }
  return out;
}

template <typename Number>
std::vector<double> Doubles(const std::vector<Number>& z) {
  return {z.begin(), z.end()};
}

// The distance of two vectors before their clips, each clipped by its own radius. Good to about 1e-8.
inline double DistanceNaively(const Space& a_space, const std::vector<double>& a, const Space& b_space,
                              const std::vector<double>& b) {
  double dot = 0, aa = 0, bb = 0, gap = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    gap += (a[i] - b[i]) * (a[i] - b[i]);
  }
  const double cosine = dot / std::sqrt(aa * bb);
  switch (a_space.metric) {
    case Metric::kInnerProduct:
      return -dot;
    case Metric::kEuclidean:
      return std::sqrt(gap);
    case Metric::kCosine:
      return 1.0 - cosine;
    case Metric::kLorentz:
      break;
  }
  const double k = std::sqrt(a_space.curvature);
  const double ra = k * std::min(std::sqrt(aa), a_space.clip_radius);
  const double rb = k * std::min(std::sqrt(bb), b_space.clip_radius);
  return std::acosh(std::max(1.0, std::cosh(ra) * std::cosh(rb) - std::sinh(ra) * std::sinh(rb) * cosine)) / k;
}

}  // namespace lightcone
