// Arbitrary text as the sections "progress", "config" and "classes" of a training's checkpoint: read, or refused with a
// status; what was read makes sense.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trainer/class_names.h"
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
  for (const int64_t rows : {0, 1, 2}) {
    const auto names = lightcone::ParseClassNames(text, rows);
    if (!names.ok()) continue;
    if (names->size() != static_cast<size_t>(rows)) std::abort();
    if (!lightcone::ParseClassNames(lightcone::ClassNamesToJson(*names), rows).ok()) std::abort();
  }
  return 0;
}
