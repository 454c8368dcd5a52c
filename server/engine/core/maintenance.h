// What keeps collections in shape behind the calls: change logs are trimmed, payload indexes swept, galleries that item
// adapters reach carried over, and what embeddings of a generation have in common learnt.
// Threads: three of its own; constructor and destructor belong to the owner.
#pragma once

#include "absl/synchronization/mutex.h"
#include "server/engine/services/context.h"
#include "server/engine/services/repeating_thread.h"

namespace lightcone::server {

class Maintenance {
 public:
  explicit Maintenance(Context& context);  // must outlive it

  // While it is held, no change log is trimmed: copies of segments and a later copy of the store fit each other.
  absl::Mutex& trim_mutex() ABSL_LOCK_RETURNED(trim_mu_) { return trim_mu_; }

 private:
  absl::Mutex trim_mu_;
  RepeatingThread trimmer_, carrier_, learner_;
};

}  // namespace lightcone::server
