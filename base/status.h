// One error vocabulary from storage to wire: absl::Status with a message that names field, value and allowed range.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/strings.h"

namespace lightcone {

// `status` with "step: " before its message; code and payloads stay. OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view step);

// Builds "field 'F' is V; allowed: A" with the given code, and attaches the three parts as a payload, from which the
// RPC layer makes its typed error details.
absl::Status FieldError(absl::StatusCode code, std::string_view field, std::string_view value,
                        std::string_view allowed);

// FieldError with kInvalidArgument.
absl::Status InvalidField(std::string_view field, std::string_view value, std::string_view allowed);

// The parts of a FieldError; empty `field` when the status carries none.
struct FieldErrorParts {
  std::string field, value, allowed;
};
// `status` with the parts of a FieldError and the message that it has. REQUIRES: status is not OK.
absl::Status WithField(absl::Status status, const FieldErrorParts& parts);
FieldErrorParts PartsOf(const absl::Status& status);

// absl::Status factories that take std::string_view whatever absl was built with.
inline absl::Status MakeStatus(absl::StatusCode code, std::string_view message) {
  return absl::Status(code, ToAbsl(message));
}
inline absl::Status InvalidArgument(std::string_view m) { return MakeStatus(absl::StatusCode::kInvalidArgument, m); }
inline absl::Status NotFound(std::string_view m) { return MakeStatus(absl::StatusCode::kNotFound, m); }
inline absl::Status AlreadyExists(std::string_view m) { return MakeStatus(absl::StatusCode::kAlreadyExists, m); }
inline absl::Status FailedPrecondition(std::string_view m) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition, m);
}
inline absl::Status DataLoss(std::string_view m) { return MakeStatus(absl::StatusCode::kDataLoss, m); }
inline absl::Status Internal(std::string_view m) { return MakeStatus(absl::StatusCode::kInternal, m); }
inline absl::Status Unavailable(std::string_view m) { return MakeStatus(absl::StatusCode::kUnavailable, m); }
inline absl::Status Aborted(std::string_view m) { return MakeStatus(absl::StatusCode::kAborted, m); }
inline absl::Status ResourceExhausted(std::string_view m) {
  return MakeStatus(absl::StatusCode::kResourceExhausted, m);
}
inline absl::Status DeadlineExceeded(std::string_view m) { return MakeStatus(absl::StatusCode::kDeadlineExceeded, m); }
inline absl::Status Unimplemented(std::string_view m) { return MakeStatus(absl::StatusCode::kUnimplemented, m); }
inline absl::Status OutOfRange(std::string_view m) { return MakeStatus(absl::StatusCode::kOutOfRange, m); }

// The message as std::string.
inline std::string MessageOf(const absl::Status& s) { return std::string(s.message().data(), s.message().size()); }

}  // namespace lightcone

#define LC_CONCAT_INNER(a, b) a##b
#define LC_CONCAT(a, b) LC_CONCAT_INNER(a, b)

// Returns the status from the current function unless it is OK.
#define LC_RETURN_IF_ERROR(expr)             \
  do {                                       \
    absl::Status lc_status_ = (expr);        \
    if (!lc_status_.ok()) return lc_status_; \
  } while (false)

// LC_ASSIGN_OR_RETURN(auto x, MakeX()): unwraps a StatusOr or returns its status.
#define LC_ASSIGN_OR_RETURN(lhs, expr) LC_ASSIGN_OR_RETURN_INNER(LC_CONCAT(lc_or_, __LINE__), lhs, expr)
#define LC_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return tmp.status();             \
  lhs = std::move(tmp).value()
