// One request of HTTP after the other to servers elsewhere, over a connection that is kept open where the next request
// goes to the same server. Redirects are not followed, and no proxy is used. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "outbound/curl_easy.h"

namespace lightcone {

// What becomes of an answer that is longer than its bound.
enum class LongAnswer {
  kIsRefused,  // The request fails, and its connection is closed.
  kIsCut,      // The rest is read and passed over, and the connection stays open.
};

struct OutboundRequest {
  std::string url;
  std::string schemes = "http,https";         // schemes that may be spoken, with commas between them
  std::string method = "GET";                 // GET, PUT, POST or DELETE
  std::vector<std::string> headers = {};      // lines, "Name: value"
  std::string_view body = {};                 // content of a PUT or POST; it must outlive the request
  size_t answer_bytes_max = size_t{1} << 20;  // most bytes of the answer that are kept
  LongAnswer long_answer = LongAnswer::kIsRefused;
  absl::Duration connect_limit = absl::InfiniteDuration();  // limit for the connection; infinite: libcurl's own
  absl::Duration limit = absl::Seconds(30);                 // limit for all of the request, by the steady clock
  std::function<bool()> cancelled = {};                     // looked at every 20 ms; empty: never
};

struct OutboundReply {
  long status = 0;   // HTTP's
  std::string body;  // at most answer_bytes_max bytes
  // Whole seconds, 0 or more. Nothing: the header is absent, no time, or a date in the past.
  std::optional<absl::Duration> retry_after = std::nullopt;
};

class OutboundClient {
 public:
  OutboundClient();

  // A reply of any status. Tries once. UNAVAILABLE: no connection, a scheme that may not be spoken, the connection
  // broke, or libcurl cannot be set up now; DEADLINE_EXCEEDED: no whole answer within `limit`; CANCELLED, within a
  // tenth of a second; RESOURCE_EXHAUSTED: the answer is too long and is refused. Throws std::bad_alloc without memory.
  // No message holds the URL, a header or a body. REQUIRES: the URL is not empty, and what SetCommonOptions and
  // SetMethod require.
  absl::StatusOr<OutboundReply> Send(const OutboundRequest& request);

 private:
  // Makes the handles that are missing.
  void SetUp();
  // What libcurl says of a transfer that has ended.
  absl::StatusOr<CURLcode> Transfer(const OutboundRequest& request);

  // The multi handle goes last: it holds the connections.
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  CurlEasy easy_;
};

}  // namespace lightcone
