#include "server/engine/filter/instant.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace lightcone::server {
namespace {

constexpr std::string_view kSecondsForm = "0000-00-00T00:00:00";
constexpr int64_t kDaySeconds = 86'400, kMicros = 1'000'000;
constexpr int64_t kSecondsMin = -62'167'219'200, kSecondsMax = 253'402'300'799;  // years 0000 .. 9999
constexpr size_t kFractionDigits = 6;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether `text` begins with a date and a time of day in digits.
bool HasSecondsForm(std::string_view text, bool any_case) {
  if (text.size() < kSecondsForm.size()) return false;
  for (size_t i = 0; i < kSecondsForm.size(); ++i) {
    const bool fits = kSecondsForm[i] == '0'
                          ? IsDigit(text[i])
                          : text[i] == kSecondsForm[i] || (any_case && kSecondsForm[i] == 'T' && text[i] == 't');
    if (!fits) return false;
  }
  return true;
}

// REQUIRES: digits.
int NumberAt(std::string_view text, size_t at, size_t digits) {
  int number = 0;
  for (size_t i = at; i < at + digits; ++i) number = 10 * number + (text[i] - '0');
  return number;
}

int DaysOfMonth(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return kDays[month - 1] + (month == 2 && leap ? 1 : 0);
}

// Days since 1970 in the Gregorian calendar; a year begins in March here, so that a leap day is its last.
int64_t DayNumber(int year, int month, int day) {
  const int64_t y = year - (month <= 2 ? 1 : 0);
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t year_of_era = y - era * 400;
  const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719'468;
}

struct Date {
  int year, month, day;
};
Date DateOf(int64_t day_number) {
  const int64_t z = day_number + 719'468;
  const int64_t era = (z >= 0 ? z : z - 146'096) / 146'097;
  const int64_t day_of_era = z - era * 146'097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t part = (5 * day_of_year + 2) / 153;
  const int month = static_cast<int>(part < 10 ? part + 3 : part - 9);
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  return {static_cast<int>(year), month, static_cast<int>(day_of_year - (153 * part + 2) / 5 + 1)};
}

// Seconds that a zone is ahead of UTC.
std::optional<int64_t> ParseOffset(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  for (const size_t i : {1, 2, 4, 5}) {
    if (!IsDigit(text[i])) return std::nullopt;
  }
  const int hours = NumberAt(text, 1, 2), minutes = NumberAt(text, 4, 2);
  if (hours > 23 || minutes > 59) return std::nullopt;
  return (text[0] == '-' ? -1 : 1) * (hours * 3'600 + minutes * 60);
}

int64_t FloorDiv(int64_t value, int64_t by) { return value / by - (value % by < 0 ? 1 : 0); }

}  // namespace

std::optional<Instant> ParseInstant(std::string_view text) {
  if (text.size() <= kSecondsForm.size() || !HasSecondsForm(text, /*any_case=*/true)) return std::nullopt;
  const int year = NumberAt(text, 0, 4), month = NumberAt(text, 5, 2), day = NumberAt(text, 8, 2);
  const int hour = NumberAt(text, 11, 2), minute = NumberAt(text, 14, 2), second = NumberAt(text, 17, 2);
  if (month < 1 || month > 12 || day < 1 || day > DaysOfMonth(year, month)) return std::nullopt;
  if (hour > 23 || minute > 59 || second > 60) return std::nullopt;
  std::string_view rest = text.substr(kSecondsForm.size());
  Instant instant;
  if (rest[0] == '.') {
    const size_t digits =
        static_cast<size_t>(std::find_if_not(rest.begin() + 1, rest.end(), IsDigit) - rest.begin()) - 1;
    if (digits == 0) return std::nullopt;
    instant.fraction = rest.substr(1, digits);
    instant.fraction = instant.fraction.substr(0, instant.fraction.find_last_not_of('0') + 1);
    rest.remove_prefix(1 + digits);
  }
  const auto offset = ParseOffset(rest);
  if (!offset) return std::nullopt;
  const int64_t minutes = DayNumber(year, month, day) * 1'440 + hour * 60 + minute - *offset / 60;
  if (second == 60 && minutes - FloorDiv(minutes, 1'440) * 1'440 != 1'439) return std::nullopt;
  instant.seconds = minutes * 60 + second;
  return instant;
}

std::partial_ordering CompareTexts(std::string_view value, std::string_view bound) {
  const auto wanted = ParseInstant(bound);
  if (!wanted) return value.compare(bound) <=> 0;
  const auto instant = ParseInstant(value);
  if (!instant) return std::partial_ordering::unordered;
  return *instant <=> *wanted;
}

std::optional<int64_t> TimeKey(std::string_view text) {
  const auto instant = ParseInstant(text);
  if (!instant || instant->fraction.size() > kFractionDigits) return std::nullopt;
  if (instant->seconds < kSecondsMin || instant->seconds > kSecondsMax) return std::nullopt;
  int64_t micros = 0;
  for (size_t i = 0; i < kFractionDigits; ++i) {
    micros = 10 * micros + (i < instant->fraction.size() ? instant->fraction[i] - '0' : 0);
  }
  return instant->seconds * kMicros + micros;
}

std::string TimeText(int64_t key) {
  const int64_t seconds = FloorDiv(key, kMicros), day = FloorDiv(seconds, kDaySeconds);
  const int64_t of_day = seconds - day * kDaySeconds, micros = key - seconds * kMicros;
  const Date date = DateOf(day);
  std::array<char, 64> form{};
  const auto second = static_cast<int>(of_day);
  std::snprintf(form.data(), form.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06d", date.year, date.month, date.day,
                second / 3'600, second / 60 % 60, second % 60, static_cast<int>(micros));
  std::string text(form.data());
  if (micros == 0) {
    text.resize(kSecondsForm.size());
  } else {
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "Z";
}

bool OrdersTimeTexts(std::string_view bound) {
  return bound.size() <= kSecondsForm.size() || !HasSecondsForm(bound, /*any_case=*/false);
}

}  // namespace lightcone::server
