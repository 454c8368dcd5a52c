// Writes many batches over one stream, with a bounded number of them unacknowledged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace lightcone::client {

// Called once for each batch, in the order of Send, from the stream's own thread, with the server's acknowledgement or
// refusal of the batch. It must not call the stream.
using AcknowledgeCallback = std::function<void(uint64_t tag, const absl::StatusOr<v1::UpsertResponse>& outcome)>;

struct UpsertStreamOptions {
  int in_flight_max = 8;                          // unacknowledged batches; Send blocks above it; 1 .. 1024
  absl::Duration timeout = absl::ZeroDuration();  // longest wait for the next acknowledgement; 0: the client's
  int retries_max = -1;  // reconnections in a row without progress; -1: the client's; retry_writes only
  AcknowledgeCallback on_acknowledge = {};  // may be empty
};

// A stream fails when its connection breaks (UNAVAILABLE). With ClientOptions::retry_writes it reconnects and sends the
// unacknowledged batches again, in order; client.h says when that is safe. Threads: one thread sends.
class UpsertStream {
 public:
  virtual ~UpsertStream() = default;

  // Queues one batch. Blocks while `in_flight_max` batches are unacknowledged, or the server reads nothing. After an
  // error the stream takes no further batch, and batches without an acknowledgement may or may not be written.
  virtual absl::Status Send(v1::UpsertRequest batch, uint64_t tag) = 0;

  // Waits for every acknowledgement and closes the stream. OK also when the server refused single batches, which the
  // callback was told. Call it once, last. The destructor alone cancels what is under way.
  virtual absl::Status Finish() = 0;
};

}  // namespace lightcone::client
