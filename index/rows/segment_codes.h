// The file of a segment's codes (geometry/codes.h), int8 or half: the coded rows, their centre, then a footer, which is
// known only once every row is coded. Used where it is mapped. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "geometry/codes.h"
#include "index/api/collection_index.h"

namespace lightcone {

struct CodesFooter {
  uint32_t magic = 0x4347434c;  // "LCGC"
  uint32_t version = 1;         // 2: scores are computed around the centre (CodeBlock::around_centre)
  uint32_t rows = 0;
  uint32_t dimension = 0;
  uint32_t stride = 0;  // bytes
  float error_max = 0, norm_max = 0, bias_max = 0;
  uint32_t kind = 0;  // CodeKind
  uint32_t reserved[7] = {};
};
static_assert(sizeof(CodesFooter) == 64);

// How rows of this dimension are coded by these settings, if they are, and it is worth it. REQUIRES: not kAuto.
std::optional<CodeKind> CodeKindOf(RowCodes codes, int dimension);

// What rows outside lists, which pq codes need, are coded as by these settings.
inline RowCodes CodesWithoutLists(RowCodes codes) {
  return codes == RowCodes::kAuto || codes == RowCodes::kPq ? RowCodes::kInt8 : codes;
}

// The bytes of a centre: `dimension` float32, then zeros up to a multiple of 16 bytes.
size_t CentreBytes(int dimension);

// Of the whole file.
uint64_t CodesBytes(CodeKind kind, int dimension, int64_t rows);

CodesFooter CodesFooterOf(int dimension, int64_t rows, const CodeBlock& block);

// The block of this kind inside `bytes`, which must outlive it. DATA_LOSS says what is wrong. Any codes are safe to
// score; only a checksum can tell whether their bounds are true.
absl::StatusOr<CodeBlock> ParseCodes(std::string_view bytes, CodeKind kind, int dimension, int64_t rows);

}  // namespace lightcone
