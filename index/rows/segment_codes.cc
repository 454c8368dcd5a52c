#include "index/rows/segment_codes.h"

#include <cmath>
#include <cstring>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr uint32_t kAroundOrigin = 1, kAroundCentre = 2;  // versions

}  // namespace

std::optional<CodeKind> CodeKindOf(RowCodes codes, int dimension) {
  LC_DCHECK(codes != RowCodes::kAuto);
  if (codes != RowCodes::kInt8 && codes != RowCodes::kHalf) return std::nullopt;
  const CodeKind kind = codes == RowCodes::kInt8 ? CodeKind::kInt8 : CodeKind::kHalf;
  return dimension >= CodeDimensionMin(kind) ? std::optional(kind) : std::nullopt;
}

size_t CentreBytes(int dimension) { return (static_cast<size_t>(dimension) * sizeof(float) + 15) / 16 * 16; }

uint64_t CodesBytes(CodeKind kind, int dimension, int64_t rows) {
  return static_cast<uint64_t>(rows) * CodeStride(kind, dimension) + CentreBytes(dimension) + sizeof(CodesFooter);
}

CodesFooter CodesFooterOf(int dimension, int64_t rows, const CodeBlock& block) {
  CodesFooter footer;
  footer.version = block.around_centre ? kAroundCentre : kAroundOrigin;
  footer.rows = static_cast<uint32_t>(rows);
  footer.dimension = static_cast<uint32_t>(dimension);
  footer.stride = static_cast<uint32_t>(CodeStride(block.kind, dimension));
  footer.kind = static_cast<uint32_t>(block.kind);
  footer.error_max = block.error_max;
  footer.norm_max = block.norm_max;
  footer.bias_max = block.bias_max;
  return footer;
}

absl::StatusOr<CodeBlock> ParseCodes(std::string_view bytes, CodeKind kind, int dimension, int64_t rows) {
  const uint64_t expected = CodesBytes(kind, dimension, rows);
  if (bytes.size() != expected) return DataLoss(StrCat("codes have ", bytes.size(), " bytes instead of ", expected));
  CodesFooter footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof(footer), sizeof(footer));
  CodeBlock block;
  block.kind = kind;
  const CodesFooter known = CodesFooterOf(dimension, rows, block);
  if (footer.magic != known.magic) return DataLoss("codes have a wrong magic number");
  if (footer.version != kAroundOrigin && footer.version != kAroundCentre) {
    return DataLoss(StrCat("codes have format version ", footer.version, "; known: 1, 2"));
  }
  if (footer.rows != known.rows || footer.dimension != known.dimension || footer.stride != known.stride ||
      footer.kind != known.kind) {
    return DataLoss("codes do not fit their segment");
  }
  for (const float bound : {footer.error_max, footer.norm_max, footer.bias_max}) {
    if (!(bound >= 0 && std::isfinite(bound))) return DataLoss("codes' bounds are out of range");
  }
  block.around_centre = footer.version == kAroundCentre;
  block.rows = reinterpret_cast<const uint8_t*>(bytes.data());
  block.stride = footer.stride;
  block.centre = reinterpret_cast<const float*>(bytes.data() + static_cast<uint64_t>(rows) * footer.stride);
  block.error_max = footer.error_max;
  block.norm_max = footer.norm_max;
  block.bias_max = footer.bias_max;
  for (int i = 0; i < dimension; ++i) {
    if (!std::isfinite(block.centre[i])) return DataLoss("codes have a centre that is not finite");
  }
  return block;
}

}  // namespace lightcone
