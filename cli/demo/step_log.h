// The steps of a demo as it goes on: told to a stream, and kept for the time line. Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "cli/demo/demo_result.h"

namespace lightcone::cli {

class StepLog {
 public:
  explicit StepLog(std::FILE* out) : out_(out) {}

  // Seconds since the demo began.
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  void Say(const std::string& text) const {
    std::fprintf(out_, "[%6.1f s] %s\n", Seconds(), text.c_str());
    std::fflush(out_);
  }
  // Runs a step and puts it on the time line. An error of the step has its name before the message.
  template <typename Step>
  absl::Status Timed(const std::string& what, Step step) {
    Say(what);
    DemoEvent event{what, Seconds(), 0};
    const absl::Status status = step();
    event.end_s = Seconds();
    events_.push_back(event);
    return Annotate(status, what);
  }
  const std::vector<DemoEvent>& events() const { return events_; }

 private:
  std::FILE* const out_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<DemoEvent> events_;
};

}  // namespace lightcone::cli
