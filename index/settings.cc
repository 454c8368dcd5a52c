#include "base/status.h"
#include "index/collection_index.h"

namespace lightcone {
namespace {

constexpr int64_t kMergeRowsMax = 1'000'000'000;

template <typename T>
absl::Status CheckRange(std::string_view field, T value, T low, T high) {
  // Written so that a NaN fails, too.
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(low, " .. ", high));
}

}  // namespace

absl::Status IndexSettings::Validate() const {
  if (kind != SealedKind::kFlat && kind != SealedKind::kHnsw) {
    return InvalidField("kind", StrCat(static_cast<int>(kind)), "flat, hnsw");
  }
  if (codes != RowCodes::kFloat32 && codes != RowCodes::kInt8) {
    return InvalidField("codes", StrCat(static_cast<int>(codes)), "float32, int8");
  }
  LC_RETURN_IF_ERROR(CheckRange<int64_t>("growing_rows_max", growing_rows_max, 1, 10'000'000));
  if (merge_rows_max < growing_rows_max || merge_rows_max > kMergeRowsMax) {
    return InvalidField("merge_rows_max", StrCat(merge_rows_max),
                        StrCat("growing_rows_max (", growing_rows_max, ") .. ", kMergeRowsMax));
  }
  LC_RETURN_IF_ERROR(CheckRange("tombstones_share_max", tombstones_share_max, 0.0, 1.0));
  LC_RETURN_IF_ERROR(CheckRange("hnsw_m", hnsw_m, 2, 128));
  LC_RETURN_IF_ERROR(CheckRange("hnsw_ef_construction", hnsw_ef_construction, 8, 4096));
  LC_RETURN_IF_ERROR(CheckRange("hnsw_ef_search", hnsw_ef_search, 1, 10'000));
  return CheckRange("build_threads", build_threads, 1, 256);
}

}  // namespace lightcone
