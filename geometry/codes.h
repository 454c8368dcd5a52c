// int8 codes of stored rows, and a query bound to them: a quarter of the bytes, and a bound on what that costs.
//
// A row's scaled vector h = scale * z (row_factors.h) is kept as h' = step * c with c in [-127, 127]^d, beside the
// length of what is lost, error = |h - h'|. For a query (a, b, c) of bound_query.h, coded as a' = sigma * A with
// integers A,
//   |<a, h> - <a', h'>| <= |a| error + |a - a'| |h'|          (Cauchy and Schwarz; spec 8.3 c)
// so that a scan of the codes names a superset of the exact top k. Time and bias are not coded.
// Threads: values and const methods are safe concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "geometry/aligned.h"
#include "geometry/bound_query.h"
#include "geometry/row_factors.h"

namespace lightcone {

// What follows the codes of a row, at the next multiple of 16 bytes.
struct CodeFactors {
  float step = 0;
  float bias = 0;   // RowFactors::bias
  float error = 0;  // |h - h'|, rounded up
  float reserved = 0;
};
static_assert(sizeof(CodeFactors) == 16, "kernels load it as one vector of four floats");

// Coded rows side by side: `dimension` bytes (c + 128; 128 up to the next multiple of 16), then CodeFactors.
struct CodeBlock {
  const std::uint8_t* rows = nullptr;
  std::size_t stride = 0;  // bytes
  float error_max = 0;     // of the rows
  float norm_max = 0;      // largest |h'|, rounded up
};

std::size_t CodeFactorsAt(int dimension);  // bytes from a row's begin to its factors
std::size_t CodeStride(int dimension);     // bytes from row to row

// Codes one row into CodeStride(z.size()) bytes at `out`, and raises error_max and norm_max of `block` to hold for it.
// REQUIRES: finite z and factors.
void EncodeRow(const RowFactors& factors, std::span<const float> z, std::uint8_t* out, CodeBlock* block);

// REQUIRES: the query outlives this.
class CodeQuery {
 public:
  explicit CodeQuery(const BoundQuery& query);

  // |score of a kernel of code_kernels.h - exact score| <= Slack(block, bias_max) + a_norm() * the row's error, for
  // rows of `block` whose bias is at most bias_max, by any target's kernel.
  float Slack(const CodeBlock& block, float bias_max) const;
  float a_norm() const { return a_norm_; }
  // The same for the row of the largest error.
  double ErrorMax(const CodeBlock& block, float bias_max) const {
    return double{Slack(block, bias_max)} + double{a_norm_} * block.error_max;
  }

  // score = step * (sigma * <A, c>) - b * bias - c. A is kept as int16 and as A = 256 high + low with int8 parts, all
  // padded with zeros to a multiple of 64 elements. Sums are those of int32, modulo 2^32: |<A, c>| < 2^31.
  const std::int16_t* whole() const { return whole_.data(); }
  const std::int8_t* high() const { return high_.data(); }
  const std::int8_t* low() const { return low_.data(); }
  std::uint32_t offset() const { return offset_; }  // 128 * sum of A: codes are stored 128 too high
  float sigma() const { return sigma_; }
  float b() const { return query_->b(); }
  float c() const { return query_->c(); }
  int dimension() const { return query_->dimension(); }

 private:
  const BoundQuery* query_;
  std::vector<std::int16_t> whole_;
  std::vector<std::int8_t> high_, low_;
  std::uint32_t offset_ = 0;
  float sigma_ = 0;
  float a_norm_ = 0;  // of the exact a, rounded up
  double a_gap_ = 0;  // |a - a'|, rounded up
};

}  // namespace lightcone
