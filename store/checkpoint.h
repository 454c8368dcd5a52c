// A checkpoint that Store::Checkpoint made, opened once so that it stands on its own.
// Threads: as Store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/store.h"

namespace lightcone {

struct OpenedCheckpoint {
  std::unique_ptr<Store> store;
  uint64_t sequence = 0;  // number of the last change in the copied log and tables
};

// Replays the copied log and closes with the store. Nothing is compacted, so tables stay hard links. DATA_LOSS when the
// checkpoint is damaged; else as OpenStore.
absl::StatusOr<OpenedCheckpoint> OpenCheckpoint(const std::string& folder, const StoreOptions& options);

}  // namespace lightcone
