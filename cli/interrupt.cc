#include "cli/interrupt.h"

#include <csignal>

namespace lightcone::cli {
namespace {

std::atomic<bool> interrupted{false};  // Signal handlers may touch lock-free atomics alone.

}  // namespace

StopOnInterrupt::StopOnInterrupt() {
  interrupted.store(false);
  previous_ = std::signal(SIGINT, [](int) { interrupted.store(true); });
}

StopOnInterrupt::~StopOnInterrupt() { std::signal(SIGINT, previous_); }

const std::atomic<bool>* StopOnInterrupt::flag() const { return &interrupted; }

}  // namespace lightcone::cli
