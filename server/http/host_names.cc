#include "server/http/host_names.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

// "name:7701" -> "name", "[::1]:7701" -> "[::1]", in lower case.
std::string WithoutPort(std::string_view text) {
  std::string host(text);
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

HostNames::HostNames(std::string_view more) : names_{"localhost"} {
  for (const auto part : absl::StrSplit(std::string(more), ',')) {
    const auto name = absl::StripAsciiWhitespace(part);
    if (!name.empty()) names_.push_back(WithoutPort(std::string_view(name.data(), name.size())));
  }
}

absl::Status HostNames::Check(std::string_view host) const {
  const std::string bare = WithoutPort(host);
  if (IsAddress(bare) || std::find(names_.begin(), names_.end(), bare) != names_.end()) return absl::OkStatus();
  return FieldError(absl::StatusCode::kPermissionDenied, "Host", StrCat("'", host.substr(0, 200), "'"),
                    StrCat("an address, ", absl::StrJoin(names_, ", "), "; console.host names more"));
}

}  // namespace lightcone::server
