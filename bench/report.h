// Figures of a benchmark run, ours beside the peer's, as a table and as build/bench/results.json.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::bench {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer;  // what it is measured against, in the same run
  double peer_value = 0;
  double ratio = 0;       // value / peer_value, or as the name says
  std::string goal = {};  // "ratio >= 0.8"; empty: none
  bool met = false;
  double spread = 0;  // (max - min) / median of the rounds' ratios
};

class Report {
 public:
  void Add(Figure figure) { figures_.push_back(std::move(figure)); }
  // A figure whose only peer is the most that it may be.
  void AddAtMost(const std::string& name, double value, const std::string& unit, double limit, double spread = 0);
  const std::vector<Figure>& figures() const { return figures_; }
  std::string Table() const;
  // [{name, value, unit, peer, peer_value, ratio, goal, met, spread}, ...]
  std::string Json() const;

 private:
  std::vector<Figure> figures_;
};

// The median and (max - min) of a list. REQUIRES: not empty.
double Median(std::vector<double> values);
double Spread(const std::vector<double>& values);

// A size in /proc/PID/status, such as VmRSS (resident) or VmHWM (its peak), in bytes.
absl::StatusOr<int64_t> MemoryOf(int pid, const std::string& field);

// CPU model, cores and memory of this machine.
std::string MachineName();

// The same with the versions of compiler and program: one line.
std::string MachineText();

}  // namespace lightcone::bench
