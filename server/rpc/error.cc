#include "server/rpc/error.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/retry_after.h"
#include "base/status.h"
#include "google/protobuf/duration.pb.h"
#include "server/rpc/rpc_options.h"

namespace lightcone::server {
namespace {

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

// google.rpc.Status, ErrorInfo and RetryInfo are not packaged as protos for C++ here, so they are written by their wire
// format: field number << 3 | wire type, then a varint or a length and bytes.
void PutVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void PutBytes(int field, std::string_view bytes, std::string* out) {
  PutVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  PutVarint(bytes.size(), out);
  out->append(bytes);
}

std::string AnyOf(std::string_view type, std::string_view bytes) {
  std::string out;
  PutBytes(1, StrCat("type.googleapis.com/", type), &out);
  PutBytes(2, bytes, &out);
  return out;
}

// google.rpc.ErrorInfo { reason = 1; domain = 2; map<string, string> metadata = 3; }
std::string ErrorInfo(std::string_view reason, const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string out;
  PutBytes(1, reason, &out);
  PutBytes(2, "lightcone", &out);
  for (const auto& [key, value] : metadata) {
    std::string entry;
    PutBytes(1, key, &entry);
    PutBytes(2, value, &entry);
    PutBytes(3, entry, &out);
  }
  return out;
}

// google.rpc.RetryInfo { google.protobuf.Duration retry_delay = 1; }
std::string RetryInfo(absl::Duration after) {
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(after, absl::Seconds(1), &rest);
  google::protobuf::Duration delay;
  delay.set_seconds(seconds);
  delay.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  std::string out;
  PutBytes(1, delay.SerializeAsString(), &out);
  return out;
}

// Length in bytes of the well-formed UTF-8 character at the start of `text` (RFC 3629); 0 when there is none.
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f) || (lead == 0xf0 && at(1) < 0x90) ||
      (lead == 0xf4 && at(1) > 0x8f)) {
    return 0;
  }
  return bytes;
}

v1::FieldViolation ViolationOf(const FieldErrorParts& parts) {
  v1::FieldViolation violation;
  violation.set_field(CleanText(parts.field, 256));
  violation.set_value(CleanText(parts.value, 256));
  violation.set_allowed(CleanText(parts.allowed, 512));
  return violation;
}

}  // namespace

std::string_view CodeName(int code) {
  return code >= 0 && code < static_cast<int>(kCodeNames.size()) ? kCodeNames[code] : kCodeNames[2];
}

std::string CleanText(std::string_view text, size_t bytes_max) {
  std::string out;
  const bool cut = text.size() > bytes_max;
  const size_t room = cut ? (bytes_max > 3 ? bytes_max - 3 : 0) : bytes_max;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (out.size() + std::max<size_t>(bytes, 1) > room) break;
    out.append(bytes == 0 ? std::string_view("?") : text.substr(0, bytes));
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  if (cut) out.append("...");
  return out;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const int code = static_cast<int>(status.code());
  const std::string message = CleanText(MessageOf(status), kWireMessageBytesMax);
  const FieldErrorParts parts = PartsOf(status);
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string reason(CodeName(code));
  v1::FieldViolation violation;
  if (!parts.field.empty()) {
    violation = ViolationOf(parts);
    reason = "FIELD_NOT_ALLOWED";
    metadata = {{"field", violation.field()}, {"value", violation.value()}, {"allowed", violation.allowed()}};
  }
  std::string details;  // google.rpc.Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  PutVarint(1 << 3, &details);
  PutVarint(static_cast<uint64_t>(code), &details);
  PutBytes(2, message, &details);
  PutBytes(3, AnyOf("google.rpc.ErrorInfo", ErrorInfo(reason, metadata)), &details);
  if (!parts.field.empty()) {
    PutBytes(3, AnyOf("lightcone.v1.FieldViolation", violation.SerializeAsString()), &details);
  }
  if (const std::optional<absl::Duration> after = RetryAfterOf(status)) {
    PutBytes(3, AnyOf("google.rpc.RetryInfo", RetryInfo(*after)), &details);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(code), message, details);
}

v1::PartError ToPartError(const absl::Status& status) {
  v1::PartError error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(CleanText(MessageOf(status), kWireMessageBytesMax));
  const FieldErrorParts parts = PartsOf(status);
  if (!parts.field.empty()) *error.mutable_violation() = ViolationOf(parts);
  return error;
}

}  // namespace lightcone::server
