// Codes of stored rows, int8 or half precision, and a query bound to them: a quarter or half of the bytes, and a bound
// of the error.
//
// A row's scaled vector h = scale * z (row_factors.h) is kept as h' = m + r', r' = step * c with m the centre of all
// rows and c either integers in [-127, 127]^d or float16 numbers (then step is a power of two), beside the length of
// what is lost, error = |h - h'|. For a query (a, b, c) of bound_query.h, coded as a' = sigma * A with integers A for
// integers c, else a' = a,
//   |<a, h> - <a', r'> - <a, m>| <= |a| error + |a - a'| |r'|          (Cauchy and Schwarz; spec 8.3 c)
// so that a scan of the codes names a superset of the exact top k. Time and norms are those of the rows, but in
// Euclid's space, where the score is that of h' itself, -|q - h'|^2: there |q - h| is within `error` of |q - h'| (the
// triangle inequality), which for near rows is far less than what Cauchy and Schwarz allow. Codes that are
// `around_centre` score -|p - r'|^2 with p = q - m, which is the same number: however far the rows lie from the origin,
// what is computed is as small as their spread. Threads: values and const methods are safe concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "geometry/aligned.h"
#include "geometry/bound_query.h"
#include "geometry/row_factors.h"

namespace lightcone {

enum class CodeKind : std::uint8_t { kInt8, kHalf };

// The float16 (IEEE 754) next to a value of at most 2^15 in size, as bits.
std::uint16_t HalfOf(double value);
inline constexpr double kInt8CodeMax = 127;  // codes of kInt8 lie in [-127, 127]

// What follows the codes of a row, at the next multiple of 16 bytes.
struct CodeFactors {
  float step = 0;
  float bias = 0;   // RowFactors::bias; Euclid: |h'|^2 - |m|^2, or |r'|^2 where codes are around their centre
  float error = 0;  // |h - h'|, rounded up
  float reserved = 0;
};
static_assert(sizeof(CodeFactors) == 16, "kernels load it as one vector of four floats");

// Coded rows side by side: `dimension` codes, then CodeFactors. int8: bytes c + 128, and 128 up to the next multiple
// of 16. Half: float16 of IEEE 754, and zeros up to the next multiple of 16 codes.
struct CodeBlock {
  CodeKind kind = CodeKind::kInt8;
  const std::uint8_t* rows = nullptr;
  std::size_t stride = 0;         // bytes
  const float* centre = nullptr;  // m, `dimension` numbers; nullptr: the origin
  bool around_centre = false;     // Euclid's space: scores are computed around m. False in files of version 1.
  float error_max = 0;            // largest CodeFactors::error
  float norm_max = 0;             // largest |r'|, rounded up
  float bias_max = 0;             // largest |CodeFactors::bias|
};

std::size_t CodeFactorsAt(CodeKind kind, int dimension);  // bytes from a row's begin to its factors
std::size_t CodeStride(CodeKind kind, int dimension);     // bytes from row to row
// The least dimension from which on every coded row is shorter than its floats and factors.
int CodeDimensionMin(CodeKind kind);

// Codes one row as block->kind, around block->centre, into CodeStride bytes at `out`, and raises the bounds of `block`
// to hold for it. REQUIRES: finite z, factors and centre.
void EncodeRow(Metric metric, const RowFactors& factors, std::span<const float> z, std::uint8_t* out, CodeBlock* block);

// r' of a coded row, `dimension` numbers, each rounded to float32. Any codes give some numbers.
void DecodeRow(CodeKind kind, int dimension, const std::uint8_t* row, float* out);

// A query bound to coded rows. Refers to the query.
class CodeQuery {
 public:
  // Its numbers hold once Bind has been called: a Euclidean query is coded for the rows that it meets.
  explicit CodeQuery(const BoundQuery& query);

  // Binds the query to the rows of `block`: c() and the bounds hold for them.
  void Bind(const CodeBlock& block);

  // |score of a kernel of code_kernels.h - exact score| of a row with this score and error, by any target's kernel.
  double ErrorOf(float score, float row_error) const;
  // Its parts: slack() + a_norm() * error; Euclid: slack() + error * (2 sqrt(slack() - score) + error).
  float slack() const { return slack_; }
  float a_norm() const { return a_norm_; }
  bool euclidean() const { return euclidean_; }
  CodeKind kind() const { return kind_; }  // kind of the bound block

  // Half: score = step * <a, c> - b * bias - c, with `dimension` floats and then zeros up to a multiple of 16.
  const float* a() const { return around_.empty() ? query_->a() : around_.data(); }
  // int8: score = step * (sigma * <A, c>) - b * bias - c. A is kept as int16 and as A = 256 high + low with int8 parts,
  // all padded with zeros to a multiple of 64 elements. Sums are those of int32, modulo 2^32: |<A, c>| < 2^31.
  const std::int16_t* whole() const { return whole_.data(); }
  const std::int8_t* high() const { return high_.data(); }
  const std::int8_t* low() const { return low_.data(); }
  std::uint32_t offset() const { return offset_; }  // 128 * sum of A: codes are stored 128 too high
  float sigma() const { return sigma_; }
  float b() const { return query_->b(); }
  float c() const { return c_; }
  int dimension() const { return query_->dimension(); }

 private:
  // Codes the n numbers a(i) by integers.
  template <typename Number>
  void Code(std::size_t n, const Number& a);

  const BoundQuery* query_;
  AlignedFloats around_;                 // 2 (q - m) as float32, for half codes; empty: the query's own a
  const float* coded_around_ = nullptr;  // m that the integers are coded around; nullptr: the origin
  std::vector<std::int16_t> whole_;
  std::vector<std::int8_t> high_, low_;
  std::uint32_t offset_ = 0;
  bool euclidean_ = false;
  CodeKind kind_ = CodeKind::kInt8;
  float sigma_ = 0;
  float a_norm_ = 0;  // |a| of the exact a, rounded up
  double a_gap_ = 0;  // |a - a'|, rounded up
  float c_ = 0, slack_ = 0;
};

}  // namespace lightcone
