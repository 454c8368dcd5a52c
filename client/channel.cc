#include "client/channel.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/retry_after.h"

namespace lightcone::client {
namespace {

grpc::ChannelArguments ArgumentsOf(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  arguments.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
  // The retry loop is ours: it knows what is safe. The channel only has to find a server that came back quickly.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A host that vanishes says nothing; only an unanswered ping tells it from a server that has no news.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(absl::ToInt64Milliseconds(options.keepalive)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(absl::ToInt64Milliseconds(options.keepalive)));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit: a watch may be silent for hours
  // Each client has connections of its own, so that one client's load does not queue behind another's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

struct Details {
  std::optional<v1::FieldViolation> violation;
  std::optional<absl::Duration> retry_after;
};

// google.rpc.RetryInfo is {google.protobuf.Duration retry_delay = 1}.
std::optional<absl::Duration> RetryAfterIn(const std::string& info) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(info.data()),
                                            static_cast<int>(info.size()));
  uint32_t length = 0;
  std::string bytes;
  google::protobuf::Duration delay;
  const bool read = in.ReadTag() == WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED) &&
                    in.ReadVarint32(&length) && in.ReadString(&bytes, static_cast<int>(length)) &&
                    delay.ParseFromString(bytes);
  if (!read || delay.seconds() < 0 || delay.nanos() < 0) return std::nullopt;
  return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
}

// google.rpc.Status is {int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3}. Its generated
// code does not come with gRPC, so its third field is read here by hand.
Details DetailsOf(const std::string& details) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(details.data()),
                                            static_cast<int>(details.size()));
  Details out;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != WireFormatLite::MakeTag(3, WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) {
      if (!WireFormatLite::SkipField(&in, tag)) return {};
      continue;
    }
    uint32_t length = 0;
    std::string bytes;
    google::protobuf::Any any;
    if (!in.ReadVarint32(&length) || !in.ReadString(&bytes, static_cast<int>(length)) || !any.ParseFromString(bytes)) {
      return {};
    }
    v1::FieldViolation violation;
    if (any.Is<v1::FieldViolation>() && any.UnpackTo(&violation)) out.violation = violation;
    if (absl::EndsWith(any.type_url(), "/google.rpc.RetryInfo")) out.retry_after = RetryAfterIn(any.value());
  }
  return out;
}

absl::Status WithViolation(absl::Status status, const v1::FieldViolation& violation) {
  return WithField(std::move(status), {violation.field(), violation.value(), violation.allowed()});
}

absl::StatusCode CodeOf(int code) {
  return code >= 1 && code <= 16 ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

}  // namespace

OperatorCalls::Impl::Impl(const ClientOptions& client_options, std::shared_ptr<grpc::ChannelCredentials> credentials)
    : options(client_options),
      channel(grpc::CreateCustomChannel(options.address, std::move(credentials), ArgumentsOf(options))),
      retrieval(v1::Retrieval::NewStub(channel)),
      collections(v1::Collections::NewStub(channel)),
      generations(v1::Generations::NewStub(channel)),
      backfill(v1::Backfill::NewStub(channel)),
      jobs(v1::Jobs::NewStub(channel)),
      training(v1::Training::NewStub(channel)) {}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status out = MakeStatus(CodeOf(status.error_code()), status.error_message());
  const Details details = DetailsOf(status.error_details());
  if (details.violation) out = WithViolation(std::move(out), *details.violation);
  return details.retry_after ? WithRetryAfter(std::move(out), *details.retry_after) : out;
}

absl::Status StatusOf(const v1::PartError& error) {
  const absl::Status out = MakeStatus(CodeOf(error.code()), error.message());
  return error.has_violation() ? WithViolation(out, error.violation()) : out;
}

absl::Time DeadlineOf(const ClientOptions& options, absl::Duration call_timeout) {
  return absl::Now() + (call_timeout == absl::ZeroDuration() ? options.timeout : call_timeout);
}

void Prepare(const ClientOptions& options, absl::Time deadline, grpc::ClientContext* context) {
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
  if (!options.api_key.empty()) context->AddMetadata("authorization", "Bearer " + options.api_key);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const ClientOptions& options) {
  if (options.ca_file.empty()) return grpc::InsecureChannelCredentials();
  constexpr int64_t kPemBytesMax = 1 << 20;
  grpc::SslCredentialsOptions tls;
  LC_ASSIGN_OR_RETURN(tls.pem_root_certs, ReadFile(options.ca_file, kPemBytesMax));
  if (!options.cert_file.empty()) {
    LC_ASSIGN_OR_RETURN(tls.pem_cert_chain, ReadFile(options.cert_file, kPemBytesMax));
    LC_ASSIGN_OR_RETURN(tls.pem_private_key, ReadFile(options.key_file, kPemBytesMax));
  }
  return grpc::SslCredentials(tls);
}

Backoff::Backoff(const ClientOptions& options, int retries_max)
    : options_(options),
      retries_max_(retries_max < 0 ? options.retries_max : retries_max),
      pause_(options.backoff_first) {}

absl::Duration Backoff::Next(absl::Time deadline) {
  if (retries_ >= retries_max_) return absl::Seconds(-1);
  ++retries_;
  // Half of the pause is random, so that clients that a server lost together do not come back together.
  static thread_local absl::BitGen random;
  const absl::Duration pause = pause_ * absl::Uniform(random, 0.5, 1.0);
  pause_ = std::min(pause_ * 2, options_.backoff_max);
  return absl::Now() + pause < deadline ? pause : absl::Seconds(-1);
}

absl::Duration Backoff::NextAfter(absl::Duration after, absl::Time deadline) const {
  if (retries_max_ == 0) return absl::Seconds(-1);
  static thread_local absl::BitGen random;
  const absl::Duration pause = std::max(after, options_.backoff_first) * absl::Uniform(random, 1.0, 1.25);
  return absl::Now() + pause < deadline ? pause : absl::Seconds(-1);
}

void Backoff::Reset() {
  retries_ = 0;
  pause_ = options_.backoff_first;
}

bool PauseBeforeRetry(absl::Time deadline, Backoff* backoff) {
  const absl::Duration pause = backoff->Next(deadline);
  if (pause < absl::ZeroDuration()) return false;
  absl::SleepFor(pause);
  return true;
}

bool PauseBeforeRetry(const absl::Status& status, RetryOn on, absl::Time deadline, Backoff* backoff) {
  const std::optional<absl::Duration> after = RetryAfterOf(status);
  const bool others = on == RetryOn::kAbsenceAndOthers;
  if (others && after && absl::IsResourceExhausted(status)) {
    const absl::Duration pause = backoff->NextAfter(*after, deadline);
    if (pause < absl::ZeroDuration()) return false;
    absl::SleepFor(pause);
    return true;
  }
  return (MayRetry(status) || (others && absl::IsAborted(status))) && PauseBeforeRetry(deadline, backoff);
}

}  // namespace lightcone::client
