// What every subcommand gets: the global flags, a client on demand, and the one way to end with an error.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "client/client.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {

// Threads: one at a time.
class Context {
 public:
  std::string address = "127.0.0.1:7700";  // --server, LIGHTCONE_SERVER
  double timeout_seconds = 30;             // --timeout
  std::string operator_name;               // --operator; empty: USER@HOST
  std::string api_key_file;                // --api-key-file, LIGHTCONE_API_KEY_FILE; empty: no key
  std::string ca_file;                     // --ca, LIGHTCONE_CA; empty: no encryption
  std::string cert_file, key_file;         // --cert, --key, LIGHTCONE_CERT, LIGHTCONE_KEY; empty: no client certificate
  bool timeout_given = false;
  bool json = false;                  // --json
  const Program* program = nullptr;   // the running program
  const char* const* argv = nullptr;  // command line of the running program
  bool retry_writes = false;          // option of the client, set before Client()

  // The client, made at the first call. INVALID_ARGUMENT for an address, a timeout or a key that is not allowed.
  // NOT_FOUND for a file of a key or a certificate that is not there.
  absl::StatusOr<client::Client*> Client();
  // Options of a call that waits until the server has done something. The call has no deadline unless --timeout is
  // given.
  client::CallOptions Waiting() const;

  // One call of the client: Call(&client::Client::Get, request).
  template <typename Calls, typename Request, typename Response>
  absl::StatusOr<Response> Call(absl::StatusOr<Response> (Calls::*method)(const Request& request,
                                                                          const client::CallOptions& options),
                                const Request& request, const client::CallOptions& options = {}) {
    absl::StatusOr<client::Client*> client = Client();
    if (!client.ok()) return client.status();
    return ((*client)->*method)(request, options);
  }

  // Ends a subcommand: sets the exit code and shows an error on stderr, as text or, with --json, as an object
  // {"error": {"code", "message", "field", "value", "allowed"}}.
  void Finish(const absl::Status& status);
  int exit_code() const { return exit_code_; }

  // Prints to stdout: `json` with --json, else `text`.
  void Show(const nlohmann::ordered_json& value, std::string_view text) const { json ? PrintJson(value) : Print(text); }
  void Print(std::string_view text) const;
  void PrintJson(const nlohmann::ordered_json& value) const;
  // Whether some of that could not be written. A command that prints for long asks, and ends; FinishOutput tells.
  bool output_failed() const { return output_error_ != 0; }
  // Writes what is buffered. If the command went well and its output did not: sets the exit code, and shows an error
  // unless the reader just went away. Call it last.
  void FinishOutput();

 private:
  std::unique_ptr<client::Client> client_;
  int exit_code_ = 0;
  mutable int output_error_ = 0;  // errno of the first write to stdout that failed
};

}  // namespace lightcone::cli
