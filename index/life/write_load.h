// How the builder keeps up with writes: what waits for the end of a burst, and what is sealed in a hurry.
// Threads: every method asserts the index's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "index/life/index_state.h"

namespace lightcone {

class WriteLoad {
 public:
  // Once this share of `unsealed_bytes_max` waits in full segments, writes will wait soon: rows are sealed
  // provisionally then, as many bytes in a job.
  static constexpr int64_t kHurryShare = 4;

  explicit WriteLoad(IndexState& state) : state_(state) {}

  // Whether more rows wait to be sealed than a burst leaves.
  bool IsBehind() const;
  // Whether so much waits in full segments that writes will wait soon.
  bool FrozenCrowd() const;
  // Whether a generation's waiting rows, `rows` of them, are to be sealed provisionally, so that neither writes wait
  // nor searches scan ever more rows.
  bool HurryIsDue(int64_t rows) const;
  // How long the builder lets a burst of writes pass, until `latest`; zero: no longer.
  absl::Duration BurstLeft(absl::Time latest) const;
  // Whether rows still count as coming faster than graphs are built. False also once as much is provisional as may be.
  bool GoesOn() const { return Left() > absl::ZeroDuration(); }
  void RecordProvisionalSeal();

 private:
  absl::Duration Left() const;
  int64_t ProvisionalBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Provisional bytes beyond which graphs are built beside a load.
  int64_t ProvisionalLimit() const;

  IndexState& state_;
  std::optional<std::chrono::steady_clock::time_point> last_provisional_ ABSL_GUARDED_BY(state_.mu);  // end of the seal
};

}  // namespace lightcone
