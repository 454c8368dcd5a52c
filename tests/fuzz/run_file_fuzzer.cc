// Arbitrary text as the section "progress" of a training's checkpoint, and as its section "config": read, or refused
// with a status; what was read makes sense.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trainer/run_file.h"

namespace {

void Try(const lightcone::RunIdentity& identity, const lightcone::Checkpoint& checkpoint) {
  const absl::StatusOr<lightcone::RunProgress> progress = lightcone::LoadProgress(identity, checkpoint);
  if (!progress.ok()) return;
  if (progress->step < 0 || !std::isfinite(progress->epoch_loss) || !std::isfinite(progress->seconds)) std::abort();
  lightcone::Checkpoint saved;
  lightcone::SaveProgress(identity, *progress, saved);
  const absl::StatusOr<lightcone::RunProgress> again = lightcone::LoadProgress(identity, saved);
  if (!again.ok() || again->step != progress->step) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const lightcone::RunIdentity identity;
  lightcone::Checkpoint checkpoint;
  lightcone::SaveProgress(identity, {}, checkpoint);
  lightcone::Checkpoint other = checkpoint;
  checkpoint.sections["progress"] = text;
  Try(identity, checkpoint);
  other.sections["config"] = text;
  Try(identity, other);
  return 0;
}
