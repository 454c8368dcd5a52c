// Errors of the server as answers of HTTP. Threads: pure functions.
#pragma once

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace lightcone::server {

// 200 for OK, 401 for UNAUTHENTICATED and so on.
int HttpStatusOf(absl::StatusCode code);

// The error as text. 401 names the scheme, 429 and 503 when to try again.
HttpAnswer AnswerOf(const absl::Status& status);

// The headers of such an answer, for those that write another body.
std::vector<std::pair<std::string_view, std::string>> HeadersOf(const absl::Status& status);

}  // namespace lightcone::server
