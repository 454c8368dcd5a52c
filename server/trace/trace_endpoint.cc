#include "server/trace/trace_endpoint.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr char kOption[] = "trace.endpoint";

using CurlUrl = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// Empty where the URL has no such part.
std::string PartOf(const CurlUrl& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

}  // namespace

absl::Status CheckTraceEndpoint(const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  constexpr char kAllowed[] = "http://HOST:PORT/PATH, https://HOST:PORT/PATH, or empty";
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f' && c != '\\'; });
  const CurlUrl url(plain ? curl_url() : nullptr, curl_url_cleanup);
  // Nothing of the value is told: any part of it may hold a password or a key.
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return InvalidField(kOption, StrCat(text.size(), " bytes that are no URL"), kAllowed);
  }
  const std::string scheme = PartOf(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") {
    return InvalidField(kOption, "a URL of another scheme", kAllowed);
  }
  if (!PartOf(url, CURLUPART_USER).empty() || !PartOf(url, CURLUPART_PASSWORD).empty()) {
    return InvalidField(kOption, "a URL with a user or a password", "one without");
  }
  if (!PartOf(url, CURLUPART_FRAGMENT).empty()) return InvalidField(kOption, "a URL with a fragment", "one without");
  if (PartOf(url, CURLUPART_HOST).empty()) return InvalidField(kOption, "a URL without a host", kAllowed);
  return absl::OkStatus();
}

}  // namespace lightcone::server
