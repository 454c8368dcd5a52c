// Shared by the client's source files: the channel, the translation of errors, deadlines and the retry loop. Internal:
// not for users of the client.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "client/client.h"
#include "lightcone/v1/backfill.grpc.pb.h"
#include "lightcone/v1/collections.grpc.pb.h"
#include "lightcone/v1/generations.grpc.pb.h"
#include "lightcone/v1/jobs.grpc.pb.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "lightcone/v1/training.grpc.pb.h"

namespace lightcone::client {

struct OperatorCalls::Impl {
  Impl(const ClientOptions& client_options, std::shared_ptr<grpc::ChannelCredentials> credentials);

  const ClientOptions options;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Retrieval::Stub> retrieval;
  const std::unique_ptr<v1::Collections::Stub> collections;
  const std::unique_ptr<v1::Generations::Stub> generations;
  const std::unique_ptr<v1::Backfill::Stub> backfill;
  const std::unique_ptr<v1::Jobs::Stub> jobs;
  const std::unique_ptr<v1::Training::Stub> training;
};

// Code and message of the server; the FieldViolation of the error's details becomes a FieldError payload, and its
// RetryInfo the time that RetryAfterOf (base/retry_after.h) finds.
absl::Status FromGrpc(const grpc::Status& status);

// Whether the same call may be made again: the server was absent, or went away before it answered.
inline bool MayRetry(const absl::Status& status) { return status.code() == absl::StatusCode::kUnavailable; }

// Time by which a call that starts now must be over.
absl::Time DeadlineOf(const ClientOptions& options, absl::Duration call_timeout);
// Gives `context` the deadline, unless it is infinite, and the client's key.
void Prepare(const ClientOptions& options, absl::Time deadline, grpc::ClientContext* context);

// TLS with the options' files, or none. NOT_FOUND names a file that is not there.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const ClientOptions& options);

// Counts retries and says how long to pause before the next. Threads: one at a time.
class Backoff {
 public:
  // `retries_max` -1: the client's.
  Backoff(const ClientOptions& options, int retries_max);

  // Pause before the next try; negative when no try is left, or none would begin before `deadline`.
  absl::Duration Next(absl::Time deadline);
  // A pause of `after` and a random part of it more, which counts as no retry; negative when no retries are allowed, or
  // the next try would not begin before `deadline`.
  absl::Duration NextAfter(absl::Duration after, absl::Time deadline) const;
  // After progress: the next failure begins with the first pause again.
  void Reset();

 private:
  const ClientOptions& options_;
  const int retries_max_;
  int retries_ = 0;
  absl::Duration pause_;
};

// Pauses in this thread as Backoff::Next says; false when there is no further try.
bool PauseBeforeRetry(absl::Time deadline, Backoff* backoff);

// After which errors a call is made again.
enum class RetryOn {
  kAbsence,           // those of MayRetry
  kAbsenceAndOthers,  // and those of a call that others are in the way of; the request must have a request_id
};

// Pauses in this thread before a call that ended with `status` is made again; false when it may not be, or there is no
// time. A server that names the time of the next try gets the try after that time, as often as it takes: such a refusal
// does not count as one of the retries. With no retries allowed, there is no such try either.
bool PauseBeforeRetry(const absl::Status& status, RetryOn on, absl::Time deadline, Backoff* backoff);

// One unary call with its deadline and retries.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallWithRetries(const ClientOptions& options, const CallOptions& call, Stub* stub,
                                         grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                         const Request& request, RetryOn on = RetryOn::kAbsence) {
  const absl::Time deadline = DeadlineOf(options, call.timeout);
  Backoff backoff(options, call.retries_max);
  for (;;) {
    grpc::ClientContext context;
    Prepare(options, deadline, &context);
    Response response;
    const absl::Status status = FromGrpc((stub->*method)(&context, request, &response));
    if (status.ok()) return response;
    if (!PauseBeforeRetry(status, on, deadline, &backoff)) return status;
  }
}

}  // namespace lightcone::client
