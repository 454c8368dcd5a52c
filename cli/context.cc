#include "cli/context.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>

#include "base/files.h"
#include "base/status.h"
#include "base/utf8.h"
#include "cli/exit_codes.h"

namespace lightcone::cli {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return kExitRefused;
    case absl::StatusCode::kResourceExhausted:
      return kExitExhausted;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

namespace {

// USER@HOST, for the server's audit log, by what is known without asking a directory of users.
std::string DefaultOperator() {
  char host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = 0;
  const char* user = std::getenv("USER");
  const std::string named = StrCat(user == nullptr ? "" : user, "@", host);
  constexpr size_t kBytesMax = 128;  // bytes of ActivateRequest.operator_name
  return user != nullptr && named.size() <= kBytesMax && IsUtf8(named) ? named : StrCat("uid ", getuid());
}

}  // namespace

absl::StatusOr<client::Client*> Context::Client() {
  if (client_ == nullptr) {
    if (!(timeout_seconds > 0) || timeout_seconds > 1e6) {
      return InvalidField("--timeout", StrCat(timeout_seconds), "above 0 .. 1000000 seconds");
    }
    if (!IsUtf8(operator_name)) return InvalidField("--operator", "not UTF-8", "UTF-8");
    client::ClientOptions options;
    options.address = address;
    options.timeout = absl::Seconds(timeout_seconds);
    options.retry_writes = retry_writes;
    options.operator_name = operator_name.empty() ? DefaultOperator() : operator_name;
    options.ca_file = ca_file;
    options.cert_file = cert_file;
    options.key_file = key_file;
    if (!api_key_file.empty()) {
      constexpr int64_t kKeyBytesMax = 8'192;
      absl::StatusOr<std::string> key = ReadFile(api_key_file, kKeyBytesMax);
      if (!key.ok()) return Annotate(key.status(), "--api-key-file");
      key->erase(key->find_last_not_of(" \t\r\n") + 1);
      if (key->empty()) return InvalidField("--api-key-file", "an empty file", "a file with a key");
      options.api_key = *std::move(key);
    }
    LC_ASSIGN_OR_RETURN(client_, client::Client::Connect(options));
  }
  return client_.get();
}

client::CallOptions Context::Waiting() const {
  client::CallOptions call;
  if (!timeout_given) call.timeout = absl::InfiniteDuration();
  return call;
}

void Context::Finish(const absl::Status& status) {
  exit_code_ = ExitCodeOf(status);
  if (status.ok()) return;
  std::string message = MessageOf(status);
  if (status.code() == absl::StatusCode::kUnavailable && client_ != nullptr) {
    message += StrCat("\n(server: ", address, "; start one with 'lightcone serve', name another with --server)");
  }
  if (!json) {
    std::fprintf(stderr, "lightcone: %s\n", message.c_str());
    return;
  }
  nlohmann::ordered_json error;
  error["code"] = absl::StatusCodeToString(status.code());
  error["message"] = message;
  if (const FieldErrorParts parts = PartsOf(status); !parts.field.empty()) {
    error["field"] = parts.field;
    error["value"] = parts.value;
    error["allowed"] = parts.allowed;
  }
  const nlohmann::ordered_json whole = {{"error", error}};
  std::fprintf(stderr, "%s\n", whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void Context::Print(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && output_error_ == 0) output_error_ = errno;
}

void Context::FinishOutput() {
  if (std::fflush(stdout) != 0 && output_error_ == 0) output_error_ = errno;
  if (output_error_ == 0 || exit_code_ != kExitOk) return;
  if (output_error_ == EPIPE) {
    exit_code_ = kExitClosedPipe;
  } else {
    Finish(ErrnoStatus(output_error_, "write", "standard output"));
  }
}

void Context::PrintJson(const nlohmann::ordered_json& value) const {
  Print(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace lightcone::cli
