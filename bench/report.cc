#include "bench/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/cores.h"
#include "base/files.h"
#include "base/status.h"
#include "base/version.h"
#include "nlohmann/json.hpp"

namespace lightcone::bench {

void Report::AddAtMost(const std::string& name, double value, const std::string& unit, double limit, double spread) {
  Add({.name = name,
       .value = value,
       .unit = unit,
       .peer = "the limit",
       .peer_value = limit,
       .ratio = value / limit,
       .goal = StrCat("value <= ", limit),
       .met = value <= limit,
       .spread = spread});
}

std::string Report::Table() const {
  std::string text;
  char line[400];
  std::snprintf(line, sizeof line, "%-46s %12s %-10s %12s %8s %7s  %-18s %s\n", "what", "value", "unit", "peer",
                "ratio", "spread", "goal", "met");
  text += line;
  for (const Figure& f : figures_) {
    std::snprintf(line, sizeof line, "%-46s %12.4g %-10s %12.4g %8.3f %7.2f  %-18s %s   (peer: %s)\n", f.name.c_str(),
                  f.value, f.unit.c_str(), f.peer_value, f.ratio, f.spread, f.goal.c_str(),
                  f.goal.empty() ? "-"
                  : f.met        ? "yes"
                                 : "NO",
                  f.peer.c_str());
    text += line;
  }
  return text;
}

std::string Report::Json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Figure& f : figures_) {
    list.push_back({{"name", f.name},
                    {"value", f.value},
                    {"unit", f.unit},
                    {"peer", f.peer},
                    {"peer_value", f.peer_value},
                    {"ratio", f.ratio},
                    {"goal", f.goal},
                    {"met", f.goal.empty() ? nlohmann::json() : nlohmann::json(f.met)},
                    {"spread", f.spread}});
  }
  return list.dump(2) + "\n";
}

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(middle), values.end());
  return values[middle];
}

double Spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return (*high - *low) / Median(values);
}

std::string MachineName() {
  std::string cpu = "unknown CPU";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      cpu = line.substr(line.find(':') + 2);
      break;
    }
  }
  const double gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
                     (1024.0 * 1024 * 1024);
  char text[400];
  std::snprintf(text, sizeof text, "%s, %d cores, %.0f GiB", cpu.c_str(), AvailableCores(), gib);
  return text;
}

std::string MachineText() { return StrCat(MachineName(), "; gcc ", __VERSION__, "; lightcone ", kVersion, "\n"); }

absl::StatusOr<int64_t> MemoryOf(int pid, const std::string& field) {
  const std::string path = StrCat("/proc/", pid, "/status");
  LC_ASSIGN_OR_RETURN(const std::string status, ReadFile(path));
  const size_t at = status.find("\n" + field + ":");
  if (at == std::string::npos) return Internal(StrCat(path, " has no ", field));
  return std::strtoll(status.c_str() + at + field.size() + 2, nullptr, 10) * 1024;
}

}  // namespace lightcone::bench
