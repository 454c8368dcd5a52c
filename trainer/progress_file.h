// The progress of a training as a file that another process reads: one JSON object, written anew, whole at every
// moment.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/train.h"

namespace lightcone {

// {"name", "method", "epoch", "epochs", "step", "steps", "losses": {...}, "images_per_second", "elapsed_seconds",
// "eta_seconds", "line": what people read, "curve": [{"epoch", losses...}, ...]}. The curve goes on from the file that
// a training that was cut short left. Threads: one at a time.
class ProgressFile {
 public:
  explicit ProgressFile(std::string path);
  // Writes it, at most five times a second but for the last one of all. Of a long curve every second point goes. A file
  // that cannot be written costs the training nothing: status() says so.
  void Show(const TrainProgress& progress);
  const absl::Status& status() const { return status_; }

 private:
  using Losses = std::vector<std::pair<std::string, double>>;
  void Write(const TrainProgress& progress);

  const std::string path_;
  std::vector<std::pair<int64_t, Losses>> curve_;  // by epoch
  std::chrono::steady_clock::time_point last_{};
  absl::Status status_;
};

}  // namespace lightcone
