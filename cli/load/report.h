// What `lightcone bench` measured, as a table, as JSON and as a plot. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/load/gallery.h"
#include "cli/load/generator.h"
#include "nlohmann/json_fwd.hpp"

namespace lightcone::cli {

struct LoadPoint {
  uint32_t ef = 0;           // 0: the collection's own
  double target_recall = 0;  // instead, where above 0
  bool exact = false;
  double recall = 0;  // recall at k
  LoadFigures load;
};

struct LoadReport {
  std::string data, metric, server, version;  // version: of this program
  int64_t items = 0, queries = 0, recall_queries = 0;
  int dimension = 0;
  LoadPlan plan;  // ef and exact are the points'
  bool filled = false;
  GalleryTimes times;  // times of filling, if `filled`
  std::vector<LoadPoint> points;
};

// Every line ends with a line feed. Says what failed, and where an open loop fell behind its rate.
std::string LoadText(const LoadReport& report);
nlohmann::ordered_json LoadJson(const LoadReport& report);
// Searches a second over recall, on a logarithmic scale.
std::string LoadSvg(const LoadReport& report);

}  // namespace lightcone::cli
