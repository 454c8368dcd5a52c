#include "index/gpu/scan_bounds.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace lightcone::gpu {
namespace {

constexpr double kUnitRoundoff = 0x1p-24;
constexpr double kCompared = 8;        // roundings of a score, its error and a floor
constexpr double kCutANumber = 4;      // cut of each number in a sum by tensor cores, in units of u
constexpr double kRoundUp = 1 + 1e-6;  // factor of geometry/codes.cc

}  // namespace

float RoundedUp(double x) {
  return std::nextafter(static_cast<float>(x * kRoundUp), std::numeric_limits<float>::infinity());
}

DeviceQueryCode::DeviceQueryCode(const BoundQuery& query) : query_(&query), coded_(query) {
  const int n = query.dimension();
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += double{query.a()[i]} * double{query.a()[i]};
  a_norm_ = std::sqrt(squares) * kRoundUp;
  // A query is coded as a row whose centre is the origin.
  CodeBlock block;
  block.kind = CodeKind::kHalf;
  halves_.resize(CodeStride(CodeKind::kHalf, n));
  EncodeRow(Metric::kInnerProduct, RowFactors{1, 0}, {query.a(), static_cast<size_t>(n)}, halves_.data(), &block);
  CodeFactors factors;
  const size_t at = CodeFactorsAt(CodeKind::kHalf, n);
  std::memcpy(&factors, halves_.data() + at, sizeof(factors));
  halves_.resize(at);
  sigma_ = factors.step;
  gap_ = factors.error;
}

std::vector<uint8_t> DeviceQueryCode::Numbers(bool halves, uint32_t numbers) const {
  std::vector<uint8_t> out(size_t{numbers} * (halves ? sizeof(uint16_t) : sizeof(float)), 0);
  if (halves) {
    std::memcpy(out.data(), halves_.data(), halves_.size());
  } else {
    std::memcpy(out.data(), query_->a(), static_cast<size_t>(query_->dimension()) * sizeof(float));
  }
  return out;
}

QueryArgs DeviceQueryCode::ArgsFor(const DeviceRows& rows, bool many) {
  const CodeBlock& bounds = rows.bounds();
  const double d = rows.dimension(), norm_max = bounds.norm_max, b = query_->b();
  QueryArgs args = {};
  args.sigma = 1;
  args.b = query_->b();
  double slack = 0, gap = 0;
  if (rows.storage() == DeviceStorage::kHalf) {
    coded_.Bind(bounds);
    args.c = coded_.c();
    args.row_error = coded_.a_norm();
    args.euclidean = coded_.euclidean() ? 1 : 0;
    slack = coded_.slack();
    if (many) {
      args.sigma = sigma_;
      gap = gap_;
      slack += gap * norm_max + kCutANumber * rows.numbers() * kUnitRoundoff * (a_norm_ + gap) * norm_max;
    }
  } else {
    args.c = query_->c();
    slack = query_->ScoreErrorMax(bounds.bias_max) * (many ? (d + 27) / (d / 4 + 27) : 1.0);
  }
  const double score_max = (a_norm_ + gap) * norm_max + std::abs(b) * bounds.bias_max + std::abs(double{args.c});
  args.slack = RoundedUp(slack + kCompared * kUnitRoundoff * score_max);
  return args;
}

}  // namespace lightcone::gpu
