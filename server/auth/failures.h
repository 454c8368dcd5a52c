// Failed attempts by peer: how many of them are answered and logged as they come. A valid key is never held up, so that
// nobody locks another caller out who comes from the same address.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server::auth {

// "ipv4:10.0.0.7:5123" -> "ipv4:10.0.0.7": all connections of a host count together.
std::string_view HostOfPeer(std::string_view peer);

class FailureLimit {
 public:
  struct Verdict {
    bool limited = false;   // The peer has used up its failures for now.
    bool log = false;       // The failure gets a line in the log: at most one each kLogEvery and peer.
    uint64_t unlogged = 0;  // failures of the peer since its last line
  };
  static constexpr double kBurst = 20;     // failures at once
  static constexpr double kPerSecond = 1;  // failures that come back each second
  static constexpr absl::Duration kLogEvery = absl::Seconds(10);
  static constexpr size_t kPeersMax = 4'096;  // more peers than that share one count

  Verdict Count(std::string_view peer, absl::Time now);

 private:
  struct Peer {
    double left = kBurst;
    absl::Time seen = absl::InfinitePast();
    absl::Time logged = absl::InfinitePast();
    uint64_t unlogged = 0;
  };

  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lightcone::server::auth
