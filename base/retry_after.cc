#include "base/retry_after.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "base/dcheck.h"
#include "base/strings.h"

namespace lightcone {
namespace {

constexpr char kRetryUrl[] = "lightcone/retry-after-us";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration after) {
  LC_DCHECK(!status.ok() && after >= absl::ZeroDuration() && after < absl::InfiniteDuration());
  status.SetPayload(kRetryUrl, absl::Cord(StrCat(absl::ToInt64Microseconds(after))));
  return status;
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  int64_t us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return absl::Microseconds(us);
}

}  // namespace lightcone
