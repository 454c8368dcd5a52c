#include "cli/table.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace lightcone::cli {
namespace {

size_t Width(const std::string& cell) {
  return static_cast<size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool IsNumber(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
          (cell[0] == '-' && cell.size() > 1 && std::isdigit(static_cast<unsigned char>(cell[1])) != 0));
}

}  // namespace

std::string Table::Text() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  std::vector<bool> numbers(rows_[0].size(), rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < widths.size() && c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], Width(rows_[r][c]));
      if (r > 0 && !IsNumber(rows_[r][c]) && rows_[r][c] != "-") numbers[c] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - Width(row[c]), ' ');
      line += numbers[c] ? padding + row[c] : row[c] + padding;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Grouped(uint64_t number) {
  std::string digits = absl::StrFormat("%d", number);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string Bytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = -1;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

ProgressBar::ProgressBar(std::string title, int64_t total, std::string unit)
    : title_(std::move(title)), unit_(std::move(unit)), total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::Show(double done, int64_t count) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 30;
  done = std::clamp(done, 0.0, 1.0);
  const int filled = static_cast<int>(done * kWidth);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(count) / seconds : 0;
  const std::string of = total_ > 0 ? StrCat("/", Grouped(static_cast<uint64_t>(total_))) : std::string();
  const double left = done > 0 ? seconds * (1 - done) / done : 0;
  std::fprintf(stderr, "\r\x1b[K%s  [%s%s] %3.0f%%  %s%s %s  %s/s  %02d:%02d left", title_.c_str(),
               std::string(static_cast<size_t>(filled), '=').c_str(),
               std::string(static_cast<size_t>(kWidth - filled), ' ').c_str(), done * 100,
               Grouped(static_cast<uint64_t>(count)).c_str(), of.c_str(), unit_.c_str(),
               Grouped(static_cast<uint64_t>(rate)).c_str(), static_cast<int>(left) / 60, static_cast<int>(left) % 60);
  std::fflush(stderr);
}

void ProgressBar::Clear() {
  if (!shown_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

std::string SecondsText(double seconds) {
  char text[64];
  if (seconds < 90) {
    std::snprintf(text, sizeof text, "%.0f s", seconds);
  } else if (seconds < 5400) {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  } else {
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  }
  return text;
}

}  // namespace lightcone::cli
