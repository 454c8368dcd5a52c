// One HTTP request after the other to a collector, over a connection that is kept open. Redirects are not followed, no
// proxy is used, and no other scheme than HTTP and HTTPS is spoken. Threads: one at a time.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lightcone::server {

struct CollectorReply {
  long status = 0;   // HTTP's
  std::string body;  // its first 64 KiB
  std::optional<absl::Duration> retry_after;
};

class CollectorClient {
 public:
  // REQUIRES: `url` is not empty, and CheckTraceEndpoint takes it.
  explicit CollectorClient(std::string url);

  // Posts JSON. UNAVAILABLE: no connection, or it broke; DEADLINE_EXCEEDED: no answer within `limit`; CANCELLED, within
  // a tenth of a second.
  absl::StatusOr<CollectorReply> Post(const std::string& body, absl::Duration limit,
                                      const std::function<bool()>& cancelled);

 private:
  absl::Status Transfer(int64_t end_ns, const std::function<bool()>& cancelled, CURLcode* result);

  const std::string url_;
  // The multi handle goes last: it holds the connections.
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  std::unique_ptr<CURL, void (*)(CURL*)> easy_;
};

}  // namespace lightcone::server
