#include "server/rest/strict_fields.h"

#include <cstdint>
#include <type_traits>

#include "base/status.h"

namespace lightcone::server::rest {
namespace {

using nlohmann::json;

template <typename Visit>
void ForEachStrictField(const Visit& visit) {
  visit("enabled", &StrictMode::enabled);
  visit("unindexed_filtering_retrieve", &StrictMode::allow_unindexed_reads);
  visit("unindexed_filtering_update", &StrictMode::allow_unindexed_writes);
  visit("search_allow_exact", &StrictMode::allow_exact);
  visit("max_query_limit", &StrictMode::k_max);
  visit("search_max_hnsw_ef", &StrictMode::ef_max);
  visit("search_max_batchsize", &StrictMode::queries_max);
  visit("upsert_max_batchsize", &StrictMode::batch_items_max);
  visit("payload_bytes_max", &StrictMode::payload_bytes_max);  // ours alone
}

}  // namespace

absl::StatusOr<std::optional<StrictMode>> StrictModeFrom(const Fields& body) {
  const json* const given = body.Find("strict_mode_config");
  if (given == nullptr) return std::optional<StrictMode>();
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*given, body.At("strict_mode_config")));
  StrictMode strict;
  absl::Status status;
  json known = json::object();
  ForEachStrictField([&]<typename T>(const char* name, std::optional<T> StrictMode::*member) {
    known[name] = true;
    if (!status.ok() || fields.Find(name) == nullptr) return;
    if constexpr (std::is_same_v<T, bool>) {
      const absl::StatusOr<bool> value = fields.Flag(name, false);
      status = value.status();
      if (value.ok()) strict.*member = *value;
    } else {
      const absl::StatusOr<int64_t> value = fields.Whole(name, 0, 0, UINT32_MAX);
      status = value.status();
      if (value.ok()) strict.*member = static_cast<T>(*value);
    }
  });
  LC_RETURN_IF_ERROR(status);
  for (const auto& [name, value] : given->items()) {
    if (known.contains(name) || value.is_null()) continue;
    return NotSupported(fields.At(name), "strict mode does not have this limit");
  }
  return std::optional(strict);
}

json JsonOf(const StrictMode& strict) {
  json shown = json::object();
  ForEachStrictField([&](const char* name, auto member) {
    if (strict.*member) shown[name] = *(strict.*member);
  });
  return shown;
}

}  // namespace lightcone::server::rest
