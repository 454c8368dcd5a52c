// One HTTP request after the other to an endpoint, over a connection that is kept open. Redirects are not followed, no
// proxy is used, and no other scheme than HTTP and HTTPS is spoken. Threads: one at a time.
#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/collection/endpoint_manifest.h"

namespace lightcone::server {

struct EndpointReply {
  long status = 0;  // HTTP's
  std::string body;
  std::optional<absl::Duration> retry_after;
};

class EndpointClient {
 public:
  EndpointClient();

  // Posts JSON; an empty `key` is not sent. UNAVAILABLE: no connection, or it broke; DEADLINE_EXCEEDED: no whole answer
  // until `deadline`; CANCELLED, within a tenth of a second; RESOURCE_EXHAUSTED: the answer has more than
  // `answer_bytes_max` bytes. No message holds the key or the body.
  absl::StatusOr<EndpointReply> Post(const EndpointManifest& endpoint, const std::string& key, const std::string& body,
                                     size_t answer_bytes_max, absl::Time deadline,
                                     const std::function<bool()>& cancelled);

 private:
  absl::Status Transfer(absl::Time deadline, const std::function<bool()>& cancelled, CURLcode* result);

  // The multi handle goes last: it holds the connections.
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  std::unique_ptr<CURL, void (*)(CURL*)> easy_;
};

}  // namespace lightcone::server
