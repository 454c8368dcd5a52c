#include "server/rest/rest_call.h"

#include <charconv>

#include "base/status.h"

namespace lightcone::server {

std::string RestCall::Parameter(const std::string& name) const {
  const auto found = request.parameters.find(name);
  return found == request.parameters.end() ? std::string() : found->second;
}

absl::StatusOr<bool> RestCall::QueryFlag(const std::string& name, bool fallback) const {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return fallback;
  if (found->second == "true") return true;
  if (found->second == "false") return false;
  return InvalidField(name, StrCat("'", found->second.substr(0, 40), "'"), "true, false");
}

absl::StatusOr<uint32_t> RestCall::QueryGeneration() const {
  const auto found = request.query.find("generation");
  if (found == request.query.end()) return uint32_t{0};
  const std::string& text = found->second;
  uint32_t generation = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), generation);
  if (error == std::errc() && end == text.data() + text.size()) return generation;
  return InvalidField("generation", StrCat("'", text.substr(0, 40), "'"), StrCat("0 (the active one) .. ", UINT32_MAX));
}

std::string TextOfJson(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::string> UpdateResult(const RestCall& call, uint64_t sequence,
                                         const std::vector<std::string>& warnings) {
  LC_ASSIGN_OR_RETURN(const bool wait, call.QueryFlag("wait", false));
  nlohmann::json result = {{"operation_id", sequence}, {"status", wait ? "completed" : "acknowledged"}};
  if (!warnings.empty()) result["warnings"] = warnings;
  return TextOfJson(result);
}

}  // namespace lightcone::server
