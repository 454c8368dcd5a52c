#include "index/api/settings.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "geometry/metric.h"

namespace lightcone {
namespace {

constexpr int64_t kMergeRowsMax = 1'000'000'000;

template <typename T>
using Named = std::pair<std::string_view, T>;
constexpr Named<SealedKind> kKinds[] = {
    {"flat", SealedKind::kFlat}, {"hnsw", SealedKind::kHnsw}, {"ivf", SealedKind::kIvf}, {"auto", SealedKind::kAuto}};
constexpr Named<RowCodes> kCodes[] = {{"float32", RowCodes::kFloat32},
                                      {"int8", RowCodes::kInt8},
                                      {"fp16", RowCodes::kHalf},
                                      {"pq", RowCodes::kPq},
                                      {"auto", RowCodes::kAuto}};

template <typename T, size_t n>
std::string_view NameOf(const Named<T> (&all)[n], T value) {
  for (const auto& [name, known] : all) {
    if (known == value) return name;
  }
  return "";
}

template <typename T, size_t n>
std::optional<T> ValueOf(const Named<T> (&all)[n], std::string_view name) {
  for (const auto& [known, value] : all) {
    if (known == name) return value;
  }
  return std::nullopt;
}

template <typename T, size_t n>
std::string Listed(const Named<T> (&all)[n]) {
  std::string text;
  for (const auto& [name, value] : all) text += StrCat(text.empty() ? "" : ", ", name);
  return text;
}

template <typename T>
absl::Status CheckRange(std::string_view field, T value, T low, T high) {
  // Written so that a NaN fails, too.
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(low, " .. ", high));
}

}  // namespace

std::string_view SealedKindName(SealedKind kind) { return NameOf(kKinds, kind); }
std::string_view RowCodesName(RowCodes codes) { return NameOf(kCodes, codes); }
std::optional<SealedKind> ParseSealedKind(std::string_view name) { return ValueOf(kKinds, name); }
std::optional<RowCodes> ParseRowCodes(std::string_view name) { return ValueOf(kCodes, name); }
std::string SealedKindNames() { return Listed(kKinds); }
std::string RowCodesNames() { return Listed(kCodes); }

int PqParts(int pq_m, int dimension) {
  if (pq_m > 0) return dimension % pq_m == 0 ? pq_m : 0;
  for (int parts = std::max(1, dimension / 4); parts >= 1; --parts) {
    if (dimension % parts == 0) return dimension / parts <= kPqPartLengthMax ? parts : 0;
  }
  return 0;
}

absl::Status IndexSettings::Validate() const {
  if (SealedKindName(kind).empty()) {
    return InvalidField("kind", StrCat(static_cast<int>(kind)), SealedKindNames());
  }
  if (RowCodesName(codes).empty()) {
    return InvalidField("codes", StrCat(static_cast<int>(codes)), RowCodesNames());
  }
  if (codes == RowCodes::kPq && kind != SealedKind::kIvf) {
    return InvalidField("codes", "pq", StrCat("float32, int8, fp16, auto where kind is ", SealedKindName(kind)));
  }
  LC_RETURN_IF_ERROR(CheckRange("pq_m", pq_m, 0, kDimensionMax));
  LC_RETURN_IF_ERROR(CheckRange<int64_t>("growing_rows_max", growing_rows_max, 1, 10'000'000));
  if (merge_rows_max < growing_rows_max || merge_rows_max > kMergeRowsMax) {
    return InvalidField("merge_rows_max", StrCat(merge_rows_max),
                        StrCat("growing_rows_max (", growing_rows_max, ") .. ", kMergeRowsMax));
  }
  LC_RETURN_IF_ERROR(CheckRange("tombstones_share_max", tombstones_share_max, 0.0, 1.0));
  LC_RETURN_IF_ERROR(CheckRange("hnsw_m", hnsw_m, 2, 128));
  LC_RETURN_IF_ERROR(CheckRange("hnsw_ef_construction", hnsw_ef_construction, 8, 4096));
  LC_RETURN_IF_ERROR(CheckRange("hnsw_ef_search", hnsw_ef_search, 1, 10'000));
  LC_RETURN_IF_ERROR(CheckRange("ivf_lists", ivf_lists, 0, 1 << 20));
  LC_RETURN_IF_ERROR(CheckRange("ivf_nprobe", ivf_nprobe, 0, 1 << 20));
  return CheckRange("build_threads", build_threads, 1, 256);
}

absl::Status IndexSettings::ValidateFor(int dimension) const {
  if (codes != RowCodes::kPq || PqParts(pq_m, dimension) > 0) return absl::OkStatus();
  if (pq_m > 0) {
    std::string divisors;
    for (int m = 1; m <= dimension; ++m) {
      if (dimension % m == 0 && dimension / m <= kPqPartLengthMax) divisors += StrCat(divisors.empty() ? "" : ", ", m);
    }
    return InvalidField("pq_m", StrCat(pq_m), StrCat("what divides ", dimension, " numbers: ", divisors));
  }
  return InvalidField("codes", "pq",
                      StrCat("float32, int8, fp16 for ", dimension, " numbers, which no number of parts ",
                             "divides into ", kPqPartLengthMax, " numbers each or less; or pq_m"));
}

}  // namespace lightcone
