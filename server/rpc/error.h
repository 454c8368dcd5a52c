// Errors on the wire: absl::Status becomes a gRPC status with typed details.
// The details travel as google.rpc.Status in the trailer "grpc-status-details-bin", as every gRPC library reads them:
// one google.rpc.ErrorInfo (reason, domain "lightcone", metadata field/value/allowed) and, where a field is at fault,
// one lightcone.v1.FieldViolation; one google.rpc.RetryInfo where the status says when to retry. Threads: pure
// functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "lightcone/v1/types.pb.h"

namespace lightcone::server {

// Bytes of a message in a trailer: clients commonly allow 8 KiB for all trailers together.
inline constexpr size_t kWireMessageBytesMax = 1'500;

// The gRPC status of a call. Codes are the same numbers; messages longer than kWireMessageBytesMax are cut and end
// in "...", and bytes that are no UTF-8 become '?'.
grpc::Status ToGrpc(const absl::Status& status);

// The error of one part of a call (a query, a batch of a stream).
v1::PartError ToPartError(const absl::Status& status);

// `text` with every byte that is not part of well-formed UTF-8 replaced by '?', and at most `bytes_max` bytes.
std::string CleanText(std::string_view text, size_t bytes_max);

}  // namespace lightcone::server
