#include "index/api/settings.h"

#include <algorithm>
#include <type_traits>

#include "base/status.h"
#include "geometry/metric.h"

namespace lightcone {
namespace {

template <typename T>
absl::Status Check(const IndexSetting<T>& setting, T value) {
  if constexpr (std::is_enum_v<T>) {
    if (!SettingName(value).empty()) return absl::OkStatus();
    return InvalidField(setting.name, StrCat(static_cast<int>(value)), AllSettingNames<T>());
  } else {
    // Written so that a NaN fails, too.
    if (value >= setting.low && value <= setting.high) return absl::OkStatus();
    return InvalidField(setting.name, StrCat(value), StrCat(setting.low, " .. ", setting.high));
  }
}

}  // namespace

int PqParts(int pq_m, int dimension) {
  if (pq_m > 0) return dimension % pq_m == 0 ? pq_m : 0;
  for (int parts = std::max(1, dimension / 4); parts >= 1; --parts) {
    if (dimension % parts == 0) return dimension / parts <= kPqPartLengthMax ? parts : 0;
  }
  return 0;
}

absl::Status IndexSettings::Validate() const {
  absl::Status status;
  ForEachIndexSetting([&](const auto& one) {
    if (status.ok()) status = Check(one, this->*one.setting);
  });
  LC_RETURN_IF_ERROR(status);
  if (codes == RowCodes::kPq && kind != SealedKind::kIvf) {
    return InvalidField("codes", "pq", StrCat("float32, int8, fp16, auto where kind is ", SealedKindName(kind)));
  }
  if (merge_rows_max >= growing_rows_max) return absl::OkStatus();
  return InvalidField("merge_rows_max", StrCat(merge_rows_max),
                      StrCat("growing_rows_max (", growing_rows_max, ") .. ", kMergeRowsMax));
}

IndexChange::IndexChange(const IndexSettings& all) {
  ForEachIndexSetting([&](const auto& one) { this->*one.change = all.*one.setting; });
}

IndexSettings IndexChange::Over(const IndexSettings& base) const {
  IndexSettings out = base;
  ForEachIndexSetting([&](const auto& one) { out.*one.setting = (this->*one.change).value_or(base.*one.setting); });
  return out;
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
