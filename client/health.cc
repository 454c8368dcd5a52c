// grpc.health.v1 without its generated code, which Debian's gRPC does not ship: the request is empty (the server as a
// whole), the answer one enum field.
#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/channel.h"

namespace lightcone::client {
namespace {

constexpr char kServing = 1;

// HealthCheckResponse is {ServingStatus status = 1}: the bytes 08 XX, or nothing for UNKNOWN.
bool SaysServing(const grpc::ByteBuffer& answer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (answer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes.size() >= 2 && bytes[0] == 0x08 && bytes[1] == kServing;
}

absl::Status CheckOnce(const OperatorCalls::Impl& impl, absl::Time deadline) {
  grpc::GenericStub stub(impl.channel);
  grpc::ClientContext context;
  Prepare(impl.options, deadline, &context);
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&status, &done](grpc::Status answer) {
                   status = std::move(answer);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (!status.ok()) return FromGrpc(status);
  return SaysServing(response) ? absl::OkStatus() : Unavailable("the server is not serving: it starts or drains");
}

}  // namespace

absl::Status Client::CheckHealth(const CallOptions& call) {
  const absl::Time deadline = DeadlineOf(impl_->options, call.timeout);
  Backoff backoff(impl_->options, call.retries_max);
  for (;;) {
    const absl::Status status = CheckOnce(*impl_, deadline);
    if (!MayRetry(status) || !PauseBeforeRetry(deadline, &backoff)) return status;
  }
}

absl::Status Client::WaitUntilServing(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    const absl::Status status = CheckOnce(*impl_, std::min(deadline, absl::Now() + absl::Seconds(2)));
    if (status.ok()) return status;
    if (absl::Now() >= deadline) {
      return DeadlineExceeded(StrCat("no server served at ", impl_->options.address, " within ",
                                     absl::FormatDuration(timeout), "; last answer: ", status.message()));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

}  // namespace lightcone::client
