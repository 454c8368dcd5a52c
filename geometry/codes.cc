#include "geometry/codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dcheck.h"
#include "geometry/code_kernels.h"

namespace lightcone {
namespace {

constexpr double kWholeMax = 127 * 256;  // largest A whose high part is an int8
// Float32 values, sums of squares in double and square roots of them: a little more than they can be wrong by.
constexpr double kRoundUp = 1 + 1e-6;
constexpr double kLeast = 1e-37;  // bound of what underflows

// The nearest whole number, for |x| < 2^51: std::nearbyint is a call where no instruction set is given.
double Whole(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

float RoundUp(double x) { return std::nextafter(static_cast<float>(x), std::numeric_limits<float>::infinity()); }

constexpr int kHalfBits = 10;          // bits of a significand without the leading one
constexpr int kHalfExponentMin = -14;  // least exponent of normal numbers
constexpr int kHalfExponentMax = 14;   // largest exponent of codes: rounding up stays finite
constexpr int kStepExponentMin = -126;

double ValueOfHalf(std::uint16_t bits) {
  const int exponent = (bits >> kHalfBits) & 31;
  const int significand = bits & ((1 << kHalfBits) - 1);
  const double size = exponent == 0 ? std::ldexp(significand, kHalfExponentMin - kHalfBits)
                                    : std::ldexp(significand + (1 << kHalfBits), exponent - 15 - kHalfBits);
  return bits >> 15 ? -size : size;
}

CodeFactors FactorsAt(const std::uint8_t* row, std::size_t at) {
  CodeFactors factors;
  std::memcpy(&factors, row + at, sizeof(factors));
  return factors;
}

// A power of two that brings the largest number to just below 2^(kHalfExponentMax + 1).
float HalfStep(double largest) {
  if (largest == 0) return 0;
  return std::ldexp(1.0f, std::max(std::ilogb(largest) - kHalfExponentMax, kStepExponentMin));
}

RowCoding EncodeHalf(double scale, std::span<const float> z, const float* centre, std::uint8_t* out) {
  const auto at = [&](std::size_t i) { return centre == nullptr ? 0.0 : double{centre[i]}; };
  double largest = 0;
  for (std::size_t i = 0; i < z.size(); ++i) largest = std::max(largest, std::abs(scale * double{z[i]} - at(i)));
  RowCoding coding;
  coding.step = HalfStep(largest);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double r = scale * double{z[i]} - at(i);
    const std::uint16_t half = HalfOf(coding.step > 0 ? r / coding.step : 0);
    std::memcpy(out + i * sizeof(half), &half, sizeof(half));
    const double value = coding.step * ValueOfHalf(half);
    coding.lost += (r - value) * (r - value);
    coding.kept += value * value;
    coding.along += at(i) * value;
  }
  return coding;
}

}  // namespace

std::uint16_t HalfOf(double value) {
  const std::uint16_t sign = value < 0 ? 0x8000 : 0;
  const double size = std::abs(value);
  const int exponent = std::max(size > 0 ? std::ilogb(size) : kHalfExponentMin, kHalfExponentMin);
  // In units of the last place; a carry into the next exponent makes the right bits.
  const int units = static_cast<int>(std::nearbyint(std::ldexp(size, kHalfBits - exponent)));
  const int bits = ((exponent - kHalfExponentMin) << kHalfBits) + units;  // normal numbers: units has the leading one
  return static_cast<std::uint16_t>(sign | bits);
}

std::size_t CodeFactorsAt(CodeKind kind, int dimension) {
  const std::size_t codes = (static_cast<std::size_t>(dimension) + 15) / 16 * 16;
  return kind == CodeKind::kInt8 ? codes : codes * sizeof(std::uint16_t);
}

std::size_t CodeStride(CodeKind kind, int dimension) { return CodeFactorsAt(kind, dimension) + sizeof(CodeFactors); }

int CodeDimensionMin(CodeKind kind) {
  int dimension = 64;  // blocks of codes from which on padding is little
  const auto worth = [kind](int d) {
    return CodeStride(kind, d) < static_cast<std::size_t>(d) * sizeof(float) + sizeof(RowFactors);
  };
  while (dimension > 1 && worth(dimension - 1)) --dimension;
  return dimension;
}

void EncodeRow(Metric metric, const RowFactors& factors, std::span<const float> z, std::uint8_t* out,
               CodeBlock* block) {
  LC_DCHECK(std::isfinite(factors.scale) && std::isfinite(factors.bias));
  const std::size_t factors_at = CodeFactorsAt(block->kind, static_cast<int>(z.size()));
  std::memset(out, block->kind == CodeKind::kInt8 ? 128 : 0, factors_at);
  const RowCoding coding = block->kind == CodeKind::kInt8
                               ? EncodeInt8(factors.scale, z.data(), block->centre, z.size(), out)
                               : EncodeHalf(factors.scale, z, block->centre, out);
  CodeFactors coded;
  coded.step = coding.step;
  const double beside_centre = block->around_centre ? coding.kept : coding.kept + 2 * coding.along;
  coded.bias = metric == Metric::kEuclidean ? static_cast<float>(beside_centre) : factors.bias;
  coded.error = RoundUp(std::sqrt(coding.lost) * kRoundUp);
  std::memcpy(out + factors_at, &coded, sizeof(coded));
  block->error_max = std::max(block->error_max, coded.error);
  block->norm_max = std::max(block->norm_max, RoundUp(std::sqrt(coding.kept) * kRoundUp));
  block->bias_max = std::max(block->bias_max, std::abs(coded.bias));
}

void DecodeRow(CodeKind kind, int dimension, const std::uint8_t* row, float* out) {
  const double step = FactorsAt(row, CodeFactorsAt(kind, dimension)).step;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimension); ++i) {
    std::uint16_t half = 0;
    if (kind == CodeKind::kHalf) std::memcpy(&half, row + i * sizeof(half), sizeof(half));
    out[i] = static_cast<float>(step * (kind == CodeKind::kInt8 ? int{row[i]} - 128 : ValueOfHalf(half)));
  }
}

CodeQuery::CodeQuery(const BoundQuery& query) : query_(&query) {
  euclidean_ = query.item_space().metric == Metric::kEuclidean;
  if (euclidean_) return;  // Bind knows what it is coded around.
  Code(static_cast<std::size_t>(query.dimension()), [&query](std::size_t i) { return double{query.a()[i]}; });
}

template <typename Number>
void CodeQuery::Code(std::size_t n, const Number& a) {
  const std::size_t padded = (n + 63) / 64 * 64;
  whole_.assign(padded, 0);
  high_.assign(padded, 0);
  low_.assign(padded, 0);
  offset_ = 0;
  double largest = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = a(i);
    largest = std::max(largest, std::abs(x));
    squares += x * x;
  }
  // So that |<A, c>| <= n max|A| 127 < 2^31.
  const double limit = std::min(kWholeMax, std::floor(0x1p31 / (kInt8CodeMax * static_cast<double>(n))) - 1);
  sigma_ = static_cast<float>(largest / limit);
  double gap = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = a(i);
    const int whole = sigma_ > 0 ? static_cast<int>(std::clamp(Whole(x / double{sigma_}), -limit, limit)) : 0;
    whole_[i] = static_cast<std::int16_t>(whole);
    const int high = (whole + 128) >> 8;
    high_[i] = static_cast<std::int8_t>(high);
    low_[i] = static_cast<std::int8_t>(whole - high * 256);
    offset_ += static_cast<std::uint32_t>(whole) * 128u;
    const double lost = x - double{sigma_} * whole;
    gap += lost * lost;
  }
  const double norm = std::sqrt(squares) * kRoundUp;
  a_norm_ = RoundUp(norm);
  a_gap_ = std::sqrt(gap) * kRoundUp + 1e-7 * norm;  // `a` may be a float32 rounding
}

void CodeQuery::Bind(const CodeBlock& block) {
  const std::size_t n = static_cast<std::size_t>(dimension());
  const bool around = euclidean_ && block.around_centre && block.centre != nullptr;
  const float* const centre = around ? block.centre : nullptr;
  const auto number = [&](std::size_t i) { return double{query_->a()[i]} - (around ? 2 * double{centre[i]} : 0.0); };
  const bool coded_anew = euclidean_ && (whole_.empty() || coded_around_ != centre);
  if (coded_anew) Code(n, number);
  coded_around_ = centre;
  if (!around || block.kind != CodeKind::kHalf) {
    if (!around_.empty()) around_ = AlignedFloats();
  } else if (coded_anew || around_.empty()) {
    around_ = AlignedFloats(n);
    for (std::size_t i = 0; i < n; ++i) around_[i] = static_cast<float>(number(i));
  }
  // Euclid: |q - m|^2, with a = 2 q. Else c - <a, m>.
  double constant = euclidean_ ? 0 : double{query_->c()}, centre_squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double a = query_->a()[i], m = block.centre == nullptr ? 0 : double{block.centre[i]};
    centre_squares += m * m;
    constant += euclidean_ ? (a / 2 - m) * (a / 2 - m) : -a * m;
  }
  c_ = static_cast<float>(constant);
  kind_ = block.kind;
  // The integer product is exact; its conversion, three products, two sums, the factors themselves, the sum with an
  // error that kernels compare, and the floor that they compare it with round, each by half a unit of what is added.
  // The sum of float16 products (Higham 2002, 3.1; at least four partial sums, as BoundQuery::ScoreErrorMax) adds its
  // steps; no query is coded for it.
  const bool half = kind_ == CodeKind::kHalf;
  const double a_gap = half ? 1e-7 * a_norm_ : a_gap_;
  const double roundings = half ? 16 + 20 + dimension() / 4.0 : 16;
  // Products of float16 numbers are added before they are multiplied by the step, at most that of the longest row; each
  // that underflows loses up to the least float32.
  const double underflow = half ? dimension() * std::ldexp(block.norm_max, -149 - kHalfExponentMax) : 0;
  const double products = (double{a_norm_} + a_gap) * double{block.norm_max};
  const double added = products + std::abs(double{query_->b()}) * block.bias_max + std::abs(constant);
  // What `a` and `h` lose where they are rounded to float32. Around the centre both are differences of exact numbers.
  const double lengths = double{block.norm_max} + block.error_max + (around ? 0 : std::sqrt(centre_squares));
  slack_ =
      RoundUp((roundings * 0x1p-24 * added + a_gap * block.norm_max + 3e-7 * a_norm_ * lengths + underflow + kLeast) *
              kRoundUp);
}

double CodeQuery::ErrorOf(float score, float row_error) const {
  const double error = row_error;
  if (!euclidean_) return double{slack_} + double{a_norm_} * error;
  return double{slack_} + error * (2 * std::sqrt(std::max(0.0, double{slack_} - score)) + error) * kRoundUp;
}

}  // namespace lightcone
