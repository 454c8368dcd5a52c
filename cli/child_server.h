// A `lightcone serve` in a process of its own, for demo, eval, benches and tests: started, killed, started again.
// Threads: one caller at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lightcone::cli {

class ChildServer {
 public:
  // Starts `binary serve --data FOLDER --listen 127.0.0.1:0 --http-listen 127.0.0.1:0 EXTRA...` and waits for the line
  // "lightcone ready grpc=ADDRESS http=ADDRESS" on its standard output. Its log goes to FOLDER.log.
  // Unless `outlives_us`, it is killed when the thread that started it ends, however that ends.
  // DEADLINE_EXCEEDED when it is not ready in time, UNAVAILABLE (with the end of the log) when it exits before.
  static absl::StatusOr<std::unique_ptr<ChildServer>> Start(const std::string& binary, const std::string& folder,
                                                            const std::vector<std::string>& extra = {},
                                                            absl::Duration patience = absl::Seconds(60),
                                                            bool outlives_us = false);
  // Stops with SIGTERM, and with SIGKILL when that takes longer than 20 s, unless it was stopped or released.
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  const std::string& address() const { return address_; }
  const std::string& http_address() const { return http_address_; }
  pid_t pid() const { return pid_; }

  void Kill();                   // SIGKILL, and waits for its end
  int Terminate();               // SIGTERM, waits, gives the exit code (128 + signal when a signal ended it)
  void Release() { pid_ = -1; }  // leaves it running when this object goes

 private:
  ChildServer(pid_t pid, std::string address, std::string http_address)
      : pid_(pid), address_(std::move(address)), http_address_(std::move(http_address)) {}

  pid_t pid_;
  std::string address_, http_address_;
};

}  // namespace lightcone::cli
