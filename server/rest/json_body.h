// The body of a request as JSON, within bounds that all requests share. A parsed value takes many times the bytes of
// its text. Threads: JsonBudget is safe from any thread; a ParsedBody belongs to one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {

inline constexpr int kJsonDepthMax = 72;  // payloads nest at most 64 deep

// Bytes that parsed bodies may take together.
class JsonBudget {
 public:
  explicit JsonBudget(int64_t bytes) : left_(bytes) {}
  bool Take(int64_t bytes) {
    if (left_.fetch_sub(bytes) >= bytes) return true;
    left_.fetch_add(bytes);
    return false;
  }
  void GiveBack(int64_t bytes) { left_.fetch_add(bytes); }

 private:
  std::atomic<int64_t> left_;
};

// A parsed value and its share of the budget, which it gives back.
class ParsedBody {
 public:
  explicit ParsedBody(JsonBudget* budget) : budget_(budget) {}
  ParsedBody(ParsedBody&& other) noexcept
      : value(std::move(other.value)), budget_(other.budget_), taken_(std::exchange(other.taken_, 0)) {}
  ParsedBody(const ParsedBody&) = delete;
  ParsedBody& operator=(const ParsedBody&) = delete;
  ~ParsedBody() { budget_->GiveBack(taken_); }
  // false: the budget has not as much.
  bool Take(int64_t bytes);

  nlohmann::json value;

 private:
  JsonBudget* const budget_;
  int64_t taken_ = 0;
};

// INVALID_ARGUMENT names the place of what is no JSON (NaN and Infinity are none, and so is a lone surrogate), a key
// that stands twice in an object, an integer beyond 64 bits and nesting deeper than kJsonDepthMax. RESOURCE_EXHAUSTED
// above the budget, which must outlive the answer.
absl::StatusOr<ParsedBody> ParseJsonBody(std::string_view text, JsonBudget* budget);

}  // namespace lightcone::server
