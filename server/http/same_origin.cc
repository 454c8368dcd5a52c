#include "server/http/same_origin.h"

#include "base/status.h"

namespace lightcone::server {
namespace {

std::string HeaderOf(const std::map<std::string, std::string>& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

absl::Status Refuse(const std::string& header, const std::string& value, const std::string& allowed) {
  return FieldError(absl::StatusCode::kPermissionDenied, header, StrCat("'", value.substr(0, 200), "'"), allowed);
}

}  // namespace

absl::Status CheckSameOrigin(const std::map<std::string, std::string>& headers, const HostNames& names) {
  if (HeaderOf(headers, "x-lightcone-console").empty()) {
    return Refuse("X-Lightcone-Console", "", "any value; a page of another site cannot send it");
  }
  const std::string host = HeaderOf(headers, "host");
  LC_RETURN_IF_ERROR(names.Check(host));
  const std::string origin = HeaderOf(headers, "origin");
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host) {
    return Refuse("Origin", origin, StrCat("http://", host));
  }
  const std::string site = HeaderOf(headers, "sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") return Refuse("Sec-Fetch-Site", site, "same-origin");
  return absl::OkStatus();
}

}  // namespace lightcone::server
