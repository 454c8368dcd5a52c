// Writes many batches over one stream, with a bounded number of them unacknowledged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace lightcone::client {

// Called once for each batch, in the order of Send, from the stream's own thread: the server's acknowledgement, or its
// refusal of this batch. Must not call the stream.
using AcknowledgeCallback = std::function<void(uint64_t tag, const absl::StatusOr<v1::UpsertResponse>& outcome)>;

struct UpsertStreamOptions {
  int in_flight_max = 8;                          // unacknowledged batches; Send blocks above it; 1 .. 1024
  absl::Duration timeout = absl::ZeroDuration();  // longest wait for the next acknowledgement; 0: the client's
  int retries_max = -1;  // reconnections in a row without progress; -1: the client's; retry_writes only
  AcknowledgeCallback on_acknowledge = {};  // may be empty
};

// When the connection breaks (UNAVAILABLE), the stream fails; with ClientOptions::retry_writes it reconnects and sends
// the unacknowledged batches again, in order; see client.h for when that is safe. Threads: one thread sends.
class UpsertStream {
 public:
  virtual ~UpsertStream() = default;

  // Queues one batch; blocks while `in_flight_max` are unacknowledged, or the server reads nothing. An error is the
  // stream's: nothing further can be sent, and batches without an acknowledgement may or may not have been written.
  virtual absl::Status Send(v1::UpsertRequest batch, uint64_t tag) = 0;

  // Waits for every acknowledgement and closes the stream. OK when the stream went well, even if single batches were
  // refused (the callback has been told). Call it once, last. The destructor without it cancels what is under way.
  virtual absl::Status Finish() = 0;
};

}  // namespace lightcone::client
