#include "server/engine/filter/field_values.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "server/engine/filter/numbers.h"

namespace lightcone::server {
namespace {

bool IsCountedNumber(const FilterValue& value) { return value.index() == 1 || value.index() == 2; }

Number CountedNumber(const FilterValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return NumberOf(*integer);
  return NumberOf(std::get<double>(value));
}

int RankOfKind(const FilterValue& value) {
  return std::holds_alternative<std::string>(value) ? 0 : IsCountedNumber(value) ? 1 : 2;
}

}  // namespace

FilterValue CountedValue(const FilterValue& value) {
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr || std::trunc(*number) != *number || *number < -0x1p63 || *number >= 0x1p63) return value;
  return static_cast<int64_t>(*number);
}

std::vector<FilterValue> CountedValuesAt(std::string_view payload_json, std::span<const std::string> keys) {
  std::vector<FilterValue> values;
  for (auto& scalar : Payload(payload_json).At(keys).scalars) {
    std::visit(
        [&](auto& one) {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, uint64_t>) {
            values.push_back(CountedValue(static_cast<double>(one)));
          } else {
            values.push_back(CountedValue(FilterValue(std::move(one))));
          }
        },
        scalar);
  }
  std::sort(values.begin(), values.end(), IsValueBefore);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

bool IsValueBefore(const FilterValue& a, const FilterValue& b) {
  if (RankOfKind(a) != RankOfKind(b)) return RankOfKind(a) < RankOfKind(b);
  if (IsCountedNumber(a)) return Compare(CountedNumber(a), CountedNumber(b)) < 0;
  return a < b;
}

}  // namespace lightcone::server
