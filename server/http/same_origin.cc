#include "server/http/same_origin.h"

#include <algorithm>
#include <cctype>

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

// "name:7701" -> "name", "[::1]:7701" -> "[::1]", in lower case.
std::string WithoutPort(std::string host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return std::tolower(c); });
  return host;
}

// No name of the DNS looks like these.
bool IsAddress(const std::string& host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') return true;
  return !host.empty() &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) { return std::isdigit(c) || c == '.'; });
}

}  // namespace

absl::Status CheckSameOrigin(const std::map<std::string, std::string>& headers, const std::string& name) {
  if (HeaderOf(headers, "x-lightcone-console").empty()) {
    return Refuse("X-Lightcone-Console", "", "any value; a page of another site cannot send it");
  }
  const std::string host = HeaderOf(headers, "host");
  const std::string bare = WithoutPort(host);
  if (!IsAddress(bare) && bare != "localhost" && (name.empty() || bare != WithoutPort(name))) {
    return Refuse("Host", host,
                  StrCat("an address, localhost", name.empty() ? "" : " or " + name, "; console.host names another"));
  }
  const std::string origin = HeaderOf(headers, "origin");
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host) {
    return Refuse("Origin", origin, StrCat("http://", host));
  }
  const std::string site = HeaderOf(headers, "sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") return Refuse("Sec-Fetch-Site", site, "same-origin");
  return absl::OkStatus();
}

}  // namespace lightcone::server
