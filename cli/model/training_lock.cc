#include "cli/model/training_lock.h"

#include <unistd.h>

#include <cstdio>

#include "base/lock_in.h"
#include "base/status.h"

namespace lightcone::cli {
namespace {

constexpr char kGpuDevice[] = "/dev/nvidiactl";

absl::Status Lock(const LockedFolders& folders, const std::string& device) {
  if (device != "cpu" && ::access(kGpuDevice, F_OK) == 0) {
    return FailedPrecondition(
        "a training that may use the GPU needs its driver's files; the recipe's option device=cpu "
        "has it locked in");
  }
  return GoOnLockedIn(folders);
}

}  // namespace

void AddTrainingLock(CLI::App* app, TrainingLock* lock) {
  app->add_option("--sandbox", lock->sandbox, "The server's encoder.sandbox")->group("");
  app->add_option("--sandbox-read", lock->folders.read, "Folder that the training may read")->group("");
  app->add_option("--sandbox-write", lock->folders.write, "Folder that the training may write")->group("");
}

absl::Status LockTrainingIn(const TrainingLock& lock, const std::string& device) {
  LockMode mode = LockMode::kRequire;
  LC_RETURN_IF_ERROR(ParseLockMode(lock.sandbox, "sandbox", &mode));
  if (mode == LockMode::kOff) return absl::OkStatus();
  const absl::Status locked = Lock(lock.folders, device);
  if (locked.ok()) return locked;
  const std::string why = StrCat("the training is not locked in here: ", MessageOf(locked));
  if (mode == LockMode::kRequire) return FailedPrecondition(StrCat("encoder.sandbox is 'require', but ", why));
  std::fprintf(stderr, "%s\n", why.c_str());
  return absl::OkStatus();
}

}  // namespace lightcone::cli
