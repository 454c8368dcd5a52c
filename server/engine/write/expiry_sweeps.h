// Removes items that have expired, a few times a second. Searches leave them out from the millisecond on at which they
// expire; what is done here gives their space back.
// Threads: one of its own; constructor and destructor belong to the owner.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/services/context.h"
#include "server/engine/services/repeating_thread.h"

namespace lightcone::server {

class ExpirySweeps {
 public:
  explicit ExpirySweeps(Context& context);  // must outlive it
  ~ExpirySweeps();

 private:
  absl::Duration Work();
  absl::Status Sweep(const Served& served);
  // So that a start knows the time at least, whatever the wall clock says then.
  void StoreClock();

  Context& context_;
  bool used_ = false;                        // An item that expires has been seen.
  int64_t stored_ms_ = 0;                    // time that was stored last
  int64_t durable_ms_ = 0;                   // time that was stored last and survives a loss of power
  std::unique_ptr<RepeatingThread> thread_;  // uses all of the above
};

}  // namespace lightcone::server
