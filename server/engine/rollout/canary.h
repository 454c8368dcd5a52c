// A canary: a generation that serves a share of the searches before it is active, and how it does beside the active
// one. Threads: CanaryHas is pure; every method is safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// Whether searches of this key are the canary's. The same on every machine and after every restart; a key that has a
// share has every larger one. `share`: 0 .. 1, of all keys.
bool CanaryHas(std::string_view key, uint32_t collection, uint32_t generation, double share);

// What both sides answered.
class CanaryTally {
 public:
  void Restart();
  void Note(bool canary, absl::Duration took, const absl::StatusOr<SearchAnswer>& answer);
  void NoteUnroutable();
  // The figures; generations and live recall stay as they are.
  void Fill(CanaryStatus* status) const;

 private:
  struct Side {
    uint64_t searches = 0, failures = 0;
    std::array<float, 4'096> milliseconds = {};  // ring of the latest searches
    double distances = 0, uncertainties = 0;
    uint64_t nearest = 0;  // hits that they are the sums of
  };
  static void Fill(const Side& side, CanarySide* out);

  mutable absl::Mutex mu_;
  std::array<Side, 2> sides_ ABSL_GUARDED_BY(mu_);  // active, canary
  uint64_t unroutable_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace lightcone::server
