// The head of an HTTP/1.0 or HTTP/1.1 request: request line and headers, up to the empty line. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace lightcone::server {

constexpr size_t kTargetBytesMax = 8 << 10;  // path and query, as they are sent

struct RequestHead {
  HttpRequest request;  // without its body
  uint64_t body_bytes = 0;
  bool http_1_0 = false;
  bool keep_alive = false;       // The client wants to send another request.
  bool waits_for_leave = false;  // The client sends the body after "100 Continue".
  int refusal = 0;               // HTTP status with which the request is refused; 0: none
  std::string reason;            // of the refusal
};

// `head` ends with the empty line. A body of a size that the head does not tell, or in another form than it is, is
// refused.
RequestHead ParseRequestHead(std::string_view head);

}  // namespace lightcone::server
