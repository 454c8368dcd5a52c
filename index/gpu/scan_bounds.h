// A query as a device scores rows for it, and the error of those scores: proven for IEEE arithmetic, which all but
// tensor cores do, and assumed for these.
//
// With u = 2^-24 and sums as the kernels form them (scan_kernels-inl.h):
// - ScanFew adds numbers up in chains of at most d/8 + 8 steps, then three more: within what BoundQuery::ScoreErrorMax
//   and CodeQuery take for granted (d/4 + 20 steps).
// - ScanManyFloats has one chain of d steps: ScoreErrorMax times (d + 27) / (d/4 + 27).
// - ScanManyHalves reads the query as float16 numbers a', so |a - a'| times the longest row is added. Tensor cores form
//   the products exactly and add them to the sum without rounding each to the nearest: terms are aligned with the
//   largest and cut. Taking them for the worst that was measured (Fasi, Higham, Mikaitis, Pranesh 2021: 4 products and
//   the sum at a time, no guard bits), 4 numbers cost at most 5 cuts and 1 rounding of 2 u each, 3 u a number; we take
//   4 u. The test at a device's start holds some sums of a thousand terms against it, which shows a device that is much
//   worse; that none is worse for any rows it does not prove.
// - Scores and floors are compared in float32: 8 u of the largest score.
// Threads: pure.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry/codes.h"
#include "index/gpu/device_rows.h"
#include "index/gpu/scan_args.h"

namespace lightcone::gpu {

// A float32 above x >= 0 by at least a millionth of it: more than what was rounded on the way to x.
float RoundedUp(double x);

// The numbers of one query for all segments. Refers to the query.
class DeviceQueryCode {
 public:
  explicit DeviceQueryCode(const BoundQuery& query);

  // What kernels read: float32, or float16 for ScanManyHalves; `numbers` of them, zeros behind the query's own.
  std::vector<uint8_t> Numbers(bool halves, uint32_t numbers) const;

  // All but pointers, state and part. `many`: for ScanMany.
  QueryArgs ArgsFor(const DeviceRows& rows, bool many);

 private:
  const BoundQuery* query_;
  CodeQuery coded_;
  double a_norm_ = 0;            // |a|, rounded up
  std::vector<uint8_t> halves_;  // a' / sigma
  float sigma_ = 0;              // scale of a'
  double gap_ = 0;               // |a - a'|, rounded up
};

}  // namespace lightcone::gpu
