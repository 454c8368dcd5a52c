// Tables and progress bars for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace lightcone::cli {

// Columns as wide as their widest cell (in characters of UTF-8); numbers are right-aligned. Threads: one at a time.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  // Every line ends with a line feed.
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "1,234,567"; "12.3 MiB"; six significant digits.
std::string Grouped(uint64_t number);
std::string Bytes(uint64_t bytes);
std::string Number(double value);
// "40 s", "12 min", "3.5 h".
std::string SecondsText(double seconds);

// A bar that redraws itself on stderr when that is a terminal, and is silent elsewhere. Threads: one at a time.
class ProgressBar {
 public:
  // `total` below 1: unknown. `unit`: "rows".
  ProgressBar(std::string title, int64_t total, std::string unit);
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` of the total in [0, 1]; `count` is shown with the unit and as a rate.
  void Show(double done, int64_t count);
  void Clear();

 private:
  const std::string title_, unit_;
  const int64_t total_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_{};
  bool shown_ = false;
};

}  // namespace lightcone::cli
