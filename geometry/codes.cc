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
constexpr double kLeast = 1e-37;  // of what underflows

float RoundUp(double x) { return std::nextafter(static_cast<float>(x), std::numeric_limits<float>::infinity()); }

}  // namespace

std::size_t CodeFactorsAt(int dimension) { return (static_cast<std::size_t>(dimension) + 15) / 16 * 16; }

std::size_t CodeStride(int dimension) { return CodeFactorsAt(dimension) + sizeof(CodeFactors); }

bool WorthCoding(int dimension) {
  return CodeStride(dimension) < static_cast<std::size_t>(dimension) * sizeof(float) + sizeof(RowFactors);
}

void EncodeRow(Metric metric, const RowFactors& factors, std::span<const float> z, std::uint8_t* out,
               CodeBlock* block) {
  const double scale = factors.scale;
  const auto centre = [&](std::size_t i) { return block->centre == nullptr ? 0.0 : double{block->centre[i]}; };
  double largest = 0;
  for (std::size_t i = 0; i < z.size(); ++i) largest = std::max(largest, std::abs(scale * double{z[i]} - centre(i)));
  CodeFactors coded;
  coded.step = static_cast<float>(largest / kCodeMax);
  const int dimension = static_cast<int>(z.size());
  std::memset(out, 128, CodeFactorsAt(dimension));
  double lost = 0, kept = 0, along = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double r = scale * double{z[i]} - centre(i);
    const double code = coded.step > 0 ? std::clamp(std::nearbyint(r / coded.step), -kCodeMax, kCodeMax) : 0;
    out[i] = static_cast<std::uint8_t>(static_cast<int>(code) + 128);
    const double value = code * coded.step;
    lost += (r - value) * (r - value);
    kept += value * value;
    along += centre(i) * value;
  }
  coded.bias = metric == Metric::kEuclidean ? static_cast<float>(kept + 2 * along) : factors.bias;
  coded.error = RoundUp(std::sqrt(lost) * kRoundUp);
  std::memcpy(out + CodeFactorsAt(dimension), &coded, sizeof(coded));
  block->error_max = std::max(block->error_max, coded.error);
  block->norm_max = std::max(block->norm_max, RoundUp(std::sqrt(kept) * kRoundUp));
  block->bias_max = std::max(block->bias_max, std::abs(coded.bias));
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
  euclidean_ = query.item_space().metric == Metric::kEuclidean;
}

void CodeQuery::TurnTo(const CodeBlock& block) {
  // Euclid: |q - m|^2, with a = 2 q. Else c - <a, m>.
  double constant = euclidean_ ? 0 : double{query_->c()}, centre_squares = 0;
  for (int i = 0; i < dimension(); ++i) {
    const double a = query_->a()[i], m = block.centre == nullptr ? 0 : double{block.centre[i]};
    centre_squares += m * m;
    constant += euclidean_ ? (a / 2 - m) * (a / 2 - m) : -a * m;
  }
  c_ = static_cast<float>(constant);
  // The integer product is exact; its conversion, three products, two sums, the factors themselves, the sum with an
  // error that kernels compare, and the floor that they compare it with round, each by half a unit of what is added.
  const double products = (double{a_norm_} + a_gap_) * double{block.norm_max};
  const double added = products + std::abs(double{query_->b()}) * block.bias_max + std::abs(constant);
  // What `a` and `h` lose where they are rounded to float32.
  const double lengths = double{block.norm_max} + block.error_max + std::sqrt(centre_squares);
  slack_ = RoundUp((16 * 0x1p-24 * added + a_gap_ * block.norm_max + 3e-7 * a_norm_ * lengths + kLeast) * kRoundUp);
}

double CodeQuery::ErrorOf(float score, float row_error) const {
  const double error = row_error;
  if (!euclidean_) return double{slack_} + double{a_norm_} * error;
  return double{slack_} + error * (2 * std::sqrt(std::max(0.0, double{slack_} - score)) + error) * kRoundUp;
}

}  // namespace lightcone
