// How the process of a training locks itself in when a server starts it: it runs encoders and decodes images that
// callers brought.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "base/folder_lock.h"

namespace lightcone::cli {

struct TrainingLock {
  std::string sandbox = "off";  // the server's encoder.sandbox; people train without
  LockedFolders folders;
};

// Flags for servers, which help leaves out.
void AddTrainingLock(CLI::App* app, TrainingLock* lock);

// Goes on locked in as the flags say, or says on standard error why not. `device`: the training's. INVALID_ARGUMENT;
// FAILED_PRECONDITION: the lock is required and does not work here. Call it as GoOnLockedIn.
absl::Status LockTrainingIn(const TrainingLock& lock, const std::string& device);

}  // namespace lightcone::cli
