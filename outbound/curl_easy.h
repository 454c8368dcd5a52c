// What requests to other servers share of libcurl: its set-up, and options that keep a request to what it names.
// Threads: safe, but one thread at a time uses a handle.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace lightcone {

struct FreeCurlEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using CurlEasy = std::unique_ptr<CURL, FreeCurlEasy>;

struct FreeCurlHeaders {
  void operator()(curl_slist* headers) const { curl_slist_free_all(headers); }
};
using CurlHeaders = std::unique_ptr<curl_slist, FreeCurlHeaders>;

// Sets libcurl up where that has not happened. Null: libcurl cannot be set up.
CurlEasy MakeCurlEasy();

// Sets an option of text, which libcurl copies. INTERNAL: libcurl does not take it. Throws std::bad_alloc where there
// is no memory, which callers report as RESOURCE_EXHAUSTED. Without the option the request would be another one.
absl::Status SetText(CURL* easy, CURLoption option, const std::string& text);

// Replaces all options of the handle by those of every request: no redirect is followed, no proxy and no .netrc are
// used, HTTP/1.1 is spoken, and no scheme but `schemes`, which commas part. Errors as SetText: also of a scheme that
// libcurl does not know. REQUIRES: `easy` is not null.
absl::Status SetCommonOptions(CURL* easy, const std::string& url, const std::string& schemes);

// Whether a request of the method sends a body: PUT and POST.
bool HasBody(std::string_view method);

// `body` is not copied: it must outlive the request. Errors as SetText. REQUIRES: GET, PUT, POST or DELETE; only PUT
// and POST have a body.
absl::Status SetMethod(CURL* easy, const std::string& method, std::string_view body);

// Each line is "Name: value". "Name:" keeps libcurl from sending such a header. The list must outlive the request.
// Throws std::bad_alloc, as a request without one of its headers is another request.
CurlHeaders MakeCurlHeaders(const std::vector<std::string>& lines);

}  // namespace lightcone
