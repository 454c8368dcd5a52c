// The progress of a training for people: a redrawn bar on a terminal, one line a minute elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "trainer/train.h"

namespace lightcone {

// "hbct-new  [=====>    ]  epoch 3/20  step 310/1100  total 3.41 base 2.9 ...  1234 img/s  ETA 01:20", without a bar
// for `bar_width` 0.
std::string FormatProgress(const TrainProgress& progress, int bar_width);

// Threads: one at a time. Writes to `out` (not owned).
class ProgressPrinter {
 public:
  // Checks whether `out` is a terminal.
  explicit ProgressPrinter(std::FILE* out);
  ProgressPrinter(std::FILE* out, bool terminal, std::chrono::steady_clock::duration line_interval);

  void Show(const TrainProgress& progress);
  // A callback for Train(), which the printer must outlive.
  TrainCallback callback() {
    return [this](const TrainProgress& progress) { Show(progress); };
  }

 private:
  std::FILE* out_;
  bool terminal_;
  std::chrono::steady_clock::duration line_interval_;
  std::chrono::steady_clock::time_point last_{};
  bool shown_ = false;
};

}  // namespace lightcone
