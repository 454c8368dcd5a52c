// The progress of a training as a file for another process: one JSON object, replaced atomically.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/train.h"

namespace lightcone {

// {"name", "method", "epoch", "epochs", "step", "steps", "losses": {...}, "images_per_second", "elapsed_seconds",
// "eta_seconds", "line": FormatProgress, "curve": [{"epoch", losses...}, ...]}. A resumed training continues the curve
// of its file. Threads: one at a time.
class ProgressFile {
 public:
  explicit ProgressFile(std::string path);
  // Writes the progress at most five times a second, and at the end. A long curve loses every second point. A write
  // error does not stop the training; status() reports the error.
  void Show(const TrainProgress& progress);
  const absl::Status& status() const { return status_; }

 private:
  using Losses = std::vector<std::pair<std::string, double>>;
  void Write(const TrainProgress& progress);

  const std::string path_;
  std::vector<std::pair<int64_t, Losses>> curve_;  // losses by epoch
  std::chrono::steady_clock::time_point last_{};
  absl::Status status_;
};

}  // namespace lightcone
