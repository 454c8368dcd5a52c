// Points in time as payloads and filters write them: RFC 3339 with any offset from UTC and any fraction of a second.
// Threads: pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lightcone::server {

struct Instant {
  int64_t seconds = 0;        // seconds since 1970, without leap seconds
  std::string_view fraction;  // digits behind the point, without trailing zeros; a part of the text
  // Digits order as their fractions do.
  friend auto operator<=>(const Instant&, const Instant&) = default;
};

// Texts like 2024-05-01T12:30:00Z and 2024-05-01t14:30:00.250+02:00. nullopt for any other text, and for a day or a
// time of day that does not exist. 23:59:60 in UTC is the second after it.
std::optional<Instant> ParseInstant(std::string_view text);

// The order of a payload's text relative to a filter's: by time if the filter's is an instant, else by bytes. A text
// that is no instant has no order relative to one.
std::partial_ordering CompareTexts(std::string_view value, std::string_view bound);

// Microseconds since 1970 of an instant in the years 0000 .. 9999 of UTC with at most six digits of a fraction.
std::optional<int64_t> TimeKey(std::string_view text);
// The spelling of a key in UTC, with neither a needless zero nor a needless point.
std::string TimeText(int64_t key);
// Whether the texts of keys, in the order of keys, are in order relative to `bound` by bytes, too. Not so for a text
// that differs from them only behind the seconds.
bool OrdersTimeTexts(std::string_view bound);

}  // namespace lightcone::server
