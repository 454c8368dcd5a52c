#include "geometry/codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace lightcone {
namespace {

constexpr double kCodeMax = 127;
constexpr double kWholeMax = 127 * 256;  // its high part stays within int8
// Float32 values, sums of squares in double and square roots of them: a little more than they can be wrong by.
constexpr double kRoundUp = 1 + 1e-6;

float RoundUp(double x) { return std::nextafter(static_cast<float>(x), std::numeric_limits<float>::infinity()); }

}  // namespace

std::size_t CodeFactorsAt(int dimension) { return (static_cast<std::size_t>(dimension) + 15) / 16 * 16; }

std::size_t CodeStride(int dimension) { return CodeFactorsAt(dimension) + sizeof(CodeFactors); }

void EncodeRow(const RowFactors& factors, std::span<const float> z, std::uint8_t* out, CodeBlock* block) {
  const double scale = factors.scale;
  double largest = 0;
  for (const float x : z) largest = std::max(largest, std::abs(scale * double{x}));
  CodeFactors coded;
  coded.step = static_cast<float>(largest / kCodeMax);
  coded.bias = factors.bias;
  const int dimension = static_cast<int>(z.size());
  std::memset(out, 128, CodeFactorsAt(dimension));
  double lost = 0, kept = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double h = scale * double{z[i]};
    const double code = coded.step > 0 ? std::clamp(std::nearbyint(h / coded.step), -kCodeMax, kCodeMax) : 0;
    out[i] = static_cast<std::uint8_t>(static_cast<int>(code) + 128);
    const double value = code * coded.step;
    lost += (h - value) * (h - value);
    kept += value * value;
  }
  coded.error = RoundUp(std::sqrt(lost) * kRoundUp);
  std::memcpy(out + CodeFactorsAt(dimension), &coded, sizeof(coded));
  block->error_max = std::max(block->error_max, coded.error);
  block->norm_max = std::max(block->norm_max, RoundUp(std::sqrt(kept) * kRoundUp));
}

CodeQuery::CodeQuery(const BoundQuery& query) : query_(&query) {
  const std::size_t n = static_cast<std::size_t>(query.dimension());
  const std::size_t padded = (n + 63) / 64 * 64;
  whole_.resize(padded, 0);
  high_.resize(padded, 0);
  low_.resize(padded, 0);
  double largest = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double a = query.a()[i];
    largest = std::max(largest, std::abs(a));
    squares += a * a;
  }
  // So that |<A, c>| <= n max|A| 127 < 2^31.
  const double limit = std::min(kWholeMax, std::floor(0x1p31 / (kCodeMax * static_cast<double>(n))) - 1);
  sigma_ = static_cast<float>(largest / limit);
  double gap = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double a = query.a()[i];
    const int whole = sigma_ > 0 ? static_cast<int>(std::clamp(std::nearbyint(a / double{sigma_}), -limit, limit)) : 0;
    whole_[i] = static_cast<std::int16_t>(whole);
    const int high = (whole + 128) >> 8;
    high_[i] = static_cast<std::int8_t>(high);
    low_[i] = static_cast<std::int8_t>(whole - high * 256);
    offset_ += static_cast<std::uint32_t>(whole) * 128u;
    const double lost = a - double{sigma_} * whole;
    gap += lost * lost;
  }
  const double norm = std::sqrt(squares) * kRoundUp;
  a_norm_ = RoundUp(norm);
  a_gap_ = std::sqrt(gap) * kRoundUp + 1e-7 * norm;  // query.a() is itself a float32 rounding of a
}

float CodeQuery::Slack(const CodeBlock& block, float bias_max) const {
  // ScoreErrorMax covers the rounding of a float32 dot product of at least 20 steps beside that of the factors and of
  // the score. Here the dot product is exact, and its conversion, three products and two sums round: less than half of
  // it. Twice that covers also the sum of score and error that kernels compare.
  return RoundUp((2 * query_->ScoreErrorMax(bias_max) + a_gap_ * block.norm_max) * kRoundUp);
}

}  // namespace lightcone
