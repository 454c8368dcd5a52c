// Memory of parsed requests, of all calls of a server together. Threads: every method is safe from any thread; a
// ParsedBytes belongs to its call.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace lightcone::server {

class ParseBudget;

// Part of the budget, given back by the destructor.
class ParsedBytes {
 public:
  ParsedBytes() = default;
  ParsedBytes(ParsedBytes&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ParsedBytes& operator=(ParsedBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ParsedBytes();

 private:
  friend class ParseBudget;
  ParsedBytes(ParseBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
  ParseBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

class ParseBudget {
 public:
  explicit ParseBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // RESOURCE_EXHAUSTED that names rpc.parsed_bytes_max: with a delay for the next attempt where other calls hold the
  // budget, and without one where `bytes` alone is more than all of it.
  absl::StatusOr<ParsedBytes> Take(int64_t bytes);
  int64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  friend class ParsedBytes;
  void GiveBack(int64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

  const int64_t bytes_max_;
  std::atomic<int64_t> taken_{0};
};

inline ParsedBytes::~ParsedBytes() {
  if (budget_ != nullptr) budget_->GiveBack(bytes_);
}

}  // namespace lightcone::server
