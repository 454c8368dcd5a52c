#include "server/http/http_error.h"

#include <algorithm>

#include "base/retry_after.h"
#include "base/status.h"

namespace lightcone::server {

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::vector<std::pair<std::string_view, std::string>> HeadersOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return {{"WWW-Authenticate", "Bearer realm=\"lightcone\""}};
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable: {
      const absl::Duration after = RetryAfterOf(status).value_or(absl::Seconds(1));
      return {{"Retry-After", StrCat(std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(after, absl::Seconds(1)))))}};
    }
    default:
      return {};
  }
}

HttpAnswer AnswerOf(const absl::Status& status) {
  HttpAnswer answer = RefusalOf(HttpStatusOf(status.code()), MessageOf(status));
  answer.headers = HeadersOf(status);
  return answer;
}

}  // namespace lightcone::server
