#include "outbound/curl_easy.h"

#include <new>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

// libcurl counts its users, and is set up by the first one.
bool SetUpCurl() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

}  // namespace

CurlEasy MakeCurlEasy() { return CurlEasy(SetUpCurl() ? curl_easy_init() : nullptr); }

absl::Status SetText(CURL* easy, CURLoption option, const std::string& text) {
  const CURLcode set = curl_easy_setopt(easy, option, text.c_str());
  if (set == CURLE_OK) return absl::OkStatus();
  if (set == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  return Internal(StrCat("libcurl does not take an option of a request: ", curl_easy_strerror(set)));
}

absl::Status SetCommonOptions(CURL* easy, const std::string& url, const std::string& schemes) {
  LC_DCHECK(easy != nullptr);
  curl_easy_reset(easy);
  LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_URL, url));
  LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_PROTOCOLS_STR, schemes));
  LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_PROXY, ""));
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // A request that is given up does not wait for the look-up of its name, whose thread ends by itself.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  return absl::OkStatus();
}

bool HasBody(std::string_view method) { return method == "PUT" || method == "POST"; }

absl::Status SetMethod(CURL* easy, const std::string& method, std::string_view body) {
  LC_DCHECK(HasBody(method) || ((method == "GET" || method == "DELETE") && body.empty()));
  if (HasBody(method)) {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  if (method == "GET") return absl::OkStatus();
  return SetText(easy, CURLOPT_CUSTOMREQUEST, method);
}

CurlHeaders MakeCurlHeaders(const std::vector<std::string>& lines) {
  CurlHeaders headers;
  for (const std::string& line : lines) {
    curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)headers.release();  // It is a part of the longer list.
    headers.reset(longer);
  }
  return headers;
}

}  // namespace lightcone
