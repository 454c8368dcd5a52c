// What the pages of all demos share. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/demo/demo_result.h"

namespace lightcone::cli {

// The values as printf writes them.
std::string Printed(const char* format, auto... values) {
  std::string text(static_cast<size_t>(std::max(0, std::snprintf(nullptr, 0, format, values...))), ' ');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text;
}

// The page up to its heading.
std::string PageStart(const std::string& dataset, const std::string& heading);
// Time line, recipe and versions, and the end of the page.
std::string PageEnd(const DemoResult& result);
// Steps of the demo over its time.
std::string TimeLineSvg(const DemoResult& result);

}  // namespace lightcone::cli
