// What keeps collections in shape behind the calls: change logs are trimmed, payload indexes swept, and galleries that
// item adapters reach carried over.
// Threads: two of its own; constructor and destructor belong to the owner.
#pragma once

#include "server/engine/services/context.h"
#include "server/engine/services/repeating_thread.h"

namespace lightcone::server {

class Maintenance {
 public:
  explicit Maintenance(Context& context);  // must outlive it

 private:
  RepeatingThread trimmer_, carrier_;
};

}  // namespace lightcone::server
