// Kernels over codes (codes.h): one source for every instruction set, and one for int8 on those with dot products of
// bytes (AVX-512 VNNI); chosen once at run time. Threads: all functions are safe concurrently, but ForceKernelTarget
// (kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "geometry/code_query_batch.h"
#include "geometry/codes.h"

namespace lightcone {

// A row whose exact score lies in [score - error, score + error].
struct CodeHit {
  std::uint32_t row = 0;
  float score = 0;
  float error = 0;
};

// The rows i < n with score + error >= floor, ascending, with their errors (CodeQuery::ErrorOf, a little more); returns
// their number. `hits` has room for n; floor may be -inf. REQUIRES: the query is bound to the rows' block.
std::size_t ScanCodes(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride, std::size_t n, float floor,
                      CodeHit* hits);

// The same for each query of a batch, rows read once for all: the hits of query q are the first found[q] from
// hits + q * n on, those that reach floors[q].
void ScanCodesBatch(const CodeQueryBatch& queries, const std::uint8_t* rows, std::size_t stride, std::size_t n,
                    const float* floors, CodeHit* hits, std::size_t* found);

// Whether ScanCodesBatch is faster on this machine than a scan for each query.
bool BatchesCodes(CodeKind kind);

// scores[i] = score of row ids[i]; rows ahead are prefetched. For graph search.
void ScoreCodesGathered(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride, const std::uint32_t* ids,
                        std::size_t n, float* scores);

// dots[i] = <h', h'_i> of row `x` with row ids[i], both as coded; rows ahead are prefetched. For building graphs.
// REQUIRES: dimension <= 2^16.
void DotCodesGathered(CodeKind kind, const std::uint8_t* x, const std::uint8_t* rows, std::size_t stride, int dimension,
                      const std::uint32_t* ids, std::size_t n, float* dots);

// A coded row: its step, and sums over the numbers r' that its codes stand for.
struct RowCoding {
  float step = 0;
  double lost = 0;   // sum of (r - r')^2
  double kept = 0;   // sum of r'^2
  double along = 0;  // sum of m r'
};

// Writes the codes of r = scale * z - m, n bytes c + 128. `centre` is m; nullptr: the origin. REQUIRES: finite numbers.
RowCoding EncodeInt8(double scale, const float* z, const float* centre, std::size_t n, std::uint8_t* out);

// Whether the active target's int8 codes run on dot products of bytes ("vnni"), else "int16".
std::string_view CodeKernelName();

}  // namespace lightcone
