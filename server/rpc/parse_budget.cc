#include "server/rpc/parse_budget.h"

#include "absl/time/time.h"
#include "base/retry_after.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(1);  // about the time of the largest writes

absl::Status Exhausted(int64_t bytes_max, std::string_view allowed) {
  return FieldError(absl::StatusCode::kResourceExhausted, "rpc.parsed_bytes_max", StrCat(bytes_max), allowed);
}

}  // namespace

absl::StatusOr<ParsedBytes> ParseBudget::Take(int64_t bytes) {
  if (bytes > bytes_max_) {
    return Exhausted(bytes_max_, StrCat("at least ", bytes, " bytes for this request alone; send smaller requests"));
  }
  int64_t before = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_max_ - before) {
      return WithRetryAfter(
          Exhausted(bytes_max_,
                    StrCat("at least ", before + bytes, " bytes, because requests of other ", "calls take ", before,
                           " and this one takes ", bytes, "; retry later, or send smaller requests")),
          kRetryDelay);
    }
  } while (!taken_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return ParsedBytes(this, bytes);
}

}  // namespace lightcone::server
