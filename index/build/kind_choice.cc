#include "index/build/kind_choice.h"

#include <algorithm>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/codes.h"
#include "index/ivf/list_builder.h"
#include "index/ivf/pq_builder.h"
#include "index/rows/segment.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

constexpr int64_t kStateBytes = 20;  // row_states.h
constexpr int64_t kFloatBytes = static_cast<int64_t>(sizeof(float));

int64_t CodeBytes(RowCodes codes, int dimension) {
  const std::optional<CodeKind> kind = CodeKindOf(codes, dimension);
  if (kind) return static_cast<int64_t>(CodeStride(*kind, dimension));
  return static_cast<int64_t>(StrideOf(dimension)) * kFloatBytes + static_cast<int64_t>(sizeof(RowFactors));
}

}  // namespace

int64_t HotBytes(const IndexSettings& settings, SealedKind kind, RowCodes codes, int dimension, int64_t rows) {
  LC_DCHECK(kind != SealedKind::kAuto && codes != RowCodes::kAuto);
  if (kind == SealedKind::kIvf) {
    const int64_t together = std::max<int64_t>(1, std::min(rows, settings.merge_rows_max));
    const int64_t lists = settings.ivf_lists > 0 ? settings.ivf_lists : DefaultLists(together);
    const int64_t of_lists = lists * (static_cast<int64_t>(StrideOf(dimension)) * kFloatBytes + 12);
    return rows * (kStateBytes + 4) + (rows + together - 1) / together * of_lists;
  }
  int64_t row_bytes = CodeBytes(codes, dimension) + kStateBytes;
  if (kind == SealedKind::kHnsw) {
    // 2M links on the base layer, M on each of the 1 / (M - 1) layers above, and where those begin.
    row_bytes += kFloatBytes * (2 * settings.hnsw_m + settings.hnsw_m / (settings.hnsw_m - 1) + 1);
  }
  return rows * row_bytes;
}

KindChoice Choose(const IndexSettings& settings, const ChoiceInput& input) {
  KindChoice choice{settings.kind, settings.codes, ""};
  const bool limited = input.memory_bytes_max > 0;
  const double limit = static_cast<double>(input.memory_bytes_max);
  if (choice.codes == RowCodes::kAuto) {
    choice.codes = CodeKindOf(RowCodes::kInt8, input.dimension) ? RowCodes::kInt8 : RowCodes::kFloat32;
  }
  const int64_t of_graphs = HotBytes(settings, SealedKind::kHnsw, choice.codes, input.dimension, input.collection_rows);
  if (choice.kind == SealedKind::kAuto) {
    const bool fits = !limited || static_cast<double>(of_graphs) <= (input.is_ivf ? kShareToReturn : 1) * limit;
    choice.kind = input.rows <= kScanRowsMax ? SealedKind::kFlat : fits ? SealedKind::kHnsw : SealedKind::kIvf;
  }
  const int64_t of_codes = input.collection_rows * CodeBytes(choice.codes, input.dimension);
  if (settings.codes == RowCodes::kAuto && choice.kind == SealedKind::kIvf && limited &&
      static_cast<double>(of_codes) > (input.is_pq ? kShareToReturn : 1) * limit &&
      PqParts(settings.pq_m, input.dimension) > 0) {
    choice.codes = RowCodes::kPq;
  }
  if (settings.kind != SealedKind::kAuto && settings.codes != RowCodes::kAuto) return choice;
  choice.reason = StrCat(SealedKindName(choice.kind), " with codes ", RowCodesName(choice.codes), ": ");
  if (choice.kind == SealedKind::kFlat) {
    choice.reason += StrCat("segments of up to ", kScanRowsMax, " rows are scanned");
    return choice;
  }
  choice.reason +=
      StrCat("codes and links of ", input.collection_rows, " rows of ", input.dimension, " numbers take ", of_graphs,
             " bytes, ", limited ? StrCat("index.memory_bytes_max is ", input.memory_bytes_max) : "without a limit");
  if (choice.codes == RowCodes::kPq) choice.reason += StrCat("; int8 codes alone take ", of_codes);
  return choice;
}

}  // namespace lightcone
